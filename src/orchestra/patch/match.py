"""Finds a hunk's lines in a file, exactly or with small differences (MS-6.4).

Rules
1. Falling strictness: literal, exact, trailing blanks, typography, uniform indentation. The first level that matches
   decides: one place, or the one place that the line number names exactly. For two places the result is `Several`.
2. A hunk whose counts do not fit its lines may have lost lines. A place made only of lines that occur more than once
   in the file is then not accepted, unless the line number names it.
3. Whatever level matched, the file's own bytes stay; only the added lines come from the patch.
4. A hunk that fits only with all lines indented alike is found, but with a doubt: that the added lines are
   to be indented too is likely, and cannot be known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from orchestra.patch.diff import Hunk, Line
from orchestra.patch.text import KEYS, LEVELS, FileText, Level, plain


class Place(msgspec.Struct, frozen=True):
    """A hunk's lines, and the file line of its first old line. `literal`: line endings matched too. `doubt`: what
    is likely but cannot be known, so a person decides."""

    start: int
    lines: tuple[Line, ...]
    literal: bool = False
    doubt: str = ""


class Several(msgspec.Struct, frozen=True):
    """More than one place fits; `starts` are file lines, counted from 0."""

    starts: tuple[int, ...]


class Nowhere(msgspec.Struct, frozen=True):
    """No place fits; `note` describes a near match. `final`: the place is unknowable, so no looser rule is tried."""

    note: str = ""
    final: bool = False


Found = Place | Several | Nowhere


def occurrences(wanted: Sequence[str], keys: Sequence[str]) -> tuple[int, ...]:
    """Every index at which `wanted` occurs in `keys`."""
    size = len(wanted)
    if not size:
        return ()
    first, whole = wanted[0], list(wanted)
    return tuple(i for i in range(len(keys) - size + 1) if keys[i] == first and list(keys[i : i + size]) == whole)


def old_lines(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if line.op != "+"]


def strictly(hunk: Hunk, file: FileText) -> Found:
    """The one place of a hunk by rule 1."""
    if not old_lines(hunk.lines):
        if file.lines:
            return Nowhere("the hunk has no context lines, so its place is unknown")
        return Place(0, hunk.lines, literal=True)
    found = by_levels(hunk, file)
    return _indented(hunk, file) if found == Nowhere() else found


def by_levels(hunk: Hunk, file: FileText) -> Found:
    """All levels but indentation. A `Nowhere` with a note means: found, but not accepted (rule 2)."""
    old = old_lines(hunk.lines)
    for level, key in LEVELS:
        starts = occurrences([key(line.text) for line in old], file.keys(level))
        if starts:
            start = _choose(starts, hunk.start)
            if start is None:
                return Several(starts)
            if hunk.miscounted and start + 1 != hunk.start and not telling(old, file, level):
                return Nowhere("lines seem to be missing from the hunk, and those left are common ones")
            if hunk.missing and _at_a_loose_end(hunk, file, start):
                return Nowhere(
                    "context seems to be missing beside the added lines, so their place is unknown", final=True
                )
            if level == "typography" and _altered(hunk, file, start):
                return Nowhere("the patch has typographic quotes or dashes where the file has plain ones")
            return Place(start, hunk.lines, literal=level == "literal")
    return Nowhere()


def _choose(starts: tuple[int, ...], hint: int | None) -> int | None:
    if len(starts) == 1:
        return starts[0]
    return hint - 1 if hint is not None and hint - 1 in starts else None


def telling(old: Sequence[Line], file: FileText, level: Level) -> bool:
    """Whether one of the lines has text and is unique in the file, so that it identifies the place."""
    keys = file.counts(level)
    return any(re.search(r"\w", line.text) and keys[KEYS[level](line.text)] == 1 for line in old)


def _at_a_loose_end(hunk: Hunk, file: FileText, start: int) -> bool:
    """Whether added lines have context on one side only, though the file continues: lines may be missing there."""
    above = start > 0 and _only_adds_first(hunk.lines)
    below = start + len(old_lines(hunk.lines)) < len(file.lines) and _only_adds_first(hunk.lines[::-1])
    return above or below


def _only_adds_first(lines: Sequence[Line]) -> bool:
    """Whether lines are added before the first context line and none is removed: only that context gives the place."""
    ops = "".join(line.op for line in lines)
    return ops.startswith("+") and ops.lstrip("+").startswith(" ")


def _altered(hunk: Hunk, file: FileText, start: int) -> bool:
    """Whether the patch's own text was prettified: then its added lines cannot be trusted either."""
    pairs = zip(old_lines(hunk.lines), file.texts[start:], strict=False)
    prettified = any(plain(line.text) != line.text and plain(text) == text for line, text in pairs)
    return prettified and any(plain(line.text) != line.text for line in hunk.lines if line.op == "+")


def _indented(hunk: Hunk, file: FileText) -> Found:
    """The hunk with one and the same indentation added to, or missing from, all its lines."""
    old = [line.text.rstrip() for line in old_lines(hunk.lines)]
    stripped = [text.lstrip() for text in file.keys("trailing blanks")]
    shifts = {
        start: shift
        for start in occurrences([text.lstrip() for text in old], stripped)
        if (shift := _shift(old, file.keys("trailing blanks")[start : start + len(old)]))
    }
    if not shifts:
        return Nowhere()
    start = _choose(tuple(shifts), hunk.start)
    if start is None:
        return Several(tuple(shifts))
    more, less = shifts[start]
    if more == " " and not any(line.op == "-" and line.text.strip() for line in hunk.lines):
        # Context that lost its one-blank prefix looks the same, and then the added lines are right as they are.
        return Nowhere("the context lines lack one leading blank; each needs a blank before its own indentation")
    lines: list[Line] = []
    for line in hunk.lines:
        if line.op == "+" and line.text.strip():
            if not line.text.startswith(less):
                return Nowhere("the hunk's lines are not indented like the file's")
            line = msgspec.structs.replace(line, text=more + line.text.removeprefix(less))
        lines.append(line)
    moved = more or less
    size = f"{len(moved)} {'tab' if chr(9) in moved else 'blank'}{'s' if len(moved) > 1 else ''}"
    than = f"{size} {'less' if more else 'more'} than the file's"
    doubt = f"its lines are indented by {than}; its added lines were moved alike, which may be wrong"
    return Place(start, tuple(lines), doubt=doubt if any(line.op == "+" for line in lines) else "")


def _shift(patch: Sequence[str], file: Sequence[str]) -> tuple[str, str] | None:
    """(what the patch's lines lack, what they have too much) if it is the same for all lines with text."""
    found: set[tuple[str, str]] = set()
    for ours, theirs in zip(patch, file, strict=True):
        if not ours:
            continue
        if theirs.endswith(ours):
            found.add((theirs[: len(theirs) - len(ours)], ""))
        elif ours.endswith(theirs):
            found.add(("", ours[: len(ours) - len(theirs)]))
        else:
            return None
    return found.pop() if len(found) == 1 else None
