"""The smallest durable run: one effect, a table that allows it, a real ledger, journal and disk. Used by all groups."""

from __future__ import annotations

import asyncio
import os
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from orchestra.core.context import Context, Step
from orchestra.core.disk import Disk
from orchestra.core.effects import Effect
from orchestra.core.journal import FileJournal
from orchestra.core.ledger import Ledger
from orchestra.core.projections import Projection
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder
from orchestra.core.seal import Seal
from orchestra.core.tables import Table

TABLE = Table(
    name="bench",
    start="new",
    edges={
        "new": {"RUN_CREATED": "on"},
        "on": {"PHASE_STARTED plan": "on", "PHASE_COMPLETED plan": "on", "RUN_COMPLETED": "done"},
        "done": {},
    },
)
BARE_LINE = b"x" * 299 + b"\n"

SEAL = Seal(b"the key of the benchmarks")


class Said(Struct, frozen=True):
    """An outcome of a chosen size."""

    text: str


class Say(Effect[Said], frozen=True):
    """An effect that acts on the world (so it has a barrier) and takes no time of its own."""

    number: int
    bytes: int = 60
    latency: float = 0.0

    outcome: ClassVar[Any] = Said


async def say(effect: Say, step: Step) -> Said:
    """The handler: the simulated model."""
    if effect.latency:
        await asyncio.sleep(effect.latency)
    return Said("x" * effect.bytes)


class LazyDisk(Disk):
    """Never syncs: to fill a journal whose writing is not what is measured."""

    def sync(self, fd: int) -> None:
        pass


class EagerDisk(Disk):
    """Syncs at every append: what there would be without group commit."""

    def append(self, fd: int, data: bytes) -> None:
        super().append(fd, data)
        super().sync(fd)


@cache
def redactor() -> Redactor:
    """One per process, as in the program."""
    return Redactor()


def new_ledger(folder: RunFolder, table: Table, disk: Disk, *projections: Projection) -> Ledger:
    """A run's ledger, not opened yet."""
    journal = FileJournal(folder.events, disk=disk, redactor=redactor(), seal=SEAL)
    return Ledger(
        folder, journal, table, disk=disk, redactor=redactor(), on_event=lambda event: None, projections=projections
    )


def open_ledger(path: Path, disk: Disk | None = None) -> Ledger:
    """A run's ledger, begun if it is new."""
    path.mkdir(exist_ok=True)
    ledger = new_ledger(RunFolder(path), TABLE, disk or Disk())
    ledger.open()
    if not ledger.events:
        ledger.record("RUN_CREATED", {"workflow": "bench"})
        ledger.journal.sync()
    return ledger


def open_context(ledger: Ledger) -> Context:
    return Context(ledger, {Say: say})


class BareFile:
    """The baseline: append 300 bytes and fdatasync, nothing else."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def step(self) -> None:
        os.write(self._fd, BARE_LINE)
        os.fdatasync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


def folder_bytes(path: Path) -> int:
    """Bytes of every file of a run folder."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
