"""Unified diff text -> file changes. Total: any string gives changes or a `Refusal`, never an exception.

Rules
1. Hunk counts are never trusted (T-1: the sample of S1 is wrong); line numbers are kept as a hint. Counts only
   ever warn: a line that could be a header is still inside a hunk; a hunk may have lost lines (`miscounted`).
2. No `+` or `-` line is ever dropped silently: if one is outside a hunk, the whole diff is refused.
3. Mistakes that do not change the meaning are accepted: `@@ @@`, no `@@` at all, no a/ b/, blank context lines
   without their leading blank, a CRLF diff, fences, prose before the first header and after the last hunk.
4. The header lines must agree; two names for one side are refused, and none is chosen.
5. A file begins with `diff --git`, or without it with `---` and `+++`, mode and index lines above them included. Such a
   header is *bare*: `read_sections` returns its lines, so that normal.py can write it in full.

It does not check paths and modes (safety.py) and reads no file (locate.py). header.py reads the per-file header.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from orchestra.core.work import Refusal
from orchestra.patch.header import Kind, OpenHeader, is_extended, is_move
from orchestra.patch.paths import read_name

Op = Literal[" ", "+", "-"]

MAX_DIFF_BYTES = 2 * 1024 * 1024  # MS-6.8
HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_SIGNATURE = re.compile(r"\d+(\.\d+)+\S*")  # what git format-patch writes below "-- "


class Line(msgspec.Struct, frozen=True):
    """One line of a hunk, without its line feed. `newline` is False when "\\ No newline at end of file" follows."""

    op: Op
    text: str
    newline: bool = True


class Hunk(msgspec.Struct, frozen=True):
    """`start` is the claimed first line in the old file, if any. The last `soft` lines had no prefix: perhaps context,
    perhaps only the blank line or the prose below the diff. `miscounted`: the header's counts do not fit the lines;
    `missing`: so many lines more would make them fit on both sides, as if context had been left out. `raw`: its context
    has no leading blanks, so a line of the file that begins with a sign cannot be told from a change."""

    start: int | None
    lines: tuple[Line, ...]
    soft: int = 0
    miscounted: bool = False
    missing: int = 0
    raw: bool = False

    @property
    def changes(self) -> bool:
        return any(line.op != " " for line in self.lines)


class FileChange(msgspec.Struct, frozen=True):
    """The change of one file. `mode` is the mode that the file shall get; `modes` are all modes in its header."""

    kind: Kind
    old: str | None
    new: str | None
    hunks: tuple[Hunk, ...] = ()
    mode: str | None = None
    modes: tuple[str, ...] = ()
    binary: bool = False

    @property
    def path(self) -> str:
        """The name the file has afterwards; for a delete, the name it had."""
        return self.new or self.old or ""

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path this change touches."""
        return tuple(dict.fromkeys(name for name in (self.old, self.new) if name is not None))


class Section(msgspec.Struct, frozen=True):
    """One file of a diff. `bare` is the range of its header lines (the last excluded), if the `diff --git` line is
    missing."""

    change: FileChange
    bare: tuple[int, int] | None = None


class Sections(msgspec.Struct, frozen=True):
    """A whole diff: its lines, without changes by the transport (CR, signature), and its files."""

    lines: tuple[str, ...]
    files: tuple[Section, ...]


def parse_diff(diff: str) -> tuple[FileChange, ...] | Refusal:
    """Read every file of a diff."""
    read = read_sections(diff)
    return read if isinstance(read, Refusal) else tuple(section.change for section in read.files)


def read_sections(diff: str) -> Sections | Refusal:
    """Read every file of a diff, with the position of its header."""
    refused = _unreadable(diff)
    if refused:
        return refused
    lines = _without_signature(_without_cr(diff.removesuffix("\n").split("\n")))
    opened = _Reader(lines).read()
    if isinstance(opened, Refusal):
        return opened
    if not opened:
        return Refusal("invalid_patch", "the diff names no file: want `diff --git a/PATH b/PATH`, `--- `, `+++ `, `@@`")
    prefixed = not any(section.header.unprefixed for section in opened)
    sections: list[Section] = []
    for section in opened:
        change = section.close(prefixed=prefixed)
        if isinstance(change, Refusal):
            return change
        sections.append(Section(change, section.bare))
    return Sections(tuple(lines), tuple(sections))


