"""The journal: events.ndjson, the only truth of a run (D-01).

Rules
1. One line is one event is one JSON object (S1-115). Lines are only ever added; earlier bytes never change (S1-114).
2. `append` writes the whole line at once: it survives `kill -9` when it returns. `barrier` makes everything appended
   so far survive a power cut; it precedes every act on the world and every acknowledgement to a person. So the outcome
   of one step and the intent of the next share one sync: a sequential step costs one.
3. Group commit: all barriers asked for in one turn of the event loop share one sync.
4. The sync runs in the loop's own thread. A hand-over to a thread costs about as much as the sync
   (benchmarks/README.md) and would buy nothing: no branch may act before it.
5. Each line is sealed with this user's key and chained to the line before it (core/chain.py). A journal with a line
   that the key did not make is read, but not opened for writing, unless the person adopted it.
6. A torn last line (a crash in the middle of rule 2's write, or zeros after a power cut) was never acted upon: it is
   cut off on open and reported.
7. What comes from outside is redacted before it is written; the caller goes on with what was written, so a replay sees
   the same. An intent is not looked through again: a flow makes it of what is in the journal already, that is redacted.
8. After a failed write the file is cut back to its last whole line, and the journal refuses everything else.
9. A journal is a regular file of bounded size with lines of bounded length; anything else is refused by name, and
   nothing waits for it.

It knows nothing of keys of steps, tables or states.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from orchestra.core.adoption import Adoption
from orchestra.core.chain import Chain
from orchestra.core.collector import uncollected
from orchestra.core.disk import PRIVATE, Disk
from orchestra.core.errors import DurabilityError, ForeignRun, JournalCorrupt, OddFile
from orchestra.core.files import MIB, open_bounded, size
from orchestra.core.records import Event
from orchestra.core.redact import Redactor
from orchestra.core.seal import Seal

MOST_BYTES = 1 << 30
MOST_LINE = 32 * MIB
_CHUNK = 4 * MIB

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Event).decode


class Reading(Struct, frozen=True):
    """A journal as it was read: its events, and who vouches for them."""

    events: list[Event]
    chain: Chain
    end: int = 0  # bytes of its whole lines
    torn: int = 0  # bytes after them


class Journal:
    """The open, writable journal of one run. One per run and process; the run's lock sees to the process."""

    def __init__(self, path: Path, *, disk: Disk, redactor: Redactor, seal: Seal) -> None:
        self.path = path
        self.torn_bytes = 0  # how much rule 6 cut off when this journal was opened
        self._disk = disk
        self._redactor = redactor
        self._seal = seal
        self._fd = _open(path, write=True)
        self._size = 0
        self._synced = 0
        self._chain = Chain(seal)
        self._broken: Exception | None = None

    def load(self, adoption: Adoption | None = None) -> list[Event]:
        """Every event so far; repairs a torn tail (rule 6), refuses any other damage and what is foreign (rule 5)."""
        with uncollected():
            reading = _read(self._fd, str(self.path), self._seal)
        self._chain = reading.chain
        if adoption is not None:
            self._chain.adopt(adoption)
        if self._chain.foreign:
            raise ForeignRun(self.path.parent.name, self._chain.why_foreign)
        self.torn_bytes = reading.torn
        if self.torn_bytes:
            os.ftruncate(self._fd, reading.end)
        self._size = reading.end
        # What an earlier process appended may not be synced yet: the next barrier covers it.
        return reading.events

    def append(self, event: Event, *, outside: bool = True) -> Event:
        """Write one event (rule 2) and return it as written: chained, redacted (rule 7) and sealed (rule 5)."""
        if self._broken is not None:
            raise self._broken
        event = msgspec.structs.replace(event, payload={**self._chain.opening(), **event.payload})
        line = _encode(event) + b"\n"
        if outside and self._redactor.suspects(line):
            event = msgspec.structs.replace(event, payload=self._redactor.record(event.payload))
            line = _encode(event) + b"\n"
        if len(line) > MOST_LINE:
            raise DurabilityError(f"{self.path}: an event of {size(len(line))} is too large; it was not written")
        line, event.payload["seal"] = self._chain.close(line)
        try:
            self._disk.append(self._fd, line)
        except BaseException as error:
            self._broken = error if isinstance(error, Exception) else DurabilityError(f"{self.path}: write interrupted")
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(line)
        self._chain.wrote(line, event.payload["seal"])
        return event

    @property
    def workspace(self) -> str:
        """The folder a person bound the run to when adopting it; empty if nobody did."""
        return self._chain.workspace

    async def barrier(self) -> None:
        """Wait until everything appended before this call survives a power cut."""
        wanted = self._size
        if self._synced < wanted:
            await asyncio.sleep(0)  # rule 3: every branch that can append in this turn does; the first one back syncs
            if self._synced < wanted:
                self.sync()

    def sync(self) -> None:
        """`barrier` for a single line of work: there is nobody to share with."""
        if self._broken is not None:
            raise self._broken
        if self._synced != self._size:
            size = self._size
            try:
                self._disk.sync(self._fd)
            except Exception as error:
                self._broken = error  # after a failed sync the kernel may have dropped the pages: trust nothing more
                raise
            self._synced = size

    def close(self) -> None:
        os.close(self._fd)


