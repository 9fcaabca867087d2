"""5. Replaying a 10,000-event run, and `orchestra show` of one.

Live, a step has 10 ms of simulated model latency (as in group 2; a real model takes a hundred times that), measured
over a tenth of the run and multiplied by ten. Without any latency the live run is only syncs: that ratio is given too.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import sys
import time
from pathlib import Path

from durable import LazyDisk, Say, open_context, open_ledger
from loop_run import write_loop_run
from measure import Row, Timed, interleaved, scratch, time_text, timed_process

from orchestra.core.context import Context

EVENTS = 10_000
STEPS, SAMPLE, ROUNDS, SHOWN = EVENTS // 2, EVENTS // 20, 5, 15
ORCHESTRA = str(Path(sys.executable).with_name("orchestra"))


def bench() -> list[Row]:
    with scratch("replay") as folder:
        return [*_replay(folder), *_show(folder)]


def _replay(folder: Path) -> list[Row]:
    times = interleaved(
        ROUNDS,
        _replayed(folder),
        _live(folder, "slow", 0.01),
        _live(folder, "fast", 0.0),
    )
    again, slow, fast = (time_text(times.median(side)) for side in range(3))
    name = f"replay of {EVENTS:,} events"
    return [
        Row(f"{name} against live, 10 ms latency", again, slow, times.ratio(1, 0), 50.0, "at least"),
        Row(f"{name} against live, no latency at all", again, fast, times.ratio(2, 0)),
    ]


def _replayed(folder: Path) -> Timed:
    path = folder / "replayed"
    ledger = open_ledger(path, LazyDisk())
    asyncio.run(_flow(open_context(ledger), STEPS))
    ledger.close()

    def once() -> float:
        start = time.perf_counter()
        ledger = open_ledger(path)
        asyncio.run(_flow(open_context(ledger), STEPS))
        taken = time.perf_counter() - start
        if len(ledger.events) != 2 * STEPS + 1:
            raise RuntimeError("a replay performed something")
        ledger.close()
        return taken

    return once


def _live(folder: Path, name: str, latency: float) -> Timed:
    numbers = itertools.count()

    def once() -> float:
        ledger = open_ledger(folder / f"{name}_{next(numbers)}")
        start = time.perf_counter()
        asyncio.run(_flow(open_context(ledger), SAMPLE, latency=latency))
        taken = time.perf_counter() - start
        ledger.close()
        return taken * STEPS / SAMPLE

    return once


async def _flow(context: Context, steps: int, *, latency: float = 0.0) -> None:
    for number in range(steps):
        await context.perform("step", Say(number, latency=latency))


def _show(folder: Path) -> list[Row]:
    """`orchestra show` as a process, of a run of the loop with a thousand fixes; against half a second."""
    run = write_loop_run(folder, EVENTS)
    show = timed_process(ORCHESTRA, "show", run, "-C", str(folder))
    seconds = statistics.median(show() for _ in range(SHOWN))
    return [Row(f"`orchestra show` of {EVENTS:,} events, seconds", time_text(seconds), "0.5 s", seconds, 0.5)]
