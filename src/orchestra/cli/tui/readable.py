"""A reply for the live rows: JSON as lines of names and values, any other text as it is. Pure.

Many replies are JSON: a plan, a decision, an action. Who watches wants to read what they say, not how it is quoted.

Rules
1. A reply that begins as an object, or as a list of texts, lists or objects, is JSON; a fence may be before it. Its
   marks are left out, each field and each text of a list begins a line, indented by what it is in. What follows its
   end is shown as it is.
2. Strings are decoded as they arrive. What is not complete (an escape, half of a pair) is held back until it is. What
   was decoded may be a secret that was not seen while it was quoted: who shows it masks it again.
3. Nothing is checked. A broken reply is shown as far as it goes: the event that settles the call tells what came of it.
"""

from __future__ import annotations

from typing import Literal

_FENCE = "```"
_OPENS, _CLOSES = "{[", "}]"
_BEGINS = {"{": '"}', "[": '"{['}  # what may come first inside
_SAID = {"n": "\n", "t": "\t", "r": "\n", "b": "", "f": ""}  # other letters behind a backslash are themselves
_LONGEST = 12  # characters of an escape: a pair of `\uXXXX`
_DEEPEST = 8  # steps of indentation
_MOST_HELD = 200  # characters of a fence's line

Kind = Literal["", "text", "json"]  # empty: not known yet


class Readable:
    """One reply."""

    def __init__(self) -> None:
        self._kind: Kind = ""
        self._held = ""  # what is not known yet, or the beginning of an escape
        self._open: list[str] = []  # the brackets that are open
        self._inside = False  # a string
        self._name = False  # the string is the name of a field
        self._value = False  # a value comes: a colon was before
        self._gap = False  # a blank belongs before a number, or a word such as true
        self._line = False  # the line has something
        self._after = False  # what comes is no JSON any more

    def feed(self, text: str) -> str:
        """More of the reply; returns what is to be shown of it."""
        text, self._held = self._held + text, ""
        known, self._kind = self._kind, self._kind or _kind_of(text)
        match self._kind:
            case "json":
                return self._read(text)
            case "text":
                return text if known else text.lstrip()
            case "":
                self._held = _without_blanks(text)
                return ""

    def _read(self, text: str) -> str:
        shown, at = [], 0
        while at < len(text) and not self._after:
            char, size = text[at], 1
            if self._inside and char == "\\":
                size, said = _escape(text[at : at + _LONGEST])
                if not size:
                    self._held = text[at:]  # rule 2
                    break
                shown.append(said)
            elif self._inside and char != '"':
                shown.append(char)
            elif char == '"' and self._open:
                shown.append(self._quote())
            else:
                shown.append(self._mark(char))
            at += size
        return "".join(shown) + (text[at:] if self._after else "")

    def _quote(self) -> str:
        """A string begins or ends."""
        self._inside = not self._inside
        if not self._inside:
            return ":" if self._name else ""
        self._name = self._open[-1] == "{" and not self._value
        before = " " if self._value else self._new_line() + ("" if self._name else "- ")
        self._line, self._value = True, False
        return before

    def _new_line(self) -> str:
        return ("\n" if self._line else "") + "  " * min(len(self._open) - 1, _DEEPEST)

    def _mark(self, char: str) -> str:
        """A character outside of strings."""
        if char in _OPENS:
            self._open.append(char)
            self._value, self._gap = False, True
        elif char in _CLOSES and self._open:
            self._open.pop()
            self._gap = True
        elif not self._open:
            return self._behind(char)
        elif char in ":,":
            self._value, self._gap = char == ":", True
        elif not char.isspace():  # a number, or true, false, null
            before, self._gap, self._line = " " if self._gap and self._line else "", False, True
            return before + char
        return ""

    def _behind(self, char: str) -> str:
        """A character behind the end of the JSON, or between its fence and its beginning."""
        if not self._line or char.isspace() or char in _FENCE:
            return ""
        self._after = True
        return f"\n{char}"


def _kind_of(text: str) -> Kind:
    """What a reply with this beginning is (rule 1)."""
    begun = text.lstrip()
    if _FENCE.startswith(begun[: len(_FENCE)]):
        _, ended, inside = begun.partition("\n")
        if not ended:
            return "text" if len(begun) > _MOST_HELD else ""
        begun = inside.lstrip()
    if begun[:1] not in _BEGINS:
        return "text" if begun else ""
    first = begun[1:].lstrip()[:1]
    if not first:
        return ""
    return "json" if first in _BEGINS[begun[0]] else "text"


def _without_blanks(text: str) -> str:
    """What is not known yet, without blanks that tell nothing: a reply may begin with any number of them."""
    body = text.rstrip()
    blanks = text[len(body) :]
    return body.lstrip() + ("\n" if "\n" in blanks else blanks[:1])


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
