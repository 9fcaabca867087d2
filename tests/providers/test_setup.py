"""What a provider is set up with: the address of its server."""

from __future__ import annotations

import pytest

from orchestra.providers.setup import wrong_url


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:8080/v1", ""),
        ("https://example.org", ""),
        ("http://[::1]/v1", ""),
        ("ftp://example.org", "is no address"),
        ("example.org/v1", "is no address"),
        ("http://", "is no address"),
        ("http:///v1", "is no address"),
        ("http://example.org:99999/v1", "is no address"),
        ("http://[::1/v1", "is no address"),
        ("http://example.org/v1?key=x", "has a query or a fragment"),
        ("http://example.org/v1#part", "has a query or a fragment"),
        ("http://me:secret@example.org/v1", "must not hold a password"),
    ],
)
def test_what_is_no_servers_address_is_told_with_the_reason(url: str, why: str) -> None:
    assert (why in wrong_url(url)) if why else wrong_url(url) == ""
