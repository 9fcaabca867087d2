"""3. Killed at step 500 of 1,000: from process start to the next new step.

Both sides are real programs (`resume_ours.py`, `resume_bare.py`), really killed (SIGKILL in step 500) and really
started anew, each time on a fresh copy of what the kill left. The clock starts before the start of the process and
stops at its word that step 500 is done and durable and step 501 begins.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import time
from pathlib import Path

from measure import CHILD_ENV, HERE, Row, Timed, interleaved, scratch, time_text, timed_process

ROUNDS = 15
STEPS, KILL_AT = 1_000, 500


def bench() -> list[Row]:
    with scratch("resume") as folder:
        sides = [_resumed(folder, HERE / "resume_ours.py"), _resumed(folder, HERE / "resume_bare.py")]
        times = interleaved(ROUNDS, *sides, timed_process("-c", "import asyncio, json"))
    ours, bare, start = (time_text(times.median(side)) for side in range(3))
    return [
        Row("killed at step 500 of 1,000: process start to next new step", ours, bare, times.ratio(0, 1), 1.5),
        Row("  the same against `import asyncio, json` alone", ours, start, times.ratio(0, 2)),
    ]


def _resumed(folder: Path, program: Path) -> Timed:
    killed = folder / f"2026-01-01_001_{program.stem}_killed"
    killed.mkdir()
    command = [sys.executable, str(program), str(killed), str(STEPS), str(KILL_AT)]
    code = subprocess.run(command, env=CHILD_ENV).returncode
    if code != -9:
        raise RuntimeError(f"{program.name} was to be killed, but ended with {code}")
    numbers = itertools.count(2)

    def once() -> float:
        place = folder / f"{program.stem}-{next(numbers)}" / killed.name  # seals hold under the run's own name only
        shutil.copytree(killed, place)
        command = [sys.executable, str(program), str(place), str(STEPS), "0"]
        start = time.perf_counter()
        with subprocess.Popen(command, env=CHILD_ENV, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            word = process.stdout.readline()
            taken = time.perf_counter() - start
            process.kill()
        if word != f"{KILL_AT + 1}\n".encode():
            raise RuntimeError(f"{program.name}: went on at {word!r}")
        return taken

    return once
