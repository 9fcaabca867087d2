"""What a model is shown: of the workspace (`Search` decides it, `Receipt` records it), of a conversation. Pure.

Rules
1. A receipt is kept beside the prompt of its call, and the journal has the names and the line ranges.
2. A file that was shown whole has no `lines`. A file with an empty `lines` was listed or outlined, and no more.
3. Line numbers begin at 1; both ends of a range belong to it.
4. A conversation is recorded in the event that begins its call (core/reading.py), by names and sizes, not by texts.
5. `method` names the version of the ranking: the same version, workspace and search give the same bytes.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from orchestra.core.text import count, some

Lines = tuple[int, int]
_LEFT_SHOWN = 3  # in the line for a person; the receipt has all
_MARKS = " \t>*_`#:."
How = Literal["opened", "asked", "named", "found"]  # by a person; by the model; in a text; by its words


def asks_for_more(text: str, word: str) -> bool:
    """Whether a reply's first line is this word, with or without marks around it (`**NEED:**`)."""
    lines = text.strip().splitlines()
    return bool(lines) and lines[0].strip(_MARKS) == word


class Wanted(Struct, frozen=True, omit_defaults=True):
    """One thing that a model asked to see: a file, lines of a file, or the places where a term occurs."""

    file: str = ""
    lines: Lines | None = None
    search: str = ""

    @property
    def place(self) -> str:
        """The file, with its lines if only these are wanted: `PATH:A-B`."""
        return self.file + (f":{self.lines[0]}-{self.lines[1]}" if self.lines else "")

    def __str__(self) -> str:
        return f"search: {self.search}" if self.search else f"file: {self.place}"


class Search(Struct, frozen=True):
    """What decides which files, and which lines of them, a model is shown."""

    hints: tuple[str, ...]  # goal, plan, notes: their words are searched for, the files that they name go in
    traces: tuple[str, ...] = ()  # output of failing checks: files and lines that it names come first
    wanted: tuple[Wanted, ...] = ()  # what the model asked for in its replies so far
    mayAsk: bool = False  # the model may ask for more in this reply
    inJson: bool = False  # the reply is JSON, so it asks by an object


class Opened(Struct, frozen=True, omit_defaults=True):
    """A file that a person opened: `--context FILE[:A-B]`."""

    path: str
    lines: Lines | None = None


class Shown(Struct, frozen=True, omit_defaults=True):
    """One file of a receipt."""

    path: str
    how: How
    reason: str
    bytes: int
    tokens: int  # estimated
    score: float = 0.0
    lines: tuple[Lines, ...] | UnsetType = UNSET  # rule 2


class LeftOut(Struct, frozen=True, omit_defaults=True):
    """A file, or lines of one, that there was no room for."""

    path: str
    why: str
    lines: tuple[Lines, ...] = ()  # empty: the whole file


class Receipt(Struct, frozen=True, omit_defaults=True):
    """What one call was shown of the workspace, and why."""

    method: str
    files: tuple[Shown, ...] = ()
    bytes: int = 0  # of file contents
    terms: dict[str, int] = {}  # each term that was searched for, and in how many files it occurs
    notFound: tuple[str, ...] = ()  # terms that occur nowhere
    leftOut: tuple[LeftOut, ...] = ()
    refused: tuple[str, ...] = ()  # what a model asked for and does not get, with the reason
    rules: tuple[str, ...] = ()  # the files with the project's own rules that the call was told
    durationMs: int = 0

    @property
    def parts(self) -> dict[str, tuple[Lines, ...]]:
        """The files of which some lines were shown, and these lines."""
        return {file.path: file.lines for file in self.files if not isinstance(file.lines, UnsetType) and file.lines}

    @property
    def contents(self) -> tuple[Shown, ...]:
        """The files of which at least one line was shown."""
        return tuple(file for file in self.files if isinstance(file.lines, UnsetType) or file.lines)

    @property
    def line(self) -> str:
        """One line for a person: how many files, how they were found, what is only outlined, what was left out."""
        how = Counter(file.how for file in self.contents)
        words = [f"{how[one]} {word}" for one, word in _WORDS.items() if how[one]]
        if outlines := len(self.files) - len(self.contents):
            words.append(f"{outlines} outlined")
        found = f" ({', '.join(words)})" if words else ""
        out = [file.path + spoken(file.lines) for file in self.leftOut]
        left = f"; left out: {some(out, _LEFT_SHOWN)}" if out else ""
        return f"context: {count(len(self.contents), 'file')}, {-(-self.bytes // 1000)} KB{found}{left}"


class Piece(Struct, frozen=True, omit_defaults=True):
    """A message, or the output of a command, in a prompt. `shown` and `total` count characters."""

    name: str  # the tag of a message, or its role; the command
    tokens: int  # estimated, of what was shown
    shown: int
    total: int
    step: int = 0  # of a command


class Omitted(Struct, frozen=True, omit_defaults=True):
    """Messages, or the output of a command, that a prompt does not have."""

    name: str
    why: str
    tokens: int  # estimated
    count: int = 1  # of the messages with this name; 0: they are there, but shortened
    step: int = 0  # of a command


class Conversation(Struct, frozen=True, omit_defaults=True):
    """What one call was told of its conversation: each message, each piece of evidence, and what was left out."""

    messages: tuple[Piece, ...] = ()  # in the order of the request
    evidence: tuple[Piece, ...] = ()
    leftOut: tuple[Omitted, ...] = ()
    tokens: int = 0  # estimated, of the whole request


class ShownLines(Struct, frozen=True, omit_defaults=True):
    """What a model has seen of the workspace when it wrote a reply: whole files, and lines of others."""

    whole: tuple[str, ...] = ()
    parts: dict[str, tuple[Lines, ...]] = {}


_WORDS: dict[How, str] = {"opened": "opened by you", "named": "named", "found": "found", "asked": "asked for"}


def spoken(lines: tuple[Lines, ...]) -> str:
    """Line ranges as text, with a leading comma; empty if there are none."""
    return f", lines {ranges(lines)}" if lines else ""


def ranges(lines: tuple[Lines, ...], most: int = 4) -> str:
    """Line ranges as text: `3-5, 9`; at most so many."""
    return some([f"{first}-{last}" if last != first else str(first) for first, last in lines], most)
