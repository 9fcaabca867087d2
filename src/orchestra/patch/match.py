"""Where a hunk belongs in a file: found by its text, never guessed (sandbox.md §6, strategy 4).

Rules
1. Falling strictness: literal, exact, trailing blanks, typography, uniform indentation. The first level that matches
   decides: one place, or the one place the line number names exactly. Two places is an answer too: `Several`.
2. Only if no level matches is context loosened, and then only a single place will do: outer context lines may be
   dropped while every side that had context keeps some; else up to 3 context lines may be merely similar. Removed lines
   always match. No line of the file is ever skipped inside a hunk.
3. `...` standing for left-out context splits the hunk, unless it touches a change: then the place is unknowable.
4. Whatever level matched, the file's own bytes stay; only the added lines come from the patch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

import msgspec

from orchestra.patch.diff import Hunk, Line
from orchestra.patch.text import KEYS, LEVELS, FileText, Level, plain

SIMILAR = 0.9
MAX_SIMILAR = 3
_ELISION = re.compile(r"\s*(?:#|//|--|/\*|<!--)?\s*(?:\.\.\.|…)\s*(?:\*/|-->)?\s*")
_LOOSE: tuple[Level, ...] = ("literal", "exact", "trailing blanks")


class Place(msgspec.Struct, frozen=True):
    """A hunk's lines and the file line its first old line is. `literal`: line endings matched too."""

    start: int
    lines: tuple[Line, ...]
    literal: bool = False


class Several(msgspec.Struct, frozen=True):
    """More than one place fits; `starts` are file lines, counted from 0."""

    starts: tuple[int, ...]


class Nowhere(msgspec.Struct, frozen=True):
    """No place fits; `note` adds what was nearly so."""

    note: str = ""


Found = Place | Several | Nowhere


def find(hunk: Hunk, file: FileText) -> tuple[Place, ...] | Several | Nowhere:
    """The place of a hunk; of each of its parts, if it leaves out context by `...`."""
    hard = msgspec.structs.replace(hunk, lines=hunk.lines[: len(hunk.lines) - hunk.soft], soft=0)
    found = _strict(hunk, file)
    if isinstance(found, Nowhere) and hunk.soft:
        found = _strict(hard, file)
    if not isinstance(found, Nowhere):
        return _settled(found)
    parts = _split_at_elisions(hard)
    if parts:
        return _find_parts(parts, file)
    for attempt in (_without_edges, _similar):
        loose = attempt(hard, file)
        if not isinstance(loose, Nowhere):
            return _settled(loose)
    return found


def _settled(found: Place | Several) -> tuple[Place, ...] | Several:
    return (found,) if isinstance(found, Place) else found


def occurrences(wanted: Sequence[str], keys: Sequence[str]) -> tuple[int, ...]:
    """Every index at which `wanted` stands in `keys`."""
    size = len(wanted)
    if not size:
        return ()
    first, whole = wanted[0], list(wanted)
    return tuple(i for i in range(len(keys) - size + 1) if keys[i] == first and list(keys[i : i + size]) == whole)


def _old(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if line.op != "+"]


def _strict(hunk: Hunk, file: FileText) -> Found:
    """Rule 1."""
    old = _old(hunk.lines)
    if not old:
        if file.lines:
            return Nowhere("the hunk has no context lines, so its place is unknown")
        return Place(0, hunk.lines, literal=True)
    for level, key in LEVELS:
        starts = occurrences([key(line.text) for line in old], file.keys(level))
        if starts:
            start = _choose(starts, hunk.start)
            if start is None:
                return Several(starts)
            if level == "typography" and _altered(hunk, file, start):
                return Nowhere("the patch has typographic quotes or dashes where the file has plain ones")
            return Place(start, hunk.lines, literal=level == "literal")
    return _indented(hunk, file)


def _choose(starts: tuple[int, ...], hint: int | None) -> int | None:
    if len(starts) == 1:
        return starts[0]
    return hint - 1 if hint is not None and hint - 1 in starts else None


def _altered(hunk: Hunk, file: FileText, start: int) -> bool:
    """Whether the patch's own text was prettified: then its added lines cannot be trusted either."""
    pairs = zip(_old(hunk.lines), file.texts[start:], strict=False)
    prettified = any(plain(line.text) != line.text and plain(text) == text for line, text in pairs)
    return prettified and any(plain(line.text) != line.text for line in hunk.lines if line.op == "+")