def ends_inside_hunk(lines: Sequence[str]) -> bool:
    """Whether the last hunk lacks lines on both sides by its own counts.

    Both, because one wrong number is an everyday mistake (T-1), while a cut leaves both short.
    """
    for index in range(len(lines) - 1, -1, -1):
        if lines[index].startswith("@@"):
            hunk = OpenHunk(lines[index])
            for line in lines[index + 1 :]:
                hunk.add(line)
            return hunk.short
        if lines[index].startswith("diff --git "):
            return False
    return False


class OpenHunk:
    """A hunk being read."""

    def __init__(self, header: str = "@@") -> None:
        numbers = HUNK.match(header)
        self._start = int(numbers[1]) if numbers else None
        self._want = tuple(1 if count is None else int(count) for count in numbers.group(2, 4)) if numbers else None
        self._lines: list[tuple[Line, bool]] = []  # the line, and whether it had its prefix

    @property
    def short(self) -> bool:
        """Whether the header's counts promise more lines on both sides. Unprefixed lines at the end do not count."""
        return self._want is not None and all(lack > 0 for lack in self._lacks())

    @property
    def lacks_a_pair(self) -> bool:
        """Whether exactly one removed and one added line would make the header's counts right."""
        return self._want is not None and self._lacks() == [1, 1]

    def add(self, line: str) -> None:
        match line[:1]:
            case "+" | "-" | " " as op:
                self._lines.append((Line(op, line[1:]), True))
            case "\\":
                if self._lines:
                    last, prefixed = self._lines[-1]
                    self._lines[-1] = (msgspec.structs.replace(last, newline=False), prefixed)
            case _:
                self._lines.append((Line(" ", line), False))

    def close(self) -> Hunk:
        tail = self._tail()
        body = self._lines[: len(self._lines) - tail]
        # A context line with text but without prefix: this hunk's context was written raw, so its blanks are text too.
        raw = any(not prefixed and line.text.strip() for line, prefixed in body)
        lines = [
            Line(" ", f" {line.text}", line.newline) if raw and prefixed and line.op == " " else line
            for line, prefixed in body
        ]
        lines += [line for line, _ in self._lines[len(body) :]]
        counts = {self._have(size) for size in range(len(body), len(self._lines) + 1)}
        miscounted = self._want is not None and self._want not in counts
        old, new = self._lacks()
        missing = max(old, 0) if miscounted and old == new else 0
        return Hunk(self._start, tuple(lines), tail, miscounted=miscounted, missing=missing, raw=raw)

    def _lacks(self) -> list[int]:
        have = self._have(len(self._lines) - self._tail())
        return [want - count for want, count in zip(self._want or have, have, strict=True)]

    def _have(self, size: int) -> tuple[int, ...]:
        """Old and new lines among the first `size` lines."""
        ops = [line.op for line, _ in self._lines[:size]]
        return len(ops) - ops.count("+"), len(ops) - ops.count("-")

    def _tail(self) -> int:
        count = 0
        while count < len(self._lines) and not self._lines[-1 - count][1]:
            count += 1
        return count


class _Section:
    """One file of the diff being read."""

    def __init__(self, header: OpenHeader, bare: tuple[int, int] | None = None) -> None:
        self.header = header
        self.bare = bare
        self.hunks: list[OpenHunk] = []

    def close(self, *, prefixed: bool) -> FileChange | Refusal:
        header = self.header.close(prefixed=prefixed)
        if isinstance(header, str):
            name = self.header.guess()
            return Refusal("invalid_patch", f"{name or 'a file of the diff'}: {header}", name)
        return FileChange(
            kind=header.kind,
            old=header.old,
            new=header.new,
            hunks=tuple(hunk.close() for hunk in self.hunks),
            mode=header.mode,
            modes=header.modes,
            binary=header.binary,
        )


