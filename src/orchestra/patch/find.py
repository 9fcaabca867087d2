"""Finds the place of a hunk in a file by the hunk's text; never guesses (MS-6.4).

Rules
1. A hunk is read as it is written (match.py); then without last lines that may be prose; then as if its context lost
   the leading blank. The first reading that fits anywhere decides.
2. `...` in place of omitted context splits the hunk, unless it is next to a change: then the place is unknowable.
3. Only if nothing fits are the rules for context loosened (loose.py), and then the place must be unique.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from orchestra.patch.diff import Hunk, Line
from orchestra.patch.loose import loosely
from orchestra.patch.match import Nowhere, Place, Several, by_levels, old_lines, strictly
from orchestra.patch.text import FileText

_ELISION = re.compile(r"\s*(?:#|//|--|/\*|<!--)?\s*(?:\.\.\.|…)\s*(?:\*/|-->)?\s*")


def find(hunk: Hunk, file: FileText) -> tuple[Place, ...] | Several | Nowhere:
    """The place of a hunk; or of each of its parts, if the hunk omits context."""
    if hunk.raw and any(line.op == "+" and line.text and f"+{line.text}" in file.texts for line in hunk.lines):
        return Nowhere("its context lines lack their leading blank, and one of them seems to begin with a `+`")
    hard = msgspec.structs.replace(hunk, lines=hunk.lines[: len(hunk.lines) - hunk.soft], soft=0)
    found = strictly(hunk, file)
    if isinstance(found, Nowhere) and hunk.soft:
        found = strictly(hard, file)
    if isinstance(found, Nowhere) and (raw := _with_prefixes(hard, file)):
        again = by_levels(raw, file)
        found = found if isinstance(again, Nowhere) else again
    if isinstance(found, Place):
        return (found,)
    if isinstance(found, Several) or found.final:
        return found
    if parts := _split_at_elisions(hard):
        return _find_parts(parts, file)
    loose = loosely(hard, file)
    return found if loose == Nowhere() else loose


def _with_prefixes(hunk: Hunk, file: FileText) -> Hunk | None:
    """The hunk read as if its context lines had lost their one-blank prefix, and so have a blank more than it seems.

    Removed lines that match show that the added lines are right as they are. Without them the whole hunk may be
    indented one blank too little; it is not if the file has the added lines' indentation and not one blank more.
    """
    if not any(line.op == "-" and line.text.strip() for line in hunk.lines):
        known = {_indentation(text) for text in file.texts if text.strip()}
        added = {_indentation(line.text) for line in hunk.lines if line.op == "+" and line.text.strip()}
        if not added.issubset(known) or {f" {blanks}" for blanks in added}.issubset(known):
            return None
    lines = [Line(" ", f" {line.text}", line.newline) if line.op == " " and line.text else line for line in hunk.lines]
    return msgspec.structs.replace(hunk, lines=tuple(lines))


def _indentation(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


def _split_at_elisions(hunk: Hunk) -> list[Hunk]:
    """Rule 2. Empty if there is nothing to split, or if a cut would touch a change."""
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
        found = strictly(part, file)
        if not isinstance(found, Place):
            return found
        if places and found.start < places[-1].start + len(old_lines(places[-1].lines)):
            return Nowhere("the parts of the hunk around `...` are not in this order in the file")
        places.append(found)
    return tuple(places)
