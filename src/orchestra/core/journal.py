"""The journal: events.ndjson, the only truth of a run (D-01).

Rules
1. One line is one event is one JSON object (S1-115). Lines are only ever added; earlier bytes never change (S1-114).
2. `append` writes the whole line at once: it survives `kill -9` when it returns. `barrier` makes everything appended
   so far survive a power cut; it precedes every act on the world and every acknowledgement to a person. So the outcome
   of one step and the intent of the next share one sync: a sequential step costs one.
3. Group commit: all barriers asked for in one turn of the event loop share one sync.
4. The sync runs in the loop's own thread. A hand-over to a thread costs about as much as the sync
   (benchmarks/README.md) and would buy nothing: no branch may act before it.
5. Each line carries in `payload.prev` the digest of the line before it. A changed byte anywhere but in the last line is
   found on open and refused with its line number; nothing is overwritten.
6. A torn last line (a crash in the middle of rule 2's write, or zeros after a power cut) was never acted upon: it is
   cut off on open and reported.
7. What comes from outside is redacted before it is written; the caller goes on with what was written, so a replay sees
   the same. An intent is not looked through again: a flow makes it of what is in the journal already, that is redacted.
8. After a failed write the file is cut back to its last whole line, and the journal refuses everything else.

It knows nothing of keys, tables or states.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import msgspec

from orchestra.core.collector import uncollected
from orchestra.core.disk import PRIVATE, Disk
from orchestra.core.errors import DurabilityError, JournalCorrupt
from orchestra.core.records import Event
from orchestra.core.redact import Redactor

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Event).decode


class Journal:
    """The open, writable journal of one run. One per run and process; the run's lock sees to the process."""

    def __init__(self, path: Path, *, disk: Disk, redactor: Redactor) -> None:
        self.path = path
        self.torn_bytes = 0  # how much rule 6 cut off when this journal was opened
        self._disk = disk
        self._redactor = redactor
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE)
        self._size = 0
        self._synced = 0
        self._prev = ""
        self._broken: Exception | None = None

    def load(self) -> list[Event]:
        """Every event so far; repairs a torn tail (rule 6) and refuses any other damage (rule 5)."""
        data = _read(self._fd)
        events, good = _parse(data, str(self.path))
        self.torn_bytes = len(data) - good
        if self.torn_bytes:
            os.ftruncate(self._fd, good)
        self._size = good
        if events:
            self._prev = _digest(data[data.rfind(b"\n", 0, good - 1) + 1 : good])
        # What an earlier process appended may not be synced yet: the next barrier covers it.
        return events

    def append(self, event: Event, *, outside: bool = True) -> Event:
        """Write one event (rule 2) and return it as written: chained (rule 5) and redacted (rule 7)."""
        if self._broken is not None:
            raise self._broken
        if self._prev:
            event.payload["prev"] = self._prev
        line = _encode(event) + b"\n"
        if outside and self._redactor.suspects(line):
            event = msgspec.structs.replace(event, payload=self._redactor.record(event.payload))
            line = _encode(event) + b"\n"
        try:
            self._disk.append(self._fd, line)
        except BaseException as error:
            self._broken = error if isinstance(error, Exception) else DurabilityError(f"{self.path}: write interrupted")
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(line)
        self._prev = _digest(line)
        return event

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


def read_events(path: Path, *, until: str = "") -> list[Event]:
    """Read a journal without owning it: viewers, other processes. A line being written right now is left out.

    `until` is the id of the last event wanted: damage after it does not matter then.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _parse(_read(fd), str(path), until)[0]
    finally:
        os.close(fd)


def read_first(path: Path) -> Event | None:
    """The first event of a journal: which workflow the run is of, and what it was asked."""
    try:
        with path.open("rb") as file:
            line = file.readline()
    except FileNotFoundError:
        return None
    return _event(line, str(path), 1) if line.endswith(b"\n") else None


def follow_events(path: Path, offset: int) -> tuple[list[Event], int]:
    """The whole lines added since `offset`, and the offset to go on from."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = _read(fd, offset)
    finally:
        os.close(fd)
    end = data.rfind(b"\n") + 1
    return [_event(line, str(path), 0) for line in data[:end].splitlines()], offset + end


def _read(fd: int, offset: int = 0) -> bytes:
    chunks: list[bytes] = []
    while chunk := os.pread(fd, max(os.fstat(fd).st_size - offset, 65536), offset):
        chunks.append(chunk)
        offset += len(chunk)
    return b"".join(chunks)


def _event(line: bytes, path: str, number: int) -> Event:
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JournalCorrupt(path, number, str(error)) from error


def _parse(data: bytes, path: str, until: str = "") -> tuple[list[Event], int]:
    """The events of the whole lines, and how many bytes they take; JournalCorrupt for any damage before the tail."""
    end = data.rfind(b"\n") + 1
    if data[end:].strip(b"\0") == b"" and end:  # a tail of zeros may follow, or stand in place of, the last newline
        end = len(data.rstrip(b"\0"))
        end = data.rfind(b"\n", 0, end) + 1
    with uncollected():
        return _events(data[:end], path, until), end


def _events(data: bytes, path: str, until: str) -> list[Event]:
    events: list[Event] = []
    before = ""
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        event = _event(line, path, number)
        prev = event.payload.get("prev")
        if prev is not None and prev != before:
            raise JournalCorrupt(path, number - 1, f"its digest is not the one that line {number} recorded")
        events.append(event)
        if event.id == until:
            break
        before = _digest(line + b"\n")
    return events


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:16]
