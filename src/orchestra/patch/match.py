"""Where a hunk belongs in a file: found by its text, never guessed (sandbox.md §6, strategy 4).

Rules
1. Falling strictness: literal, exact, trailing blanks, typography, uniform indentation. The first level that matches
   decides: one place, or the one place the line number names exactly. Two places is an answer too: `Several`.
   A hunk that fits nowhere is read once more as one whose context lines lost their leading blank.
2. Only if no level matches is context loosened, and then only a single place will do: outer context lines may be
   dropped while every side that had context keeps some; else up to 3 context lines may be merely similar. Removed lines
   always match. No line of the file is ever skipped inside a hunk.
   Where the hunk shows damage (context loosened, counts that do not fit), a place made only of lines that occur more
   than once in the file is not believed, unless the line number names it.
3. `...` standing for left-out context splits the hunk, unless it touches a change: then the place is unknowable.
4. Whatever level matched, the file's own bytes stay; only the added lines come from the patch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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
    """A hunk's lines and the file line its first old line is. `literal`: line endings matched too. `doubt`: what of it
    is likely but cannot be known; a person decides."""

    start: int
    lines: tuple[Line, ...]
    literal: bool = False
    doubt: str = ""


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
    if isinstance(found, Nowhere) and (raw := _with_prefixes(hard, file)):
        again = _by_levels(raw, file)
        found = found if isinstance(again, Nowhere) else again
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


def _with_prefixes(hunk: Hunk, file: FileText) -> Hunk | None:
    """The hunk read as if its context lines had lost their one-blank prefix, and so have a blank more than it seems.

    The removed lines then prove the added ones right as they are. Without removed lines the whole hunk might as well be
    indented one blank too little; it is not if the file knows the added lines' indentation and not one blank more.
    """
    if not any(line.op == "-" and line.text.strip() for line in hunk.lines):
        known = {_indentation(text) for text in file.texts if text.strip()}
        added = {_indentation(line.text) for line in hunk.lines if line.op == "+" and line.text.strip()}
        if not added <= known or {f" {blanks}" for blanks in added} <= known:
            return None
    lines = [Line(" ", f" {line.text}", line.newline) if line.op == " " and line.text else line for line in hunk.lines]
    return msgspec.structs.replace(hunk, lines=tuple(lines))


def _indentation(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


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
    if not _old(hunk.lines):
        if file.lines:
            return Nowhere("the hunk has no context lines, so its place is unknown")
        return Place(0, hunk.lines, literal=True)
    found = _by_levels(hunk, file)
    return _indented(hunk, file) if found == Nowhere() else found


def _by_levels(hunk: Hunk, file: FileText) -> Found:
    """All levels but indentation. A `Nowhere` with a note means: found, but not to be believed."""
    old = _old(hunk.lines)
    for level, key in LEVELS:
        starts = occurrences([key(line.text) for line in old], file.keys(level))
        if starts:
            start = _choose(starts, hunk.start)
            if start is None:
                return Several(starts)
            if hunk.miscounted and start + 1 != hunk.start and not _telling(old, file, level):
                return Nowhere("lines seem to be missing from the hunk, and those left are common ones")
            if level == "typography" and _altered(hunk, file, start):
                return Nowhere("the patch has typographic quotes or dashes where the file has plain ones")
            return Place(start, hunk.lines, literal=level == "literal")
    return Nowhere()


def _choose(starts: tuple[int, ...], hint: int | None) -> int | None:
    if len(starts) == 1:
        return starts[0]
    return hint - 1 if hint is not None and hint - 1 in starts else None


def _telling(old: Sequence[Line], file: FileText, level: Level) -> bool:
    """Whether a line with text in it stands only once in the file, so that finding it says something."""
    keys = file.counts(level)
    return any(re.search(r"\w", line.text) and keys[KEYS[level](line.text)] == 1 for line in old)


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
    blanks = f"{len(more or less)} blanks {'less' if more else 'more'}"
    doubt = f"its lines are indented by {blanks} than the file's; its added lines were moved alike, which may be wrong"
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


def _split_at_elisions(hunk: Hunk) -> list[Hunk]:
    """Rule 3. Empty if there is nothing to split, or if a cut would touch a change."""
    lines = hunk.lines
    cuts = [i for i, line in enumerate(lines) if line.op == " " and _ELISION.fullmatch(line.text)]
    for cut in cuts:
        if any(line.op != " " for line in lines[max(cut - 1, 0) : cut + 2]):
            return []
    borders = [-1, *cuts, len(lines)]
    parts = [Hunk(None, lines[a + 1 : b], miscounted=True) for a, b in pairwise(borders)] if cuts else []
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
                if _telling(_old(lines), file, level)
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
        yield [(head, lines[head : len(lines) - tail]) for head, tail in ways]


def _similar(hunk: Hunk, file: FileText) -> Found:
    """Rule 2, second half: every line in its place, a few context lines misremembered."""
    key, keys = KEYS["trailing blanks"], file.keys("trailing blanks")
    old = [(line.op, key(line.text)) for line in _old(hunk.lines)]
    counts = file.counts("trailing blanks")
    starts = tuple(s for s in range(len(keys) - len(old) + 1) if _alike(old, keys[s : s + len(old)], counts))
    if len(starts) > 1:
        return Several(starts)
    return Place(starts[0], hunk.lines) if starts else Nowhere()


def _alike(old: Sequence[tuple[str, str]], keys: Sequence[str], counts: Mapping[str, int]) -> bool:
    different: list[tuple[str, str]] = []
    telling = False
    for (op, ours), theirs in zip(old, keys, strict=True):
        if ours != theirs:
            if op == "-" or len(different) == MAX_SIMILAR:
                return False
            different.append((ours, theirs))
        telling = telling or (ours == theirs and counts[ours] == 1 and bool(re.search(r"\w", ours)))
    return telling and all(SequenceMatcher(None, *pair).ratio() >= SIMILAR for pair in different)
