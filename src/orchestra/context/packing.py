"""Fills a budget of bytes with files and parts of files. Pure over sheets.

Rules
1. Files that must go in (opened, in the output of a failing check, asked for, named) come first: whole if there is
   room, else their parts that matter. Some room is kept for each that follows: none is pushed out by one before it.
2. Then the files that were found by their words: the best few whole, of the others the best chunks.
3. The budget is never exceeded. What does not fit is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from orchestra.context.ranking import Sought, chunk_scores
from orchestra.context.sheets import Sheet
from orchestra.core.shown import LeftOut, Lines

_FLOOR = 3_000  # bytes that are kept for each file that must go in
_WHOLE_FILES = 3  # of the found ones
_WHOLE_SHARE, _WHOLE_ALL = 0.3, 0.5  # of the room: each of these files, and all of them
_PARTS_SHARE = 0.35  # of the room: the parts of one named file that does not fit
_PARTS_FILES = 40  # of the found ones
_LOOKED_AT, _MOST_LOOKED_AT = 5, 500_000  # times the room, and bytes: so much of the found files is cut into chunks
_BY_FILE = 0.7  # of a chunk's rank is its file's, the rest its own
_MARK = 64  # bytes, more than the line has that stands for a gap
_AROUND = 12  # lines around a line that was named, if the chunk it is in does not fit


class Must(NamedTuple):
    """A file that must go in, and the lines that matter; none: all of it."""

    sheet: Sheet
    lines: tuple[Lines, ...]
    only: bool = False  # nothing but these lines


class Room:
    """The bytes that are left, and the sheets that use the others."""

    def __init__(self, total: int) -> None:
        self.total = self.left = max(0, total)
        self.sheets: list[Sheet] = []
        self.left_out: list[LeftOut] = []

    def add(self, sheet: Sheet, more: Iterable[Lines], most: int | None = None) -> bool:
        """Show more lines of a file, if they fit; `most` bounds the bytes that they add."""
        shown = sheet.with_more(more)
        grows = sheet.cost(shown) - (sheet.cost(sheet.shown) if sheet.shown else 0)
        if not shown or grows > self.left or (most is not None and grows > most):
            return False
        if not sheet.shown:
            self.sheets.append(sheet)
        sheet.shown = shown
        self.left -= grows
        return True

    def may_fit(self, sheet: Sheet, lines: Lines) -> bool:
        """False if these lines do not fit for sure; quicker than to find out what exactly they cost."""
        return sheet.size_of(lines) - sheet.shown_of(lines) - _MARK <= self.left


def pack_musts(room: Room, musts: Sequence[Must], sought: Sought) -> None:
    """Show the files that must go in (rule 1)."""
    floor = min(_FLOOR, room.left // (2 * len(musts))) if musts else 0
    for at, must in enumerate(musts):
        sheet = must.sheet
        allowed = room.left - floor * (len(musts) - at - 1)
        if not must.only and room.add(sheet, sheet.everything, allowed):
            continue
        most = allowed if must.only else max(min(allowed, int(_PARTS_SHARE * room.total)), floor)
        _pack_parts(room, must, sought, most)
        if not sheet.shown:
            why = f"its {sheet.size} bytes do not fit" if not must.only else "its lines do not fit"
            room.left_out.append(LeftOut(sheet.path, why, must.lines))
        elif not must.only and not sheet.is_whole:
            room.left_out.append(LeftOut(sheet.path, "there is no room for the whole file", sheet.gaps()))


def _pack_parts(room: Room, must: Must, sought: Sought, most: int) -> None:
    """Show the parts of a file that matter: around its named lines, then its best chunks."""
    sheet = must.sheet
    before = room.left
    pieces = sheet.structure.chunks
    for first, last in must.lines:
        if must.only:
            _add_lines(room, sheet, (first, last), most - (before - room.left))
            continue
        around = [piece for piece in pieces if piece[0] <= last and first <= piece[1]]
        fits = around and room.add(sheet, around, most - (before - room.left))
        if not fits:
            _add_lines(room, sheet, (first - _AROUND, last + _AROUND), most - (before - room.left))
    if must.only:
        return
    scores = chunk_scores(sheet.structure, sought)
    order = sorted(zip(scores, pieces, strict=True), key=lambda pair: (-pair[0], pair[1]))
    for _, piece in order:
        room.add(sheet, (piece,), most - (before - room.left))
    if not sheet.shown and pieces:
        _add_lines(room, sheet, pieces[0], most)


def _add_lines(room: Room, sheet: Sheet, lines: Lines, most: int) -> None:
    """Show as many of these lines as fit, from the first one on."""
    first, last = max(1, lines[0]), min(lines[1], len(sheet.lines))
    low, high = first - 1, last
    while low < high:  # the last line that still fits
        middle = (low + high + 1) // 2
        shown = sheet.with_more(((first, middle),))
        fits = sheet.cost(shown) - (sheet.cost(sheet.shown) if sheet.shown else 0) <= min(room.left, most)
        low, high = (middle, high) if fits else (low, middle - 1)
    if low >= first:
        room.add(sheet, ((first, low),))


class Candidate(NamedTuple):
    """A file that was found by its words, its score, and the weight of its kind."""

    path: str
    score: float
    weight: float


def pack_found(room: Room, found: Sequence[Candidate], sought: Sought, read: Callable[[str], Sheet | None]) -> None:
    """Fill the room with the best files, and the best chunks of the others (rule 2)."""
    sheets: list[tuple[Candidate, Sheet]] = []
    looked_at = 0
    for one in found[:_PARTS_FILES]:
        if looked_at <= min(_LOOKED_AT * room.left, _MOST_LOOKED_AT) and (sheet := read(one.path)) is not None:
            sheets.append((one, sheet))
            looked_at += sheet.size
    if not sheets:
        return
    start = room.left
    for _, sheet in sheets[:_WHOLE_FILES]:
        share = min(int(_WHOLE_SHARE * start), int(_WHOLE_ALL * start) - (start - room.left))
        room.add(sheet, sheet.everything, share)
    best_file = max(one.score for one, _ in sheets) or 1.0
    rated: list[tuple[float, float, Lines, Sheet]] = []  # its file's score, its own
    for one, sheet in sheets:
        if not sheet.is_whole:
            own = chunk_scores(sheet.structure, sought)
            rated += (
                (one.score / best_file, one.weight * score, piece, sheet)
                for piece, score in zip(sheet.structure.chunks, own, strict=True)
            )
    best_chunk = max((own for _, own, _, _ in rated), default=1.0) or 1.0
    rated.sort(key=lambda one: (-(_BY_FILE * one[0] + (1 - _BY_FILE) * one[1] / best_chunk), one[3].path, one[2]))
    for _, _, piece, sheet in rated:
        if room.may_fit(sheet, piece):
            room.add(sheet, (piece,))
