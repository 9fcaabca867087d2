"""Whether a step, and a new edition, cost after a thousand editions what they cost after one."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from durable import LazyDisk, Say, open_context, open_ledger
from measure import Row, Timed, interleaved, scratch, time_text

from orchestra.core.context import Context
from orchestra.core.disk import Disk
from orchestra.core.ledger import Ledger

ROUNDS, BATCH = 40, 25
FEW, MANY = 1, 1_000


def bench() -> list[Row]:
    with scratch("editions") as folder, asyncio.Runner() as runner:
        few, many = (_filled(runner, folder / f"run_{count}", count) for count in (FEW, MANY))
        steps = interleaved(ROUNDS, _steps(runner, few, FEW), _steps(runner, many, MANY))
        begun = interleaved(ROUNDS, _editions(runner, few), _editions(runner, many))
        for ledger in (few, many):
            ledger.close()
    return [
        Row(
            f"step after {MANY:,} editions against after {FEW}",
            time_text(steps.median(1)),
            time_text(steps.median(0)),
            steps.ratio(1, 0),
            1.15,
        ),
        Row(
            f"edition with a step, after {MANY:,} editions against after {FEW}",
            time_text(begun.median(1)),
            time_text(begun.median(0)),
            begun.ratio(1, 0),
            1.15,
        ),
    ]


def _filled(runner: asyncio.Runner, path: Path, count: int) -> Ledger:
    """An open ledger with `count` editions of one place, each with a step, filled without syncs."""
    ledger = open_ledger(path, LazyDisk())
    for number in range(1, count + 1):
        runner.run(_edition(open_context(ledger), number))  # a life of the run for each: its input is another one
    ledger.close()
    return open_ledger(path, Disk())


async def _edition(context: Context, number: int) -> Context:
    here = await context.edition("design", {"brief": str(number)})
    await here.perform("step", Say(0))
    return here


def _steps(runner: asyncio.Runner, ledger: Ledger, newest: int) -> Timed:
    """Batches of steps in the newest edition."""
    here = runner.run(_edition(open_context(ledger), newest))
    done = 1

    def batch() -> float:
        nonlocal done
        start = time.perf_counter()
        runner.run(_perform(here, done, BATCH))
        done += BATCH
        return (time.perf_counter() - start) / BATCH

    return batch


async def _perform(here: Context, first: int, count: int) -> None:
    for number in range(first, first + count):
        await here.perform("step", Say(number))


def _editions(runner: asyncio.Runner, ledger: Ledger) -> Timed:
    """A new edition, in a new life of the flow."""
    number = MANY

    def one() -> float:
        nonlocal number
        number += 1
        context = open_context(ledger)
        start = time.perf_counter()
        runner.run(_edition(context, number))
        return time.perf_counter() - start

    return one
