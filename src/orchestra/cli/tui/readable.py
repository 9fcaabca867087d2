"""A reply for the live rows: JSON as lines of names and values, any other text as it is. Pure.

Many replies are JSON: a plan, a decision, an action. Who watches wants to read what they say, not how it is quoted.

Rules
1. A reply that begins with `{`, `[` or a fence before them is JSON. Its marks are left out, each field begins a line.
2. Strings are decoded as they arrive. What is not complete (an escape, half of a pair) is held back until it is.
3. Nothing is checked. A broken reply is shown as far as it goes: the event that settles the call tells what came of it.
"""

from __future__ import annotations

from typing import Literal

_FENCE = "`"
_LONGEST = 12  # characters of an escape: a pair of `\uXXXX`
_OPENS, _CLOSES = "{[", "}]"
_SAID = {"n": "\n", "t": "\t", "r": "\n", "b": "", "f": ""}  # other letters behind a backslash are themselves


class Readable:
    """One reply."""

    def __init__(self) -> None:
        self._kind: Literal["", "text", "json"] = ""  # empty: not known yet
        self._held = ""  # what is not known yet, or the beginning of an escape
        self._open: list[str] = []  # the brackets that are open
        self._inside = False  # a string
        self._name = False  # the string is the name of a field
        self._value = False  # a value comes: a colon was before
        self._line = False  # the line has something

    def feed(self, text: str) -> str:
        """More of the reply; returns what is to be shown of it."""
        text, self._held = self._held + text, ""
        self._kind = self._kind or _kind_of(text)
        match self._kind:
            case "json":
                return "".join(self._read(text))
            case "text":
                return text
            case "":
                self._held = text
                return ""

    def _read(self, text: str) -> list[str]:
        shown, at = [], 0
        while at < len(text):
            char = text[at]
            size = 1
            if self._inside and char == "\\":
                size, said = _escape(text[at : at + _LONGEST])
                if not size:
                    self._held = text[at:]  # rule 2
                    break
                shown.append(said)
            elif self._inside and char != '"':
                shown.append(char)
            elif char == '"':
                shown.append(self._quote())
            else:
                shown.append(self._mark(char))
            at += size
        return shown

    def _quote(self) -> str:
        """A string begins or ends."""
        self._inside = not self._inside
        if not self._inside:
            return ": " if self._name else ""
        self._name = bool(self._open) and self._open[-1] == "{" and not self._value
        new = self._line and not self._value
        self._line, self._value = True, False
        return "\n" if new else ""

    def _mark(self, char: str) -> str:
        """A character outside of strings."""
        if char in _OPENS:
            self._open.append(char)
            self._value = False
        elif char in _CLOSES:
            del self._open[-1:]
        elif char == ":":
            self._value = True
        elif char == ",":
            self._value = False
            return " " if self._open[-1:] == ["["] else ""
        elif not char.isspace() and self._open:
            return char  # a number, or true, false, null
        return ""


def _kind_of(text: str) -> Literal["", "text", "json"]:
    """What a reply with this beginning is; empty if it may be either (rule 1)."""
    begun = text.lstrip()
    if begun.startswith(_FENCE):
        _, ended, begun = begun.partition("\n")
        begun = begun.lstrip() if ended else ""
    if not begun:
        return ""
    return "json" if begun[0] in _OPENS else "text"


def _escape(text: str) -> tuple[int, str]:
    """How many characters an escape at the beginning has, and what it stands for; 0 if it is not complete."""
    if len(text) < 2:
        return 0, ""
    if text[1] != "u":
        return 2, _SAID.get(text[1], text[1])
    first = _unit(text)
    if first is None:
        return (0, "") if len(text) < 6 else (2, "u")
    if not 0xD800 <= first < 0xDC00:
        return 6, "\ufffd" if 0xDC00 <= first < 0xE000 else chr(first)
    second = _unit(text[6:])
    if second is None:
        return (0, "") if len(text) < 12 and "\\u".startswith(text[6:8]) else (6, "\ufffd")
    if 0xDC00 <= second < 0xE000:
        return 12, chr(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))
    return 6, "\ufffd"


def _unit(text: str) -> int | None:
    """The number of a `\\uXXXX` at the beginning; None if there is none, or not all of it."""
    digits = text[2:6]
    if not text.startswith("\\u") or len(digits) < 4 or not all(one in "0123456789abcdefABCDEF" for one in digits):
        return None
    return int(digits, 16)
