"""A table: a server's status -> one of S1's five error codes, and whether a retry may help (S1-27, S1-28)."""

from __future__ import annotations

from orchestra.core.errors import ProviderErrorCode

Meaning = tuple[ProviderErrorCode, bool]  # code, retriable

_STATUS: dict[int, Meaning] = {
    401: ("AUTH", False),
    402: ("AUTH", False),
    403: ("AUTH", False),
    404: ("UNKNOWN", False),  # a wrong server, a wrong path or a wrong model
    405: ("UNKNOWN", False),
    407: ("AUTH", False),
    408: ("TIMEOUT", True),
    409: ("UNKNOWN", True),
    425: ("UNKNOWN", True),
    429: ("RATE_LIMIT", True),
    504: ("TIMEOUT", True),
    529: ("RATE_LIMIT", True),
}


def meaning(status: int) -> Meaning:
    """The code for a status other than 200."""
    if status in _STATUS:
        return _STATUS[status]
    if 400 <= status < 500:
        return "BAD_REQUEST", False
    return "UNKNOWN", status >= 500  # a redirect would leave the configured server: it is not followed
