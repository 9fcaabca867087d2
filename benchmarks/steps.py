"""1. What a durable step costs, whether it stays flat, and how many bytes it leaves."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec
from durable import BareFile, LazyDisk, Say, folder_bytes, open_context, open_ledger
from measure import Row, Timed, interleaved, scratch, time_text

from orchestra.core.context import Context
from orchestra.core.disk import Disk
from orchestra.core.journal import read_events
from orchestra.core.ledger import Ledger

ROUNDS, BATCH = 40, 25
SHORT, LONG = 100, 10_000


def bench() -> list[Row]:
    with scratch("steps") as folder:
        return [*_cost(folder), *_size(folder)]


def _cost(folder: Path) -> list[Row]:
    """Batches of steps at the 100th and at the 10,000th step of a run, and of bare appends, in turns."""
    short, long = (_filled(folder / f"run_{count}", count) for count in (SHORT, LONG))
    bare = BareFile(folder / "bare")
    with asyncio.Runner() as runner:
        times = interleaved(ROUNDS, _steps(runner, short), _steps(runner, long), _appends(bare))
    for ledger in (short, long):
        ledger.close()
    bare.close()
    near, far, base = (time_text(times.median(side)) for side in range(3))
    return [
        Row(f"durable step, from step {SHORT:,}", near, f"{base} append+fdatasync", times.ratio(0, 2), 1.5),
        Row(f"durable step, from step {LONG:,}", far, f"{base} append+fdatasync", times.ratio(1, 2), 1.5),
        Row("flat: step 10,000 against step 100", far, near, times.ratio(1, 0), 1.15),
    ]


def _filled(path: Path, count: int) -> Ledger:
    """An open ledger of `count` steps, filled without syncs and from then on on the real disk."""
    ledger = open_ledger(path, LazyDisk())
    asyncio.run(_perform(open_context(ledger), 0, count))
    ledger.close()
    return open_ledger(path, Disk())


def _steps(runner: asyncio.Runner, ledger: Ledger) -> Timed:
    context = open_context(ledger)
    done = len(ledger.events) // 2
    runner.run(_perform(context, 0, done))  # the flow is replayed up to where the run is

    def batch() -> float:
        nonlocal done
        start = time.perf_counter()
        runner.run(_perform(context, done, BATCH))
        taken = time.perf_counter() - start
        done += BATCH
        return taken / BATCH

    return batch


async def _perform(context: Context, first: int, count: int) -> None:
    for number in range(first, first + count):
        await context.perform("step", Say(number))


def _appends(bare: BareFile) -> Timed:
    def batch() -> float:
        start = time.perf_counter()
        for _ in range(BATCH):
            bare.step()
        return (time.perf_counter() - start) / BATCH

    return batch


def _size(folder: Path) -> list[Row]:
    """Bytes of the whole run folder against the bytes it had to keep."""
    rows = []
    for size in (60, 1024):
        ledger = open_ledger(folder / f"size_{size}", LazyDisk())
        asyncio.run(_grow(open_context(ledger), size, 1000))
        ledger.close()
        payload, said = _payloads(ledger.folder.events)
        disk = folder_bytes(ledger.folder.path)
        name = f"bytes on disk, 1,000 steps, outcome of {size} B"
        rows.append(Row(f"{name}, to event payloads", f"{disk:,} B", f"{payload:,} B", disk / payload, 2.0))
        target = 2.0 if size == 1024 else None  # the envelope S1 asks for outweighs 60 bytes
        rows.append(Row(f"{name}, to effects and outcomes alone", f"{disk:,} B", f"{said:,} B", disk / said, target))
    return rows


async def _grow(context: Context, size: int, count: int) -> None:
    for number in range(count):
        await context.perform("step", Say(number, size))


def _payloads(events: Path) -> tuple[int, int]:
    """Bytes of all event payloads; and of the effects and outcomes in them, without keys, digests and names."""
    payloads = [event.payload for event in read_events(events)]
    whole = sum(len(msgspec.json.encode(payload)) for payload in payloads)
    own = ({k: v for k, v in payload.items() if k in ("number", "bytes", "outcome")} for payload in payloads)
    return whole, sum(len(msgspec.json.encode(part)) for part in own)
