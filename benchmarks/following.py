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

from orchestra.core.disk import Disk
from orchestra.core.inbox import message
from orchestra.core.keyring import Keyring
from orchestra.core.records import now
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder
from orchestra.core.store import FileStore

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
ASKING = """
import asyncio, os, sys, time
from pathlib import Path
from orchestra.app import App
from orchestra.core.context import Verdict
from orchestra.core.faces import Waiting
from orchestra.core.work import AskPerson
from orchestra.providers.choose import Models
from orchestra.workflows.description import Workflow
from msgspec import Struct
class Nothing(Struct, frozen=True):
    pass
async def flow(ctx, job):
    while True:
        name = f"q{ctx.peek_key('ask')}"
        ask = AskPerson(questionId=name, question="?", reason="", needed_input=(), artifact=f"ask/{name}")
        await ctx.perform("ask", ask)
        print(time.monotonic(), flush=True)
class Face:
    def tell(self, news):
        if isinstance(news, Waiting):
            print(news.folder.path, flush=True)
asks = Workflow(name="asks", params=Nothing, flow=flow, goal=lambda job: "a")
app = App(Path(sys.argv[1]), face=Face(), more=(asks,), environ={**os.environ, "ORCHESTRA_KEY": "k" * 32})
run = app.start("asks", Nothing(), Models())
asyncio.run(app.drive(run, patient=True))
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
        process_of(FOLLOWER, str(folder.path), "inotify") as ours,
        process_of(FOLLOWER, str(folder.path), "polling") as polling,
        process_of(BARE) as bare,
        part.open("ab", buffering=0) as text,
    ):
        for follower in (ours, polling):
            came(follower)
            came(follower)
        events, tokens, pipe, polled = [], [], [], []
        for number in range(3, 3 + ROUNDS):
            time.sleep(PAUSE_S)
            start = time.monotonic()
            _append(folder, number, "PHASE_STARTED", {"key": f"x.{number}"})
            events.append(came(ours) - start)
            polled.append(came(polling) - start)
            time.sleep(PAUSE_S)
            start = time.monotonic()
            text.write("토큰, ".encode())
            tokens.append(came(ours) - start)
            came(polling)
            time.sleep(PAUSE_S)
            start = time.monotonic()
            _say(bare)
            pipe.append(came(bare) - start)
        used = [used_ns(ours), used_ns(polling)]
        time.sleep(IDLE_S)
        idle = [(used_ns(one) - before) / 1e9 / IDLE_S for one, before in zip((ours, polling), used, strict=True)]
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
    return [*rows, *_answered(bare_text)]


def _answered(bare_text: str) -> list[Row]:
    """A run that waits for a person in another process: how long an answer takes, and what waiting costs."""
    place = SCRATCH / "answering"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    disk, redactor = Disk(), Redactor()
    store = FileStore(disk, redactor, Keyring({"ORCHESTRA_KEY": "k" * 32}, place, disk))
    taken = []
    with process_of(ASKING, str(place)) as waits:
        assert waits.stdout
        for number in range(1, ROUNDS + 1):
            folder = RunFolder(Path(waits.stdout.readline().strip()))
            time.sleep(PAUSE_S)
            start = time.monotonic()
            store.deliver(folder, f"qask.{number}", message("answer", "bench", text="yes"))
            taken.append(came(waits) - start)
        used = used_ns(waits)
        time.sleep(IDLE_S)
        idle = 100 * (used_ns(waits) - used) / 1e9 / IDLE_S
    median = statistics.median(taken)
    return [
        Row("an answer, given until taken, in ms", time_text(median), bare_text, 1000 * median, 10.0),
        Row("  idle, in % of a processor", f"{idle:.2f} %", "100 %", idle, 1.0),
    ]


def _append(folder: RunFolder, number: int, type: str, payload: dict[str, str]) -> None:
    event = {"id": f"{number:08d}", "runId": folder.id, "ts": now(), "type": type, "payload": payload}
    with folder.events.open("ab", buffering=0) as journal:
        journal.write(json.dumps(event).encode() + b"\n")


@contextmanager
def process_of(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
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


def came(process: subprocess.Popen[str]) -> float:
    assert process.stdout
    return float(process.stdout.readline())


def used_ns(process: subprocess.Popen[str]) -> int:
    return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0])
