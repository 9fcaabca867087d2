"""4. A hundred concurrent branches of one run: group commit against one sync per event."""

from __future__ import annotations

import asyncio
import itertools
import time
from pathlib import Path

from durable import EagerDisk, Say, open_context, open_ledger
from measure import Row, Timed, interleaved, scratch, time_text

from orchestra.core.context import Context
from orchestra.core.disk import Disk

BRANCHES, STEPS, ROUNDS = 100, 5, 7


def bench() -> list[Row]:
    with scratch("branches") as folder:
        times = interleaved(ROUNDS, _timed(folder, EagerDisk()), _timed(folder, Disk()))
    return [
        Row(
            f"{BRANCHES} branches of {STEPS} steps: one sync per event against group commit",
            f"{time_text(times.median(1))} group commit",
            f"{time_text(times.median(0))} sync per event",
            times.ratio(0, 1),
            5.0,
            "at least",
        )
    ]


def _timed(folder: Path, disk: Disk) -> Timed:
    numbers = itertools.count()

    def once() -> float:
        ledger = open_ledger(folder / f"{type(disk).__name__}_{next(numbers)}", disk)
        start = time.perf_counter()
        asyncio.run(_fan_out(open_context(ledger)))
        ledger.journal.sync()
        taken = time.perf_counter() - start
        ledger.close()
        return taken

    return once


async def _fan_out(context: Context) -> None:
    await context.fan_out({f"branch{number}": _branch for number in range(BRANCHES)})


async def _branch(context: Context) -> None:
    for number in range(STEPS):
        await context.perform("step", Say(number))
