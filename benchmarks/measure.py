"""What all benchmarks share: a scratch folder, interleaved rounds, and the row a benchmark reports.

A figure is a ratio of two things done in turns, in one run, on one disk: the machine's own noise is in both. The order
within a round alternates, so that neither side always runs in the other's wake. The ratio is the median of the rounds'
ratios, not the ratio of medians: a slow minute then slows both sides of the same rounds.
"""

from __future__ import annotations

import array
import fcntl
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from msgspec import Struct

HERE = Path(__file__).resolve().parent
SCRATCH = HERE / ".tmp"  # on the disk of the repository, as .runs/ is on the disk of a project
# What an installed program has: compiled bytecode, also where the environment forbids to write it.
_BYTECODE = {"PYTHONPYCACHEPREFIX": str(SCRATCH / "bytecode")}
CHILD_ENV = {**os.environ, **_BYTECODE, "PYTHONDONTWRITEBYTECODE": ""}
Timed = Callable[[], float]  # does it once, returns seconds
_GETFLAGS, _SETFLAGS, _TOPDIR = 0x80086601, 0x40086602, 0x00020000  # linux/fs.h


class Row(Struct, frozen=True):
    """One line of the table. No target: the figure is information."""

    name: str
    ours: str
    baseline: str
    ratio: float
    target: float | None = None
    bound: Literal["at most", "at least"] = "at most"

    @property
    def ok(self) -> bool:
        if self.target is None:
            return True
        return self.ratio <= self.target if self.bound == "at most" else self.ratio >= self.target


class Timings(Struct, frozen=True):
    """Seconds of each side, round by round, in the order the sides were given."""

    sides: tuple[tuple[float, ...], ...]

    def median(self, side: int) -> float:
        return statistics.median(self.sides[side])

    def ratio(self, side: int, to: int) -> float:
        """How many times as long the one side takes: the median over the rounds."""
        return statistics.median(a / b for a, b in zip(self.sides[side], self.sides[to], strict=True))


def interleaved(rounds: int, *sides: Timed) -> Timings:
    """Do each side once per round, in an order that turns by one every round."""
    taken: list[list[float]] = [[] for _ in sides]
    for number in range(rounds):
        for offset in range(len(sides)):
            side = (number + offset) % len(sides)
            taken[side].append(sides[side]())
    return Timings(tuple(map(tuple, taken)))


def timed_process(*arguments: str) -> Timed:
    """A Python process from its start to its end; once untimed, so that its bytecode is there."""
    command = [sys.executable, *arguments]

    def once() -> float:
        start = time.perf_counter()
        subprocess.run(command, check=True, env=CHILD_ENV, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start

    once()
    return once


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """An empty folder for one benchmark, gone afterwards."""
    SCRATCH.mkdir(exist_ok=True)
    _spread(SCRATCH)
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=SCRATCH))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _spread(folder: Path) -> None:
    """Have folders in this one made far from all others, by their names, as ext4 does at its top.

    Without a journal, whenever it makes a file, it steps over every inode nearby that was removed in the last minutes:
    this benchmark would pay for what an earlier one, or a test, removed.
    """
    flags = array.array("L", [0])
    fd = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, _GETFLAGS, flags)
        flags[0] |= _TOPDIR
        fcntl.ioctl(fd, _SETFLAGS, flags)
    except OSError:
        pass  # another file system
    finally:
        os.close(fd)


def time_text(seconds: float) -> str:
    """Seconds in the unit a person would choose."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def markdown(rows: Sequence[Row]) -> str:
    """The table that is printed and kept in README.md."""
    lines = ["| what | ours | baseline | ratio | target | ok |", "|---|---|---|---|---|---|"]
    for row in rows:
        sign = "≤" if row.bound == "at most" else "≥"
        target, ok = ("-", "info") if row.target is None else (f"{sign} {row.target:g}", "yes" if row.ok else "**NO**")
        lines.append(f"| {row.name} | {row.ours} | {row.baseline} | {row.ratio:.2f} | {target} | {ok} |")
    return "\n".join(lines)
