"""Projections: files that are derived from a run's events, kept up to date while the run goes on, and rebuilt.

There are two ready-made kinds. `Document` is a whole file, made from all events. `Lines` grows with the events.

Rules
1. The journal is written first. A projection may be behind after a kill; nothing is synced for it.
2. When a run is opened, each of its files is compared with what the events give. A file that is missing, torn, behind
   or was edited is written anew (D-01). So a file that people may edit is no projection: a flow looks at it.
3. A document is published at most every 50 ms, and takes at most a twentieth of the time: the longer the last rendering
   took, the later is the next. So the work does not grow faster than the run.
4. A document of the end (a report) is written once, before the run's last event (C-26), as if the event were there.
5. Paths may lie outside the run's folder. Such a file belongs to the newest run of its lineage: that is
   checked before each writing (core/ownership.py). A run that does not own the file leaves it alone.
6. A delayed writing that fails is raised by the next call.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from orchestra.core.disk import Disk
from orchestra.core.errors import OddFile
from orchestra.core.files import MIB, open_bounded, read_bounded
from orchestra.core.records import FINAL, Event

WAIT_S = 0.05  # the longest that lines wait; the shortest time between two renderings of a document
_SHARE = 20  # the time between two renderings, as a multiple of the last one
_TOGETHER = 256  # the most events that wait for their lines
_MOST = 256 * MIB  # bytes of a derived file
Render = Callable[[Sequence[Event]], bytes | None]  # None: there is no such file
Line = Callable[[Event], bytes | None]
Mine = Callable[[], AbstractContextManager[bool]]  # whether the file is this run's, as long as the block lasts


class Projection(Protocol):
    """Something derived from the events of a run."""

    def restore(self, events: Sequence[Event]) -> None:
        """Bring the file up to date (rule 2). `events` grows while the run goes on."""

    def write(self, event: Event) -> None:
        """Take over an event that was recorded just now."""

    def ending(self, event: Event) -> None:
        """The run will end with this event, which is not recorded yet (rule 4)."""

    def close(self) -> None: ...


@runtime_checkable
class Shared(Protocol):
    """A projection whose file, or folder of files, may lie outside the run's folder (rule 5)."""

    path: Path
    mine: Mine


def _always() -> AbstractContextManager[bool]:
    return nullcontext(True)


def shared(projections: tuple[Projection, ...], folder: Path, mine: Mine) -> tuple[Projection, ...]:
    """The projections of the run in `folder`. Those outside it are written only while `mine` holds (rule 5)."""
    for one in projections:
        if isinstance(one, Shared) and not one.path.is_relative_to(folder):
            one.mine = mine
    return projections


class Document:
    """A whole file, made from all events of a run."""

    def __init__(
        self,
        path: Path,
        disk: Disk,
        render: Render,
        *,
        written: Literal["live", "closed", "ended"] = "live",
        changes: Callable[[Event], bool] = lambda event: True,
    ) -> None:
        """`written`: while events come, when the run's folder is closed, or once before the run ends (rule 4).

        `changes`: whether an event may change the file.
        """
        self.path = path
        self._disk = disk
        self._render = render
        self._written = written
        self._changes = changes
        self.mine: Mine = _always  # rule 5
        self._events: Sequence[Event] = ()
        self._behind = False
        self._digest = b""  # of what was published last
        self._not_before = 0.0
        self._soon = _Soon(self._publish)

    def restore(self, events: Sequence[Event]) -> None:
        """Write the file anew if it is not what the events give (rule 2)."""
        self._events = events
        if not events or (self._written == "ended" and events[-1].type not in FINAL):
            return
        with self.mine() as mine:
            data = self._render(events) if mine else None
            if data is not None:
                self._digest = _digest(data)
                if _read(self.path) != data:
                    self._disk.publish(self.path, data, durable=False)

    def write(self, event: Event) -> None:
        """Publish the file if the event changes it, now or soon (rule 3)."""
        self._soon.check()
        if self._written == "ended" or not self._changes(event):
            return
        self._behind = True
        if self._written == "live":
            wait = self._not_before - time.monotonic()
            self._soon.after(wait)
            self._soon.check()

    def ending(self, event: Event) -> None:
        """Write a document of the end (rule 4)."""
        if self._written == "ended":
            self._put([*self._events, event])

    def close(self) -> None:
        """Write the file to its end."""
        self._soon.cancel()
        if self._behind:
            self._publish()
        self._soon.check()

    def _publish(self) -> None:
        start = time.monotonic()
        self._behind = False
        self._put(self._events)
        end = time.monotonic()
        self._not_before = end + max(WAIT_S, _SHARE * (end - start))

    def _put(self, events: Sequence[Event]) -> None:
        with self.mine() as mine:
            data = self._render(events) if mine else None
            if data is not None and (digest := _digest(data)) != self._digest:
                self._disk.publish(self.path, data, durable=False)
                self._digest = digest


