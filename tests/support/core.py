"""A run folder with an open table, for tests of the core alone: any event may follow any other."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from msgspec import Struct

from orchestra.core.adoption import read_adoption
from orchestra.core.context import Context, Handlers, Step
from orchestra.core.disk import Disk
from orchestra.core.effects import Effect
from orchestra.core.journal import FileJournal
from orchestra.core.ledger import Ledger
from orchestra.core.records import EVENT_TYPES, FINAL, PHASES, Event
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder
from orchestra.core.seal import Seal
from orchestra.core.tables import Table

T = TypeVar("T")
_ANY = {f"{t} {p}" if t.startswith("PHASE_") else t: "open" for t in EVENT_TYPES if t != "RUN_CREATED" for p in PHASES}
OPEN_TABLE = Table(
    "open",
    "new",
    {"new": {"RUN_CREATED": "open"}, "open": {**_ANY, **dict.fromkeys(FINAL, "final")}, "final": {}},
)
REDACTOR = Redactor(["s3cr3t-value-1234"])
KEY = "the key of the tests"
SEAL = Seal(KEY.encode())


class CountingDisk(Disk):
    """The real disk, noting the kind of every operation and the name of its file."""

    def __init__(self) -> None:
        self.operations: list[tuple[str, str]] = []

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.operations]

    def append(self, fd: int, data: bytes) -> None:
        self._note("append", os.readlink(f"/proc/self/fd/{fd}"))
        super().append(fd, data)

    def sync(self, fd: int) -> None:
        self._note("sync", os.readlink(f"/proc/self/fd/{fd}"))
        super().sync(fd)

    def replace(
        self, source: str, target: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        self._note("replace", target)
        super().replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def link(self, source: str, target: str) -> None:
        self._note("link", target)
        super().link(source, target)

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        self._note("unlink", path)
        super().unlink(path, dir_fd=dir_fd)

    def _note(self, kind: str, path: str) -> None:
        self.operations.append((kind, os.path.basename(path)))


class KillingDisk(CountingDisk):
    """A disk whose process is killed right after it has appended so many events to journals; of `types`, if given."""

    def __init__(self, appends: int, types: Sequence[str] = ()) -> None:
        super().__init__()
        self._left = appends
        self._types = [f'"type":"{one}"'.encode() for one in types]

    def append(self, fd: int, data: bytes) -> None:
        super().append(fd, data)
        counts = not self._types or any(one in data for one in self._types)
        self._left -= counts and self.operations[-1] == ("append", "events.ndjson")
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)


def new_ledger(folder: RunFolder, table: Table, *, disk: Disk | None = None, seal: Seal = SEAL, **more: Any) -> Ledger:
    """The ledger of a run that no process has claimed; it is not opened yet."""
    disk, more = disk or Disk(), {"on_event": lambda event: None, **more}
    adoption = partial(read_adoption, folder, seal)
    journal = FileJournal(folder.events, disk=disk, redactor=REDACTOR, seal=seal, adoption=adoption)
    return Ledger(folder, journal, table, disk=disk, redactor=REDACTOR, **more)


def open_ledger(path: Path, *, disk: Disk | None = None, seen: list[Event] | None = None) -> Ledger:
    """Open (or begin) the run in this folder."""
    path.mkdir(parents=True, exist_ok=True)
    notes: list[Event] = [] if seen is None else seen
    ledger = new_ledger(RunFolder(path), OPEN_TABLE, disk=disk, on_event=notes.append)
    ledger.open()
    if not ledger.events:
        ledger.record("RUN_CREATED", {"workflow": "open", "maxFixIterations": 3})
    return ledger


class Said(Struct, frozen=True):
    """The outcome of Say."""

    text: str
    times: int = 1


class Say(Effect[Said], frozen=True):
    """An effect whose doing can be counted."""

    text: str
    outcome: ClassVar[Any] = Said


class Doer:
    """Counts what was really done, across the lives of a run."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.redone: list[str] = []

    async def __call__(self, effect: Say, step: Step) -> Said:
        self.done.append(step.key)
        if step.redo:
            self.redone.append(step.key)
        return Said(effect.text)


def live(path: Path, flow: Callable[[Context], Awaitable[T]], handlers: Handlers, **more: Any) -> T:
    """One life of a run: open it, run the flow, close it."""
    ledger = open_ledger(path, disk=more.pop("disk", None))
    try:
        return asyncio.run(_awaited(flow(Context(ledger, handlers, **more))))
    finally:
        ledger.close()


async def _awaited(flow: Awaitable[T]) -> T:
    return await flow
