"""Entries of `security.net.allow_domains`: their grammar, what they cover, and the intersection of two. Pure.

Rules (MS-5.2)
1. An entry is an exact name or `*.suffix`; names have at least two labels: not `*`, not `*.com`, not `localhost`.
2. Without a port an entry means 80 and 443; `example.com:8443` means that port only.
3. Names are ASCII, compared in lower case without the root dot. An address is not a name: the last label begins with a
   letter, so that no resolver reads it as a number in any base (`127.1`, `0x7f`).
4. `*.example.com` covers every name below example.com, on label boundaries, but not example.com itself.

The configuration, the policy and the worker's proxy all use this module, so they treat an entry in the same way.
"""

from __future__ import annotations

import re

import msgspec

DEFAULT_PORTS = (80, 443)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_TOP = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
_PORT = re.compile(r"[1-9][0-9]{0,4}")


class Entry(msgspec.Struct, frozen=True):
    """The allowed hosts: `name`, or every name below it."""

    name: str  # lower case, no root dot, no star
    below: bool = False  # written as *.name
    port: int | None = None  # None: DEFAULT_PORTS

    @property
    def ports(self) -> tuple[int, ...]:
        return DEFAULT_PORTS if self.port is None else (self.port,)

    def covers(self, host: str, port: int) -> bool:
        """Whether a host (as `host_name` gives it) may be reached at a port."""
        named = host.endswith(f".{self.name}") if self.below else host == self.name
        return named and port in self.ports

    def __str__(self) -> str:
        return ("*." if self.below else "") + self.name + ("" if self.port is None else f":{self.port}")


def parse_entry(text: str) -> Entry:
    """Read an entry; ValueError has the mistake and what to write instead."""
    if "/" in text:
        raise ValueError(f"{text!r} is a URL; write only the host name, e.g. example.com")
    name, colon, port = text.partition(":")
    below = name.startswith("*.")
    wrong = wrong_name(name[2:] if below else name)
    if wrong:
        raise ValueError(f"{text!r}: {wrong}; an entry is example.com, *.example.com or example.com:8443")
    if colon and not is_port(port):
        raise ValueError(f"{text!r}: the port is a number from 1 to 65535")
    return Entry(host_name(name[2:] if below else name), below, int(port) if colon else None)


def host_name(text: str) -> str:
    """The canonical form of a host name: lower case, no root dot."""
    return text.lower().removesuffix(".")


def wrong_name(text: str) -> str:
    """What is wrong with a host name, or an empty string."""
    if not text.isascii():
        return "the name is not ASCII (write an international name in its xn-- form)"
    name = host_name(text)
    labels = name.split(".")
    if "*" in name:
        return "a star stands only at the front, as in *.example.com"
    if name.startswith("[") or name.count(":") > 1 or labels[-1][:1].isdigit():
        return "an address is not a name"
    if len(labels) < 2:
        return "a name has at least two labels"
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels) or not _TOP.fullmatch(labels[-1]):
        return "this is no host name"
    return ""


def is_port(text: str) -> bool:
    """Whether this is a port number, without leading zeros."""
    return bool(_PORT.fullmatch(text)) and int(text) < 1 << 16


def common(one: Entry, other: Entry) -> tuple[Entry, ...]:
    """The entries that cover what both entries cover."""
    if one.below == other.below:
        inner, outer = sorted((one, other), key=lambda entry: len(entry.name), reverse=True)
        fits = inner.name == outer.name or (inner.below and inner.name.endswith(f".{outer.name}"))
    else:
        outer, inner = (one, other) if one.below else (other, one)
        fits = inner.name.endswith(f".{outer.name}")
    if not fits:
        return ()
    if one.port == other.port:
        return (Entry(inner.name, inner.below, one.port),)
    return tuple(Entry(inner.name, inner.below, port) for port in one.ports if port in other.ports)