class Lines:
    """A file of lines that grows with the events of a run."""

    def __init__(
        self,
        path: Path,
        disk: Disk,
        fresh: Callable[[], Line],
        *,
        together: Callable[[Event], bool] = lambda event: False,
    ) -> None:
        """`fresh` gives the function from an event to its lines; it is called anew whenever all events are read again.

        So the function may keep what it has seen. `together`: lines of this event may wait for those of the next, up to
        50 ms: many at once take half the time.
        """
        self.path = path
        self._disk = disk
        self._fresh = fresh
        self._line = fresh()
        self._together = together
        self.mine: Mine = _always  # rule 5
        self._fd: int | None = None
        self._unwritten: list[Event] = []
        self._soon = _Soon(self._flush)

    @classmethod
    def of(cls, path: Path, disk: Disk, line: Line) -> Lines:
        """The file with the line of each event that has one."""
        return cls(path, disk, lambda: line)

    def restore(self, events: Iterable[Event]) -> None:
        """Write the file anew if it does not hold exactly the events' lines (rule 2)."""
        with self.mine() as mine:
            if self._holds(events) or not mine:
                return
            line = self._line = self._fresh()
            data = b"".join(filter(None, map(line, events)))
            if data or os.path.lexists(self.path):
                self._disk.publish(self.path, data, durable=False)

    def write(self, event: Event) -> None:
        """Append the lines of this event, now or soon."""
        self._soon.check()
        self._unwritten.append(event)
        self._soon.after(WAIT_S if self._together(event) and len(self._unwritten) < _TOGETHER else 0)
        self._soon.check()

    def ending(self, event: Event) -> None:
        """Nothing: the last event's lines follow it."""

    def close(self) -> None:
        """Append what waits, and close the file."""
        self._soon.cancel()
        self._flush()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._soon.check()

    def _flush(self) -> None:
        events, self._unwritten = self._unwritten, []
        data = b"".join(filter(None, map(self._line, events)))
        if not data:
            return
        with self.mine() as mine:
            if not mine:
                return
            if self._fd is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._fd = self._disk.open_end(self.path)
            self._disk.append(self._fd, data)

    def _holds(self, events: Iterable[Event]) -> bool:
        """Whether the file has exactly the lines of these events; afterwards `self._line` has seen them all if so."""
        line = self._line = self._fresh()
        try:
            fd = open_bounded(self.path, _MOST)
        except (OSError, OddFile):
            fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        with open(fd, "rb", buffering=MIB) as file:
            return all(not (data := line(event)) or file.read(len(data)) == data for event in events) and not file.read(
                1
            )


class _Soon:
    """Does something now, or once after a while, many calls together."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._timer: asyncio.TimerHandle | None = None
        self._failure: Exception | None = None

    def after(self, seconds: float) -> None:
        """Act now if there is nothing to wait for; else within so many seconds, unless that is planned already."""
        if seconds <= 0:
            self.cancel()
            return self._do()
        if self._timer is None:
            try:
                self._timer = asyncio.get_running_loop().call_later(seconds, self._do)
            except RuntimeError:  # no event loop: a fork copies history
                self._do()
        return None

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check(self) -> None:
        """Raise why a delayed act failed (rule 6)."""
        if self._failure is not None:
            raise self._failure

    def _do(self) -> None:
        self._timer = None
        try:
            if self._failure is None:
                self._act()
        except Exception as failure:  # the loop would only log it
            self._failure = failure


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _read(path: Path) -> bytes | None:
    try:
        return read_bounded(path, _MOST)
    except (OSError, OddFile):
        return None