class _Reader:
    """Assigns the lines to sections. `_hunk` is the one being read; None between hunks and in headers."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._sections: list[_Section] = []
        self._hunk: OpenHunk | None = None

    def read(self) -> list[_Section] | Refusal:
        index = 0
        while index < len(self._lines):
            line = self._lines[index]
            if line.startswith("diff --git "):
                self._open(OpenHeader(line.removeprefix("diff --git ").rstrip("\r")))
            elif line.startswith(("diff --cc ", "diff --combined ", "@@@")):
                what = f"line {index + 1} of the diff, {line[:80]!r}"
                return Refusal("invalid_patch", f"combined diffs cannot be applied: {what}")
            elif size := self._header_lines(index):
                self._name(index, size)
                index += size - 1
            elif refused := self._take(line, index):
                return refused
            index += 1
        return self._sections

    def _take(self, line: str, index: int) -> Refusal | None:
        """A line that opens no file: a hunk header, a line of the hunk, a header line, or prose."""
        section = self._sections[-1] if self._sections else None
        if section is None:
            if HUNK.match(line):
                why = f"line {index + 1} of the diff is a hunk, but no file was named before it"
                return Refusal("invalid_patch", why)
        elif section.header.binary:
            pass  # data lines of a binary patch; safety.py refuses the file
        elif line.startswith("@@"):
            self._hunk = OpenHunk(line)
            section.hunks.append(self._hunk)
        elif line.startswith("```"):
            self._hunk = None  # the fence around the diff; a fence in a file has a prefix
        elif self._hunk is not None:
            self._hunk.add(line)
        elif line[:1] in ("+", "-"):
            if section.hunks or not section.header.named:
                name = section.header.guess()
                why = f"{name}: line {index + 1} of the diff is outside a hunk: {line[:80]!r}"
                return Refusal("invalid_patch", why, name)
            self._hunk = OpenHunk()  # `+++` and then the lines, without `@@`
            section.hunks.append(self._hunk)
            self._hunk.add(line)
        else:
            section.header.add(line.rstrip("\r"))
        return None

    def _header_lines(self, index: int) -> int:
        """How many lines from here on are a header without `diff --git`, or the `---` and `+++` of one with it."""
        end = index
        if self._between_files:  # mode, index and rename lines belong to a file only where a new one may begin
            while end < len(self._lines) and is_extended(self._lines[end]):
                end += 1
        if self._names_files(end, sure=end > index):
            return end + 2 - index
        moves = {line.split(" ")[1] for line in self._lines[index:end] if is_move(line)}
        return end - index if moves == {"from", "to"} else 0

    @property
    def _between_files(self) -> bool:
        last = self._sections[-1] if self._sections else None
        return last is None or last.header.named or bool(last.hunks)

    def _names_files(self, index: int, *, sure: bool) -> bool:
        """Whether the lines here are a `---`/`+++` pair, rather than a removed `-- ` and an added `++ ` line."""
        pair = self._lines[index : index + 3]
        if len(pair) < 2 or not pair[0].startswith("--- ") or not pair[1].startswith("+++ "):
            return False
        if self._hunk is None or sure:
            return True
        followed = len(pair) == 3 and pair[2].startswith("@@")
        old, new = (read_name(line[4:].rstrip("\r")) for line in pair[:2])
        marked = "/dev/null" in (old, new) or (old is not None and (old == new or old.startswith("a/")))
        return followed and marked and not self._hunk.lacks_a_pair

    def _name(self, index: int, size: int) -> None:
        """Read the header lines here, as those of a new file or of the `diff --git` line above."""
        if self._between_files:
            self._open(OpenHeader(), (index, index + size))
        lines = [line.rstrip("\r") for line in self._lines[index : index + size]]
        named = lines[-1].startswith("+++ ")
        for line in lines[:-2] if named else lines:
            self._sections[-1].header.add(line)
        if named:
            self._sections[-1].header.name(lines[-2][4:], lines[-1][4:])
        self._hunk = None

    def _open(self, header: OpenHeader, bare: tuple[int, int] | None = None) -> None:
        self._sections.append(_Section(header, bare))
        self._hunk = None


def _unreadable(diff: str) -> Refusal | None:
    if len(diff) > MAX_DIFF_BYTES or len(diff.encode("utf-8", "surrogatepass")) > MAX_DIFF_BYTES:
        return Refusal("unsafe", f"the diff is larger than {MAX_DIFF_BYTES // 1024 // 1024} MiB; send smaller patches")
    if "\0" in diff:
        return Refusal("unsafe", "the diff holds NUL characters: binary data is refused")  # S1-91
    if re.search(r"[\ud800-\udfff]", diff):
        return Refusal("invalid_patch", "the diff holds lone surrogates: it is no valid Unicode text")
    return None


def _without_cr(lines: list[str]) -> list[str]:
    """Remove the CRs of a CRLF diff: if git's own lines end with CR, the transport added all CRs. Else a CR is text."""
    own = [line for line in lines if line.startswith(("diff --git ", "@@", "--- ", "+++ "))]
    if own and all(line.endswith("\r") for line in own):
        return [line.removesuffix("\r") for line in lines]
    return lines


def _without_signature(lines: list[str]) -> list[str]:
    """Drop the "-- / 2.39.5" that git format-patch writes last: its first line would read as a removed "- "."""
    last = [index for index, line in enumerate(lines) if line.strip()][-2:]
    if last and lines[last[0]].rstrip() == "--" and _SIGNATURE.fullmatch(lines[last[-1]].strip()):
        return lines[: last[0]]
    return lines
