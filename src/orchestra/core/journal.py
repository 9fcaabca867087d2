"""The journal: events.ndjson, from which everything else about a run is derived (D-01).

Rules
1. Each line is one event as a JSON object (S1-115). Lines are only added; earlier bytes never change (S1-114).
2. `append` writes the whole line at once: when it returns, the line survives `kill -9`. `barrier` makes everything
   appended so far survive a power cut. It precedes every act on the world and every acknowledgement to a person. The
   outcome of a step and the intent of the next one share a sync, so a sequential step costs one sync.
3. Group commit: all barriers requested in one turn of the event loop share one sync.
4. The sync runs in the event loop's thread. Another thread would cost about as much as the sync (benchmarks/README.md)
   and gain nothing: no branch may act before the sync.
5. Each line is sealed with this user's key and chained to the line before it (core/chain.py). A journal with a line of
   another key can be read, but is not opened for writing unless a person adopted it.
6. A torn last line (a crash during `append`, or zeros after a power cut) was never acted upon. It is cut off on open,
   and reported.
7. Text from outside is redacted before it is written. The caller continues with what was written, so a replay sees the
   same. An intent is not redacted again, because a flow makes it from events, which are redacted already.
8. After a failed write the file is cut back to its last complete line, and the journal refuses further writes.
9. Code that only shows a run holds no more of it in memory than needed (core/events.py). The process that drives a run
   holds all of it. In both cases the amount that is read is limited (core/lines.py).
10. A journal must not become longer than can be read again. Near that limit no step is begun (JournalFull). Room is
   reserved for the outcomes of steps that were begun, and for the end of the run.

Keys of steps, tables and states are not known here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from orchestra.core.adoption import Adoption
from orchestra.core.chain import Chain
from orchestra.core.collector import uncollected
from orchestra.core.disk import PRIVATE, Disk
from orchestra.core.errors import DurabilityError, ForeignRun, JournalCorrupt, JournalFull
from orchestra.core.events import Collector, Events
from orchestra.core.files import MIB, size
from orchestra.core.lines import (
    MOST_BYTES,
    MOST_EVENTS,
    Allowance,
    lines,
    open_journal,
    sealed,
    too_long,
    viewed,
    whole,
)
from orchestra.core.records import FINAL, Event
from orchestra.core.redact import Redactor
from orchestra.core.seal import Seal

OnEvent = Callable[[Event], None]
_encode = msgspec.json.Encoder().encode
# Rule 10: bytes and events reserved for outcomes of steps that were begun; of these, for the end of the run.
_TO_FINISH, _TO_END = (10 * MIB, 1_000), (2 * MIB, 10)


class Reading(Struct, frozen=True):
    """A journal as it was read: its events, and whether their seals are this user's."""

    events: Events
    chain: Chain


class Journal(Protocol):
    """The open, writable journal of one run: what the ledger and the context need of it."""

    torn_bytes: int  # bytes that were cut off on open (rule 6)

    @property
    def workspace(self) -> str:
        """The project folder recorded with the run's adoption; empty if it was not adopted."""

    @property
    def own_first(self) -> bool:
        """Whether this user's key sealed the first event. Only then its record of what a person typed is trusted."""

    def load(self) -> list[Event]:
        """Read every event. Repairs a torn last line (rule 6); raises for other damage and foreign lines (rule 5)."""

    def append(self, event: Event, *, outside: bool = True) -> Event:
        """Write one event (rule 2) and return it as written: chained, redacted (rule 7) and sealed (rule 5)."""

    async def barrier(self) -> None:
        """Wait until everything appended before this call survives a power cut."""

    def sync(self) -> None:
        """Do what `barrier` does at once, without waiting for other branches: for a flow that has none."""

    def close(self) -> None: ...


class Follower(Protocol):
    """Reads a journal as it grows, from its beginning. A line without its end is returned the next time."""

    @property
    def offset(self) -> int:
        """How much was read; grows with every event."""

    def new(self) -> Iterator[Event]:
        """The events of the complete lines that were added since the last call."""


