"""The events of a journal as a sequence that need not be in memory: used by everything that shows a run.

Rules
1. A short journal is kept as a list once it was read. For a longer one only a few offsets are kept, and each pass reads
   the file again. So the memory of a view does not grow with the run.
2. The events are those of the first reading. Events that were appended later are not included.
3. Long events are read without their longest parts (core/lines.py, rule 3). `whole` gives the unabridged events.
"""

from __future__ import annotations

import itertools
import os
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

from msgspec import Struct

from orchestra.core.lines import VIEWED, fitting, lines, open_journal, viewed, weight
from orchestra.core.records import Event

_STRIDE = 1024  # events between two kept offsets


class Index(Struct, frozen=True):
    """The offset of every _STRIDE-th event of a journal."""

    count: int
    offsets: array[int]


class Events(Sequence[Event]):
    """The events of one journal, in order."""

    def __init__(self, path: Path, index: Index, kept: list[Event] | None, *, whole: bool = False) -> None:
        self._path = path
        self._index = index
        self._kept = kept
        self._whole = whole

    def __len__(self) -> int:
        return self._index.count

    def __iter__(self) -> Iterator[Event]:
        return self._from(0) if self._kept is None else iter(self._kept)

    @overload
    def __getitem__(self, place: int) -> Event: ...
    @overload
    def __getitem__(self, place: slice) -> list[Event]: ...
    def __getitem__(self, place: int | slice) -> Event | list[Event]:
        if self._kept is not None:
            return self._kept[place]
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                return list(self)[place]
            return list(itertools.islice(self._from(start), max(stop - start, 0)))
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        return next(self._from(place % len(self)))

    def whole(self) -> Events:
        """The same events, unabridged."""
        return self if self._kept is not None else Events(self._path, self._index, None, whole=True)

    def _from(self, start: int) -> Iterator[Event]:
        """The events from index `start` on, read from the file."""
        block = start // _STRIDE
        number = block * _STRIDE
        read = fitting if self._whole else viewed
        fd = open_journal(self._path)
        try:
            for line in lines(fd, str(self._path), self._index.offsets[block], number):
                number += 1
                if number > start:
                    yield read(line, str(self._path), number)
                if number == len(self):
                    return
        finally:
            os.close(fd)


class Collector:
    """Builds the sequence while the events are read for the first time."""

    def __init__(self, path: Path, *, keep: bool) -> None:
        self._path = path
        self._count = 0
        self._end = 0
        self._offsets = array("Q", (0,))
        self._kept: list[Event] | None = [] if keep else None
        self._room = VIEWED

    def take(self, line: bytes, event: Event | None = None) -> None:
        """Add an event and the line it was read from. The event of a line that is not kept need not be given."""
        self._count += 1
        self._end += len(line)
        if self._count % _STRIDE == 0:
            self._offsets.append(self._end)
        if self._kept is not None and event is not None:
            self._kept.append(event)
            self._room -= weight(line)
            if self._room < 0:  # rule 1
                self._kept = None

    @property
    def events(self) -> Events:
        return Events(self._path, Index(self._count, self._offsets), self._kept)