def _indented(hunk: Hunk, file: FileText) -> Found:
    """The hunk with one and the same indentation added to, or missing from, all its lines."""
    old = [line.text.rstrip() for line in _old(hunk.lines)]
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
    if more == " " and not any(line.op == "-" for line in hunk.lines):
        # Context that lost its one-blank prefix looks the same, and then the added lines are right as they are.
        return Nowhere("the context lines lack one leading blank; each needs a blank before its own indentation")
    lines: list[Line] = []
    for line in hunk.lines:
        if line.op == "+" and line.text.strip():
            if not line.text.startswith(less):
                return Nowhere("the hunk's lines are not indented like the file's")
            line = msgspec.structs.replace(line, text=more + line.text.removeprefix(less))
        lines.append(line)
    return Place(start, tuple(lines))


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


def _split_at_elisions(hunk: Hunk) -> list[Hunk]:
    """Rule 3. Empty if there is nothing to split, or if a cut would touch a change."""
    lines = hunk.lines
    cuts = [i for i, line in enumerate(lines) if line.op == " " and _ELISION.fullmatch(line.text)]
    for cut in cuts:
        if any(line.op != " " for line in lines[max(cut - 1, 0) : cut + 2]):
            return []
    borders = [-1, *cuts, len(lines)]
    parts = [Hunk(None, lines[a + 1 : b]) for a, b in pairwise(borders)] if cuts else []
    return [part for part in parts if part.changes]


def _find_parts(parts: Sequence[Hunk], file: FileText) -> tuple[Place, ...] | Several | Nowhere:
    places: list[Place] = []
    for part in parts:
        found = _strict(part, file)
        if not isinstance(found, Place):
            return found
        if places and found.start < places[-1].start + len(_old(places[-1].lines)):
            return Nowhere("the parts of the hunk around `...` are not in this order in the file")
        places.append(found)
    return tuple(places)


def _without_edges(hunk: Hunk, file: FileText) -> Found:
    """Rule 2, first half: as few outer context lines dropped as possible."""
    for pieces in _trimmed(hunk.lines):
        for level in _LOOSE:
            key, keys = KEYS[level], file.keys(level)
            places = {
                start - offset: Place(start, lines, literal=level == "literal")
                for offset, lines in pieces
                for start in occurrences([key(line.text) for line in _old(lines)], keys)
            }
            if len(places) == 1:
                return next(iter(places.values()))
            if places:
                return Several(tuple(place.start for place in places.values()))
    return Nowhere()


def _trimmed(lines: tuple[Line, ...]) -> Iterator[list[tuple[int, tuple[Line, ...]]]]:
    """The hunk without 1, 2, … outer context lines: each time all ways, as (lines dropped in front, what is left)."""
    changed = [i for i, line in enumerate(lines) if line.op != " "]
    if not changed:
        return
    front, back = changed[0], len(lines) - 1 - changed[-1]
    for total in range(1, max(front - 1, 0) + max(back - 1, 0) + 1):
        ways = (
            (head, total - head)
            for head in range(total + 1)
            if head <= max(front - 1, 0) and total - head <= max(back - 1, 0)
        )
        pieces = [(head, lines[head : len(lines) - tail]) for head, tail in ways]
        strong = [(head, left) for head, left in pieces if _strong(left)]
        if strong:
            yield strong


def _strong(lines: Sequence[Line]) -> bool:
    """Enough text left to know a place by: a removed line, or two context lines, that say something."""
    telling = [line.op for line in lines if line.op != "+" and re.search(r"\w", line.text)]
    return "-" in telling or len(telling) >= 2


def _similar(hunk: Hunk, file: FileText) -> Found:
    """Rule 2, second half: every line in its place, a few context lines misremembered."""
    key, keys = KEYS["trailing blanks"], file.keys("trailing blanks")
    old = [(line.op, key(line.text)) for line in _old(hunk.lines)]
    if len(old) <= MAX_SIMILAR and not any(op == "-" for op, _ in old):
        return Nowhere()
    starts = tuple(s for s in range(len(keys) - len(old) + 1) if _alike(old, keys[s : s + len(old)]))
    if len(starts) > 1:
        return Several(starts)
    return Place(starts[0], hunk.lines) if starts else Nowhere()


def _alike(old: Sequence[tuple[str, str]], keys: Sequence[str]) -> bool:
    different: list[tuple[str, str]] = []
    for (op, ours), theirs in zip(old, keys, strict=True):
        if ours != theirs:
            if op == "-" or len(different) == MAX_SIMILAR:
                return False
            different.append((ours, theirs))
    return len(different) < len(old) and all(SequenceMatcher(None, *pair).ratio() >= SIMILAR for pair in different)
