"""Finds the place of a hunk with damaged context: only if a single place fits, and every change keeps an anchor.

Rules
1. Removed lines always match. Next to an added line no line of the file is skipped, and none of the hunk left out.
2. One thing is loosened at a time, in this order: tabs in the indentation of context are blanks, or the other way
   round; file lines are skipped where exactly as many are missing by the header's own counts; outer context lines are
   dropped, while every side that had context keeps some; up to 3 context lines are merely similar; a context line that
   is written twice in a row is read once; file lines are skipped between two context lines.
3. A place is accepted only if one of its lines is unique in the file. For two places the result is `Several`.
4. The present lines do not prove the missing ones: if lines are missing beside an added line, or if context
   differs from the file in its indentation (then the added lines may as well), the place or the text cannot be known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from orchestra.patch.diff import Hunk, Line
from orchestra.patch.match import Found, Nowhere, Place, Several, by_levels, occurrences, old_lines, telling
from orchestra.patch.text import KEYS, FileText, Level

SIMILAR = 0.9
MAX_SIMILAR = 3
MAX_DROPPED = 12  # outer context lines: every way to drop them is tried
MAX_MISSING = 3
TABS = (4, 8, 2)  # blanks that stand for a tab
_LOOSE: tuple[Level, ...] = ("literal", "exact", "trailing blanks")

Places = tuple[Place, ...]
Changes = tuple[tuple[int, Line], ...]

_REINDENTED = Nowhere(
    "the hunk's lines are not indented like the file's; write each line as it is in the file", final=True
)


def loosely(hunk: Hunk, file: FileText) -> Places | Several | Nowhere:
    """The place of a hunk that does not fit as it is; or of each part, if file lines are skipped between parts."""
    notes: list[Nowhere] = []
    for attempt in (_retabbed, _with_missing_lines, _without_edges, _similar, _without_repetition, _with_a_gap):
        found = attempt(hunk, file)
        if not isinstance(found, Nowhere) or found.final:
            return (found,) if isinstance(found, Place) else found
        notes.append(found)
    return next((note for note in notes if note.note), Nowhere())


def _retabbed(hunk: Hunk, file: FileText) -> Found:
    """Context lines indented by blanks where the file has tabs, or the other way round; changed lines like the file.

    Removed lines match as they are. Added lines are indented like the file's, so they were not converted too.
    """
    old, keys, key = old_lines(hunk.lines), file.keys("trailing blanks"), KEYS["trailing blanks"]
    if not any("\t" in text for text in (*keys, *(line.text for line in old))):
        return Nowhere()
    for size in TABS:
        starts = [
            start
            for start in occurrences([_spread(key(line.text), size) for line in old], [_spread(t, size) for t in keys])
            if all(line.op == " " or key(line.text) == keys[start + i] for i, line in enumerate(old))
        ]
        if len(starts) > 1:
            return Several(tuple(starts))
        if starts:
            there = keys[starts[0] : starts[0] + len(old)]
            real = {text[0] for line, text in zip(old, there, strict=True) if key(line.text) != text}
            added = {line.text[0] for line in hunk.lines if line.op == "+" and _indentation(key(line.text))}
            whole = [Line(line.op, text) for line, text in zip(old, there, strict=True)]
            if len(real) == 1 and added <= real and telling(whole, file, "trailing blanks"):
                return Place(starts[0], hunk.lines)
            return _REINDENTED
    return Nowhere()


def _spread(text: str, size: int) -> str:
    """The text with `size` blanks for every tab of its indentation."""
    indentation = _indentation(text)
    return indentation.replace("\t", " " * size) + text[len(indentation) :]


def _indentation(text: str) -> str:
    return text[: len(text) - len(text.lstrip(" \t"))]


def _with_missing_lines(hunk: Hunk, file: FileText) -> Places | Nowhere:
    """Context left out at one place of the hunk, exactly as many lines as its counts promise: the rest fits around it.

    They may be missing next to a removed line too: what the change replaces is still clear.
    """
    if not 0 < hunk.missing <= MAX_MISSING or not telling(old_lines(hunk.lines), file, "trailing blanks"):
        return Nowhere()
    key, keys = KEYS["trailing blanks"], file.keys("trailing blanks")
    found: dict[Changes, Places] = {}
    for cut in _cuts(hunk, file):
        parts = (hunk.lines[:cut], hunk.lines[cut:])
        head, tail = ([key(line.text) for line in old_lines(part)] for part in parts)
        for start in occurrences(head, keys):
            below = start + len(head) + hunk.missing
            if keys[below : below + len(tail)] == tail and tail:
                places = (Place(start, parts[0]), Place(below, parts[1]))
                found[_changes(places)] = places
    if len(found) > 1:  # beside added lines: above them, or below?
        return Nowhere("context seems to be missing beside the added lines, so their place is unknown", final=True)
    return next(iter(found.values()), Nowhere())


def _without_edges(hunk: Hunk, file: FileText) -> Found:
    """As few outer context lines dropped as possible."""
    for pieces in _trimmed(hunk.lines):
        for level in _LOOSE:
            key, keys = KEYS[level], file.keys(level)
            places = {
                start - offset: Place(start, lines, literal=level == "literal")
                for offset, lines in pieces
                if telling(old_lines(lines), file, level)
                for start in occurrences([key(line.text) for line in old_lines(lines)], keys)
            }
            if len(places) == 1:
                start, place = next(iter(places.items()))
                return _REINDENTED if _reindented(hunk, file, start) else place
            if places:
                return Several(tuple(place.start for place in places.values()))
    return Nowhere()


def _reindented(hunk: Hunk, file: FileText, start: int) -> bool:
    """Whether a line of the hunk, its first old line taken to be at `start`, is a line of the file but for its
    indentation."""
    keys = file.keys("trailing blanks")
    for index, line in enumerate(old_lines(hunk.lines), start):
        text = KEYS["trailing blanks"](line.text)
        if 0 <= index < len(keys) and text != keys[index] and text.strip() and text.lstrip() == keys[index].lstrip():
            return True
    return False


def _trimmed(lines: tuple[Line, ...]) -> Iterator[list[tuple[int, tuple[Line, ...]]]]:
    """The hunk without 1, 2, … outer context lines: each time all ways, as (lines dropped in front, what is left)."""
    changed = [i for i, line in enumerate(lines) if line.op != " "]
    if not changed:
        return
    front, back = max(changed[0] - 1, 0), max(len(lines) - changed[-1] - 2, 0)  # of each side one line is kept
    for total in range(1, min(front + back, MAX_DROPPED) + 1):
        heads = range(max(total - back, 0), min(total, front) + 1)
        yield [(head, lines[head : len(lines) - (total - head)]) for head in heads]


def _similar(hunk: Hunk, file: FileText) -> Found:
    """The place where every line fits, except that up to 3 context lines are only similar."""
    key, keys = KEYS["trailing blanks"], file.keys("trailing blanks")
    old = [(line.op, key(line.text)) for line in old_lines(hunk.lines)]
    counts = file.counts("trailing blanks")
    starts = tuple(s for s in range(len(keys) - len(old) + 1) if _alike(old, keys[s : s + len(old)], counts))
    if len(starts) > 1:
        return Several(starts)
    if starts and _reindented(hunk, file, starts[0]):
        return _REINDENTED
    return Place(starts[0], hunk.lines) if starts else Nowhere()


def _alike(old: Sequence[tuple[str, str]], keys: Sequence[str], counts: Mapping[str, int]) -> bool:
    different: list[tuple[str, str]] = []
    unique = False
    for (op, ours), theirs in zip(old, keys, strict=True):
        if ours != theirs:
            if op == "-" or len(different) == MAX_SIMILAR:
                return False
            different.append((ours, theirs))
        unique = unique or (ours == theirs and counts[ours] == 1 and bool(re.search(r"\w", ours)))
    return unique and all(SequenceMatcher(None, *pair).ratio() >= SIMILAR for pair in different)


def _without_repetition(hunk: Hunk, file: FileText) -> Found:
    """A context line written twice in a row, read once. Which of the two is left out makes no difference."""
    lines, cuts = hunk.lines, _cuts(hunk, file)
    near = range(max(cuts.start - 1, 1), min(cuts.stop, len(lines)))
    twice = [i for i in near if lines[i].op == " " and lines[i] == lines[i - 1]]
    found = [by_levels(_part(hunk, lines[:i] + lines[i + 1 :]), file) for i in twice]
    places = {place.start: place for place in found if isinstance(place, Place)}
    if any(isinstance(place, Several) for place in found) or len(places) > 1:
        return Nowhere("a context line seems to stand twice in the hunk; without it the place is not clear")
    return next(iter(places.values()), Nowhere())


def _with_a_gap(hunk: Hunk, file: FileText) -> Places | Nowhere:
    """Two hunks written as one, or context left out in the middle: each part is found alone, in this order.

    The cut is between two context lines, so both parts keep the context next to their changes.
    """
    lines = hunk.lines
    found: dict[Changes, Places] = {}
    for cut in _cuts(hunk, file):
        parts = (_part(hunk, lines[:cut]), _part(hunk, lines[cut:]))
        if lines[cut - 1].op == lines[cut].op == " " and all(part.changes for part in parts):
            first, second = (by_levels(part, file) for part in parts)
            if isinstance(first, Place) and isinstance(second, Place) and _end(first) < second.start:
                found[_changes((first, second))] = (first, second)
    if len(found) > 1:
        return Nowhere("lines seem to be left out in the middle of the hunk, and what is left fits in several ways")
    return next(iter(found.values()), Nowhere())


def _cuts(hunk: Hunk, file: FileText) -> range:
    """Where the hunk may be cut in two so that both parts stand somewhere in the file, by the loosest level."""
    lines, keys = hunk.lines, file.keys("typography")
    old = [(i, KEYS["typography"](line.text)) for i, line in enumerate(lines) if line.op != "+"]
    head = _longest([text for _, text in old], keys)
    tail = _longest([text for _, text in reversed(old)], keys[::-1])
    if not head or not tail:
        return range(0)
    first = old[-tail - 1][0] + 1 if tail < len(old) else 1  # added lines may belong to either part
    last = old[head][0] if head < len(old) else len(lines) - 1
    return range(first, last + 1)


def _longest(wanted: Sequence[str], keys: Sequence[str]) -> int:
    """How many of the first `wanted` lines stand together somewhere in `keys`."""
    starts, size = list(range(len(keys))), 0
    while size < len(wanted):
        starts = [start for start in starts if start + size < len(keys) and keys[start + size] == wanted[size]]
        if not starts:
            break
        size += 1
    return size


def _part(hunk: Hunk, lines: tuple[Line, ...]) -> Hunk:
    """A hunk of some lines of `hunk`. The header counted other lines, so the part counts as miscounted."""
    return Hunk(hunk.start if lines[0] is hunk.lines[0] else None, lines, miscounted=True)


def _end(place: Place) -> int:
    return place.start + len(old_lines(place.lines))


def _changes(places: Places) -> Changes:
    """The changed lines of these places, each with its line in the file."""
    changes: list[tuple[int, Line]] = []
    for place in places:
        index = place.start
        for line in place.lines:
            if line.op != " ":
                changes.append((index, line))
            index += line.op != "+"
    return tuple(changes)
