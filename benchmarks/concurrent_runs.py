"""2. A hundred runs of ten steps in one process, each step with 10 ms of simulated model latency.

Run as a program (`concurrent_runs.py ours|bare`) it does one side once and prints its peak memory.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time
from pathlib import Path

from durable import BareFile, Say, open_context, open_ledger
from measure import Row, Timed, interleaved, scratch, time_text

RUNS, STEPS, LATENCY = 100, 10, 0.01
ROUNDS = 7


def bench() -> list[Row]:
    with scratch("concurrent_runs") as folder:
        times = interleaved(ROUNDS, _timed(folder, _ours), _timed(folder, _bare))
        row = Row(
            f"{RUNS} concurrent runs of {STEPS} steps, 10 ms latency",
            time_text(times.median(0)),
            f"{time_text(times.median(1))} bare appends",
            times.ratio(0, 1),
            2.0,
        )
    return [row, _memory()]


def _timed(folder: Path, side: type[_Side]) -> Timed:
    numbers = itertools.count()

    def once() -> float:
        place = folder / f"{side.__name__}_{next(numbers)}"
        place.mkdir()
        start = time.perf_counter()
        asyncio.run(_all(side(), place))
        return time.perf_counter() - start

    return once


class _Side:
    """How one run is done; `_ours` and `_bare` share everything else."""

    async def run(self, path: Path) -> None:
        raise NotImplementedError


class _ours(_Side):
    async def run(self, path: Path) -> None:
        ledger = open_ledger(path)
        context = open_context(ledger)
        for number in range(STEPS):
            await context.perform("step", Say(number, latency=LATENCY))
        ledger.record("RUN_COMPLETED", {})
        ledger.close()


class _bare(_Side):
    """Creates a file, and for every step waits, appends and syncs; a first and a last line frame the run like ours."""

    async def run(self, path: Path) -> None:
        file = BareFile(path)
        file.step()
        for _ in range(STEPS):
            await asyncio.sleep(LATENCY)
            file.step()
        file.step()
        file.close()


async def _all(side: _Side, folder: Path) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(RUNS):
            group.create_task(side.run(folder / f"2026-01-01_{number:03d}_bench_run"))


def _memory() -> Row:
    """Peak resident memory of a process that does only this."""
    ours, bare = (
        int(subprocess.run([sys.executable, __file__, side], check=True, capture_output=True).stdout)
        for side in ("ours", "bare")
    )
    return Row("the same, peak memory of the process", f"{ours / 1024:.1f} MB", f"{bare / 1024:.1f} MB", ours / bare)


def _peak_kb() -> int:
    # VmHWM, not ru_maxrss: that one remembers the size of the process we were started from.
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    with scratch("concurrent_memory") as own:
        asyncio.run(_all({"ours": _ours, "bare": _bare}[sys.argv[1]](), own))
    sys.stdout.write(f"{_peak_kb()}\n")
