"""Entries of allow_domains: which are read, what they cover, and what two of them have in common (MS-5.2)."""

from __future__ import annotations

import pytest

from orchestra.core.domains import Entry, common, is_port, parse_entry, wrong_name

LONG = ".".join(["a" * 61] * 4)  # 247 characters


def test_a_name_with_a_colon_in_it_is_no_host_name_and_with_two_an_address() -> None:
    assert wrong_name("a:b.com") == "this is no host name"
    assert wrong_name("a:b:c.com") == "an address is not a name"


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("pypi.org", Entry("pypi.org")),
        ("PyPI.org.", Entry("pypi.org")),
        ("*.example.com", Entry("example.com", below=True)),
        ("example.com:8443", Entry("example.com", port=8443)),
        ("*.example.com:22", Entry("example.com", below=True, port=22)),
        ("xn--bcher-kva.example", Entry("xn--bcher-kva.example")),
        ("_dmarc.example.com", Entry("_dmarc.example.com")),
    ],
)
def test_entries_that_are_taken(text: str, entry: Entry) -> None:
    assert parse_entry(text) == entry


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "*.com",
        "*.*",
        "*.*.com",
        "a.*.com",
        "*example.com",
        "com",
        "localhost",
        "",
        ".",
        "..",
        "a..b",
        "example.com..",
        "127.0.0.1",
        "[::1]",
        "::1",
        "127.1",
        "0x7f.1",
        "example.123",
        "https://example.com",
        "example.com/path",
        "example.com:",
        "example.com:0",
        "example.com:080",
        "example.com:65536",
        "example.com:443:443",
        "a b.com",
        "user@example.com",
        "exa%6dple.com",
        "bücher.example",
        "-a.example.com",
        "a-.example.com",
        f"{'a' * 64}.com",
        "example.com\n",
        " example.com",
        f"{'a.' * 130}com",
        "example。com",
    ],
)
def test_entries_that_are_refused_with_a_cure(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|an entry is|the port is"):
        parse_entry(text)


@pytest.mark.spec("S2-78")
@pytest.mark.parametrize(
    ("entry", "host", "port", "covered"),
    [
        ("example.com", "example.com", 443, True),
        ("example.com", "example.com", 80, True),
        ("example.com", "example.com", 8443, False),
        ("example.com", "other.com", 443, False),  # a port alone is no permission
        ("example.com", "www.example.com", 443, False),
        ("Example.COM.:8443", "example.com", 8443, True),
        ("example.com:8443", "example.com", 443, False),
        ("*.example.com", "a.b.example.com", 443, True),
        ("*.example.com", "example.com", 443, False),
        ("*.example.com", "a.example.com", 80, True),
        ("*.example.com", "badexample.com", 443, False),
        ("*.example.com", "example.com.evil.org", 443, False),
    ],
)
def test_an_entry_covers_its_names_at_its_ports_only(entry: str, host: str, port: int, covered: bool) -> None:
    assert parse_entry(entry).covers(host, port) is covered


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("a.b", ""),
        ("localhost", "at least two labels"),
        (f"{LONG}.{'b' * 5}", ""),  # 253 characters
        (f"{LONG}.{'b' * 6}", "no host name"),
        ("127.0.0.1", "an address"),
        ("[::1]", "an address"),
        ("한국.kr", "not ASCII"),
        ("a.*.com", "a star stands only at the front"),
        ("a..com", "no host name"),
    ],
)
def test_what_is_a_name(name: str, wrong: str) -> None:
    assert wrong in wrong_name(name) and bool(wrong_name(name)) is bool(wrong)


@pytest.mark.parametrize(
    ("text", "port"), [("1", True), ("65535", True), ("65536", False), ("0", False), ("080", False)]
)
def test_what_is_a_port(text: str, port: bool) -> None:
    assert is_port(text) is port


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("example.com", "example.com", ["example.com"]),
        ("example.com", "*.example.com", []),
        ("a.example.com", "*.example.com", ["a.example.com"]),
        ("*.a.example.com", "*.example.com", ["*.a.example.com"]),
        ("example.com", "example.com:443", ["example.com:443"]),
        ("example.com", "example.com:8443", []),
        ("a.com", "b.com", []),
        ("a.example.com", "example.com", []),
    ],
)
def test_two_entries_allow_what_both_allow(one: str, other: str, both: list[str]) -> None:
    for pair in ((one, other), (other, one)):
        assert [str(entry) for entry in common(*map(parse_entry, pair))] == both
