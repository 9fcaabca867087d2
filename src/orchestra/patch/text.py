"""A file's lines as bytes, and the keys by which lines are compared.

Rules
1. Bytes are the truth: a line is its bytes up to and with the line feed; context lines are never re-encoded.
2. Lines are compared by keys of falling strictness (`LEVELS`); each level ignores more differences than the one before.
3. Bytes that are no UTF-8 compare as themselves (surrogateescape), so a hunk elsewhere in such a file still applies.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable
from typing import Literal

BOM = "\ufeff"

Level = Literal["literal", "exact", "trailing blanks", "typography"]

_TYPOGRAPHY = str.maketrans(
    dict.fromkeys("‘’‚‛′", "'")
    | dict.fromkeys("“”„‟″", '"')
    | dict.fromkeys("‐‑‒–—―−", "-")
    | dict.fromkeys("\u00a0\u2002\u2003\u2009\u202f\u3000", " ")
    | {"…": "..."}
)


def plain(text: str) -> str:
    """Typographic quotes, dashes and blanks as ASCII; letters in their composed form (macOS writes NFD)."""
    return unicodedata.normalize("NFC", text.translate(_TYPOGRAPHY))


LEVELS: tuple[tuple[Level, Callable[[str], str]], ...] = (
    ("literal", lambda text: text),  # the CR of a CRLF line and a byte order mark included
    ("exact", lambda text: text.removesuffix("\r").removeprefix(BOM)),
    ("trailing blanks", lambda text: text.rstrip().removeprefix(BOM)),
    ("typography", lambda text: plain(text.rstrip().removeprefix(BOM)).rstrip()),
)
KEYS: dict[Level, Callable[[str], str]] = dict(LEVELS)


class FileText:
    """The old image of one file."""

    def __init__(self, data: bytes) -> None:
        self.lines: list[bytes] = data.split(b"\n")
        last = self.lines.pop()
        self.lines = [line + b"\n" for line in self.lines] + ([last] if last else [])
        self.texts: list[str] = [line.removesuffix(b"\n").decode("utf-8", "surrogateescape") for line in self.lines]
        self._keys: dict[Level, list[str]] = {}
        self._counts: dict[Level, Counter[str]] = {}

    def keys(self, level: Level) -> list[str]:
        """All lines, as this level compares them."""
        if level not in self._keys:
            self._keys[level] = list(map(KEYS[level], self.texts))
        return self._keys[level]

    def counts(self, level: Level) -> Counter[str]:
        """How often each line occurs in the file, as this level compares them."""
        if level not in self._counts:
            self._counts[level] = Counter(self.keys(level))
        return self._counts[level]

    @property
    def ends_with_newline(self) -> bool:
        return not self.lines or self.lines[-1].endswith(b"\n")

    def ending(self, index: int) -> bytes:
        """The line ending in use around a line: its own, else that of the line above, else the file's usual one."""
        for near in (index, index - 1, index + 1):
            if 0 <= near < len(self.lines) and (found := _ending(self.lines[near])):
                return found
        usual = Counter(filter(None, map(_ending, self.lines))).most_common(1)
        return usual[0][0] if usual else b"\n"


def _ending(line: bytes) -> bytes:
    return b"\r\n" if line.endswith(b"\r\n") else b"\n" if line.endswith(b"\n") else b""
