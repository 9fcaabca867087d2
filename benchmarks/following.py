"""13. Another process reads along: how long after a write it is told, and what it costs while nothing happens.

One process writes a run's files, another follows the run and prints when each record came. Bare: a process that blocks
in `read` of a pipe and prints when a line came; nothing can be told sooner. Both are told in turns.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import CHILD_ENV, SCRATCH, Row, time_text

from orchestra.core.records import now
from orchestra.core.run import RunFolder

ROUNDS, PAUSE_S, IDLE_S = 60, 0.02, 4.0
FOLLOWER = """
import asyncio, sys, time
from pathlib import Path
from orchestra.core.disk import Disk
from orchestra.core.faces import Happened, Token
from orchestra.core.keyring import Keyring
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder
from orchestra.core.store import FileStore
from orchestra.runs.follow import follow
run, polling = RunFolder(Path(sys.argv[1])), sys.argv[2] == "polling"
async def told():
    redactor = Redactor()
    store = FileStore(Disk(), redactor, Keyring({"HOME": "/nonexistent"}, run.path, Disk()))
    async for news in follow(store, run, redactor=redactor, root_of=lambda _: run.path.parent, polling=polling):
        if isinstance(news, Happened | Token):
            print(time.monotonic(), flush=True)
asyncio.run(told())
"""
BARE = """
import sys, time
for line in sys.stdin.buffer:
    print(time.monotonic(), flush=True)
"""
CALL = {"key": "plan.1", "effect": "ModelCall", "role": "planner", "agent": "planner", "artifact": "plan/iter-0001"}


def bench() -> list[Row]:
    folder = RunFolder(SCRATCH / "following" / "2026-01-01_001_loop_x")
    shutil.rmtree(folder.path, ignore_errors=True)
    part = folder.artifact("plan/iter-0001.raw.txt.part")
    part.parent.mkdir(parents=True)
    _append(folder, 1, "RUN_CREATED", {"workflow": "loop"})
    _append(folder, 2, "PHASE_STARTED", CALL)
    part.touch()
    rows: list[Row] = []
    with (
        _process(FOLLOWER, str(folder.path), "inotify") as ours,
        _process(FOLLOWER, str(folder.path), "polling") as polling,
        _process(BARE) as bare,
        part.open("ab", buffering=0) as text,
    ):
        for follower in (ours, polling):
            _came(follower)
            _came(follower)
        events, tokens, pipe, polled = [], [], [], []
        for number in range(3, 3 + ROUNDS):
            time.sleep(PAUSE_S)
            start = time.monotonic()
            _append(folder, number, "PHASE_STARTED", {"key": f"x.{number}"})
            events.append(_came(ours) - start)
            polled.append(_came(polling) - start)
            time.sleep(PAUSE_S)
            start = time.monotonic()
            text.write("토큰, ".encode())
            tokens.append(_came(ours) - start)
            _came(polling)
            time.sleep(PAUSE_S)
            start = time.monotonic()
            _say(bare)
            pipe.append(_came(bare) - start)
        used = [_used_ns(ours), _used_ns(polling)]
        time.sleep(IDLE_S)
        idle = [(_used_ns(one) - before) / 1e9 / IDLE_S for one, before in zip((ours, polling), used, strict=True)]
    bare_text = f"{time_text(statistics.median(pipe))} by a pipe"
    for name, taken, most in (
        ("an event, written until told by `follow`", events, 10.0),
        ("  a token", tokens, 10.0),
        ("  an event, without inotify", polled, None),
    ):
        median = statistics.median(taken)
        rows.append(Row(f"{name}, in ms", time_text(median), bare_text, 1000 * median, most))
    for name, share, most in (("", idle[0], 1.0), (", without inotify", idle[1], 1.0)):
        rows.append(Row(f"  idle, in % of a processor{name}", f"{100 * share:.2f} %", "100 %", 100 * share, most))
    return rows


def _append(folder: RunFolder, number: int, type: str, payload: dict[str, str]) -> None:
    event = {"id": f"{number:08d}", "runId": folder.id, "ts": now(), "type": type, "payload": payload}
    with folder.events.open("ab", buffering=0) as journal:
        journal.write(json.dumps(event).encode() + b"\n")


@contextmanager
def _process(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=CHILD_ENV) as running:
        try:
            yield running
        finally:
            running.kill()


def _say(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("x\n")
    process.stdin.flush()


def _came(process: subprocess.Popen[str]) -> float:
    assert process.stdout
    return float(process.stdout.readline())


def _used_ns(process: subprocess.Popen[str]) -> int:
    return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0])