class FileJournal:
    """The journal in a file. The run's lock ensures that only one process has it open for writing."""

    def __init__(
        self,
        path: Path,
        *,
        disk: Disk,
        redactor: Redactor,
        seal: Seal,
        adoption: Callable[[], Adoption | None] = lambda: None,
    ) -> None:
        """`adoption` reads the person's adoption of the run, if there is one."""
        self.path = path
        self.torn_bytes = 0
        self._disk = disk
        self._redactor = redactor
        self._seal = seal
        self._adoption = adoption
        self._fd = _open(path)
        self._size = 0
        self._synced = 0
        self._chain = Chain(seal)
        self._broken: Exception | None = None

    def load(self) -> list[Event]:
        """Read every event. Repairs a torn last line (rule 6); raises for other damage and foreign lines (rule 5)."""
        self._chain = chain = Chain(self._seal)
        if not os.fstat(self._fd).st_size:
            return []  # a new run
        path, holds, events, end, torn = str(self.path), chain.holds, list[Event](), 0, 0
        with uncollected():
            # A copy of `_checked` for speed, because every start of a long run waits for it. It also finds where the
            # lines end.
            for number, line in enumerate(lines(self._fd, path), start=1):
                if not line.endswith(b"\n"):
                    torn = len(line)
                    break
                if holds(line):
                    events.append(sealed(line, path, number))
                else:
                    event = whole(line, path, number)
                    if damage := chain.take(line, event):
                        raise JournalCorrupt(path, damage, line=number - 1)
                    events.append(event)
                end += len(line)
        if events and (adoption := self._adoption()) is not None:  # a run without events was adopted by nobody
            chain.adopt(adoption)
        if chain.foreign:
            raise ForeignRun(self.path.parent.name, chain.why_foreign)
        self.torn_bytes = torn
        if torn:
            os.ftruncate(self._fd, end)
        self._size = end
        # What an earlier process appended may not be synced yet: the next barrier covers it.
        return events

    def append(self, event: Event, *, outside: bool = True) -> Event:
        """Write one event (rule 2) and return it as written: chained, redacted (rule 7) and sealed (rule 5)."""
        if self._broken is not None:
            raise self._broken
        opening = self._chain.opening()
        payload = {**opening, **event.payload}
        event.payload.clear()  # changed in place: a copy would cost as much as the seal
        event.payload.update(payload)
        line = _encode(event) + b"\n"
        if outside and self._redactor.suspects(line):
            # The opening has a fixed form and no text from outside, so it is not redacted.
            masked: Any = self._redactor.record(event.payload)
            event = msgspec.structs.replace(event, payload={**masked, **opening})
            line = _encode(event) + b"\n"
        self._refuse_too_much(line, event, begins=not outside)
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

    def _refuse_too_much(self, line: bytes, event: Event, *, begins: bool) -> None:
        """JournalFull if the line, or the journal with it, would be longer than can be read again (rule 10)."""
        if long := too_long(line):
            raise JournalFull(event.runId, f"an event cannot be recorded in {self.path}: {long}")
        left, events_left = (0, 0) if event.type in FINAL else _TO_FINISH if begins else _TO_END
        if self._size + len(line) > MOST_BYTES - left or self._chain.lines >= MOST_EVENTS - events_left:
            most = f"{size(MOST_BYTES)} and {MOST_EVENTS:,} events"
            now = f"{size(self._size)} and {self._chain.lines:,} events"
            raise JournalFull(
                event.runId, f"its journal {self.path} has {now}, and {most} are the most: nothing more is begun"
            )

    @property
    def workspace(self) -> str:
        """The project folder recorded with the run's adoption; empty if it was not adopted."""
        return self._chain.workspace

    @property
    def own_first(self) -> bool:
        """Whether this user's key sealed the first event. Only then its record of what a person typed is trusted."""
        return self._chain.own_first

    async def barrier(self) -> None:
        """Wait until everything appended before this call survives a power cut."""
        wanted = self._size
        if self._synced != wanted:
            await asyncio.sleep(0)  # rule 3: other branches append in this turn; the first to continue syncs for all
            if self._synced < wanted:
                self.sync()

    def sync(self) -> None:
        """Do what `barrier` does at once, without waiting for other branches: for a flow that has none."""
        if self._broken is not None:
            raise self._broken
        if self._synced != self._size:
            size = self._size
            try:
                self._disk.sync(self._fd)
            except Exception as error:
                # after a failed sync the kernel may have dropped the pages: refuse all further writes
                self._broken = error
                raise
            self._synced = size

    def close(self) -> None:
        os.close(self._fd)