def read_journal(path: Path, seal: Seal | None = None, *, until: str = "") -> Reading:
    """Read a journal without owning it: viewers, other processes. A line being written right now is left out.

    Without a seal every line is foreign. `until` is the id of the last event wanted: damage after it does not matter
    then.
    """
    fd = _open(path)
    try:
        with uncollected():
            return _read(fd, str(path), seal, until)
    finally:
        os.close(fd)


def read_events(path: Path, *, until: str = "") -> list[Event]:
    """The events of a journal, whoever made it."""
    return read_journal(path, until=until).events


def read_first(path: Path) -> Event | None:
    """The first event of a journal: which workflow the run is of, and what it was asked."""
    try:
        fd = _open(path)
    except FileNotFoundError:
        return None
    try:
        for line in _lines(fd, str(path), chunk=65536):
            return _event(line, str(path), 1) if line.endswith(b"\n") else None
        return None
    finally:
        os.close(fd)


def follow_events(path: Path, offset: int) -> tuple[list[Event], int]:
    """The whole lines added since `offset`, and the offset to go on from."""
    fd = _open(path)
    try:
        events: list[Event] = []
        for line in _lines(fd, str(path), offset):
            if line.endswith(b"\n"):
                events.append(_event(line, str(path), 0))
                offset += len(line)
        return events, offset
    finally:
        os.close(fd)


def _open(path: Path, *, write: bool = False) -> int:
    """The journal's file (rule 9). Who may write makes it first; a link in its place is not followed even then."""
    if write and not os.path.lexists(path):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE))
    try:
        return open_bounded(path, MOST_BYTES, write=write)
    except OddFile as odd:
        raise JournalCorrupt(str(path), 0, f"it {odd.what}") from odd


def _read(fd: int, path: str, seal: Seal | None, until: str = "") -> Reading:
    events: list[Event] = []
    chain = Chain(seal)
    end = torn = number = 0
    for number, line in enumerate(_lines(fd, path), start=1):
        if not line.endswith(b"\n"):
            torn = len(line)
            break
        event = _event(line, path, number)
        if damage := chain.take(line, event, number):
            raise JournalCorrupt(path, number - 1, damage)
        events.append(event)
        end += len(line)
        if event.id == until:
            break
    return Reading(events, chain, end, torn)


def _lines(fd: int, path: str, offset: int = 0, *, chunk: int = _CHUNK) -> Iterator[bytes]:
    """The lines of a file, each with its end; the last one may have none. A line beyond all bounds is damage."""
    number = 0
    rest = b""
    while piece := os.pread(fd, chunk, offset):
        offset += len(piece)
        *lines, rest = (rest + piece).split(b"\n")
        number += len(lines)
        for line in lines:
            yield line + b"\n"
        if len(rest) > MOST_LINE:
            raise JournalCorrupt(path, number + 1, f"it has more than {size(MOST_LINE)}")
        chunk = max(chunk, len(rest))  # a long line is not copied again for every piece of it
    if rest:
        yield rest


def _event(line: bytes, path: str, number: int) -> Event:
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise JournalCorrupt(path, number, str(error)) from error