def read_journal(
    path: Path, seal: Seal | None = None, *, until: str = "", each: OnEvent | None = None, keep: bool = True
) -> Reading:
    """Read a journal that another process may be writing. A line without its end is left out.

    Without a seal every line is foreign. `until` is the id of the last event to read; damage after it is ignored.
    `each` is called with every event. Without `keep` no event stays in memory.
    """
    chain, collector = Chain(seal), Collector(path, keep=keep)
    fd = open_journal(path)
    try:
        with uncollected():
            for line, event in _checked(fd, str(path), chain, viewed):
                collector.take(line, event)
                if each is not None:
                    each(event)
                if until and event.id == until:
                    break
    finally:
        os.close(fd)
    return Reading(collector.events, chain)


def read_seals(path: Path, seal: Seal | None) -> Reading:
    """Read a journal as `read_journal` does, but decode no line that this user's key sealed.

    Its events are decoded when they are asked for. A journal with another line is read by `read_journal`.
    """
    chain, collector = Chain(seal), Collector(path, keep=False)
    fd = open_journal(path)
    try:
        for line in lines(fd, str(path)):
            if not line.endswith(b"\n"):
                break
            if not chain.holds(line):
                return read_journal(path, seal, keep=False)
            collector.take(line)
    finally:
        os.close(fd)
    return Reading(collector.events, chain)


def read_events(path: Path, *, until: str = "") -> list[Event]:
    """The complete events of a journal, in memory, whatever key sealed them: for the process that drives the run."""
    events: list[Event] = []
    fd = open_journal(path)
    try:
        with uncollected():
            for _, event in _checked(fd, str(path), Chain(None), whole):
                events.append(event)
                if until and event.id == until:
                    break
    finally:
        os.close(fd)
    return events


def read_first(path: Path) -> Event | None:
    """The first event of a journal, with the run's workflow and parameters; None if there is none."""
    try:
        fd = open_journal(path)
    except FileNotFoundError:
        return None
    try:
        for line in lines(fd, str(path), buffer=8192):
            return viewed(line, str(path), 1) if line.endswith(b"\n") else None
        return None
    finally:
        os.close(fd)


def first_is_own(path: Path, seal: Seal | None) -> bool:
    """Whether this user's key sealed the first line. Only then its record of what a person typed is trusted."""
    chain = Chain(seal)
    try:
        fd = open_journal(path)
        try:
            for _ in _checked(fd, str(path), chain, viewed):
                return not chain.foreign
        finally:
            os.close(fd)
    except (OSError, JournalCorrupt):
        pass  # a line that cannot be read is not this user's
    return False


class FileFollower:
    """Reads the journal in a file as it grows."""

    def __init__(self, path: Path) -> None:
        self.offset = 0  # where the unread part begins
        self._path = path
        self._number = 0

    def new(self) -> Iterator[Event]:
        """The events of the complete lines that were added since the last call."""
        fd = open_journal(self._path)
        try:
            for line in lines(fd, str(self._path), self.offset, self._number):
                if not line.endswith(b"\n"):
                    return
                event = viewed(line, str(self._path), self._number + 1)
                self._number += 1
                self.offset += len(line)
                yield event
        finally:
            os.close(fd)


def _open(path: Path) -> int:
    """Open the journal's file for writing, and make it if there is none. A link in its place is not followed."""
    try:
        return open_journal(path, write=True)
    except FileNotFoundError:
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)


def _checked(
    fd: int, path: str, chain: Chain, read: Callable[[bytes, str, int], Event]
) -> Iterator[tuple[bytes, Event]]:
    """The complete lines of a journal, each checked and decoded. A line without its end is left out."""
    allowance = Allowance()
    for number, line in enumerate(lines(fd, path), start=1):
        if not line.endswith(b"\n"):
            return
        own = chain.holds(line)
        event = read(line, path, number)
        if not own:
            if much := allowance.spend(line, event):
                raise JournalCorrupt(path, much, line=number)
            if damage := chain.take(line, event):
                raise JournalCorrupt(path, damage, line=number - 1)
        yield line, event
