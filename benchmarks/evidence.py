"""A turn of a session: at message 10 and at message 10,000; opening a long session; what a three-step run costs.

The sessions are written by the session store itself, and the runs of their turns are copies of one real run: what a
turn must not read is there to be read.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from itertools import count
from pathlib import Path
from statistics import median

from measure import Row, Timed, interleaved, scratch, time_text

from orchestra.app import App
from orchestra.cli.turns import unfinished
from orchestra.core.engine import RunEnd
from orchestra.core.run import RunFolder
from orchestra.providers.choose import Models
from orchestra.workflows.evidence.memory import Message
from orchestra.workflows.evidence.sessions import Told, Turn
from orchestra.workflows.evidence.workflow import configured, sessions_of

PER_TURN = 5  # messages: goal, planning, command, result, answer
FEW, MANY, ROUNDS = 10, 10_000, 7
MEMORY = tuple(Message("user" if number % 2 else "assistant", f"말 {number} " * 20) for number in range(24))
ENVIRON = {**os.environ, "ORCHESTRA_KEY": "the key of the benchmarks"}
CHAT = (
    ({"agent": "main", "phase": "plan"}, {"next": "final_report", "reason": "said before"}),
    ({"agent": "main", "phase": "execute"}, "the reply"),
)
LOOK = (
    ({"agent": "main", "phase": "plan"}, {"next": "collect_evidence", "reason": "look"}),
    (
        {"agent": "worker", "contains": "none yet"},
        {"action": "call_tool", "args": {"cmd": "echo hi"}, "reason": "look"},
    ),
    ({"agent": "worker"}, {"action": "finalize"}),
    ({"agent": "main", "phase": "evaluate"}, {"decision": "finalize", "answer": "hi"}),
)


def bench() -> list[Row]:
    with scratch("evidence") as folder:
        chat, look = _script(folder / "chat.json", CHAT), _script(folder / "look.json", LOOK)
        few, many = (_session(folder / f"of-{messages}", chat, messages) for messages in (FEW, MANY))
        turns = (_turn(few, chat, FEW), _turn(many, chat, MANY))
        used: list[float] = []
        times = interleaved(ROUNDS, *turns, _opening(many), _overhead(few, look, used))
    near, far, opening, over = (time_text(times.median(side)) for side in range(4))
    return [
        Row(f"a turn at message {MANY:,}, against message {FEW}", far, near, times.ratio(1, 0), 1.2),
        Row(f"opening a session of {MANY:,} messages", opening, "500 ms", times.median(2) / 0.5, 1.0),
        Row("a three-step run, beside its command", over, "60 ms", times.median(3) / 0.06, 1.0),
        Row("  of it, processor time", time_text(median(used)), "60 ms", median(used) / 0.06),
    ]


def _script(path: Path, replies: tuple[tuple[dict[str, str], object], ...]) -> Path:
    said = [
        {"match": match, "text": text if isinstance(text, str) else json.dumps(text), "repeat": True}
        for match, text in replies
    ]
    path.write_text(json.dumps({"replies": said}))
    return path


def _session(project: Path, script: Path, messages: int) -> Path:
    """A project with a session in which so much was said, and a run for each of its turns."""
    project.mkdir()
    turns = messages // PER_TURN
    told = [Told(number, _run_id(number), f"물음 {number}", "답") for number in range(1, turns + 1)]
    sessions = sessions_of(App(project, environ=ENVIRON).project)
    sessions.restore("s", MEMORY, told)
    _turn(project, script, messages - PER_TURN)()  # a real one
    [made] = [path for path in (project / "runs").iterdir() if path.is_dir()]
    for number in range(1, turns + 1):
        folder = project / "runs" / _run_id(number)
        folder.mkdir()
        for name in ("events.ndjson", "state.json"):
            os.link(made / name, folder / name)  # a new file each would take minutes on a busy disk
    return project


def _run_id(number: int) -> str:
    return f"2026-01-01_{number:03d}_evidence_run"


def _turn(project: Path, script: Path, messages: int) -> Timed:
    numbers = count(messages // PER_TURN + 2)

    def timed() -> float:
        number = next(numbers)
        start = time.perf_counter()
        app = App(project, environ=ENVIRON)
        sessions = sessions_of(app.project)
        with sessions.hold("s"):
            found = sessions.open("s")
            assert found is not None and unfinished(app, sessions, "s") is None
            job = configured(app.project, "그래?", session="s", turn=number, memory=found.messages[:24])
            sessions.begin_turn("s", Turn(number))
            run = app.start("evidence", job, Models(default=f"scripted:{script}"))
            sessions.begin_turn("s", Turn(number, run.id))
            end = asyncio.run(app.drive(run))
        assert end.status == "completed", end
        return time.perf_counter() - start

    return timed


def _opening(project: Path) -> Timed:
    def timed() -> float:
        start = time.perf_counter()
        sessions = sessions_of(App(project, environ=ENVIRON).project)
        found, turns = sessions.open("s"), list(sessions.turns("s"))
        assert found is not None and len(turns) >= MANY // PER_TURN
        return time.perf_counter() - start

    return timed


async def _driven(app: App, run: RunFolder, used: list[float]) -> tuple[RunEnd, float]:
    """Drive a run after the sandbox was tried, as `App.drive` does; how long the run itself took."""
    await app.project.try_command(app.project.policy, run.id)
    start, worked = time.perf_counter(), time.process_time()
    end = await app.engine.drive(run)
    taken = time.perf_counter() - start
    used.append(time.process_time() - worked)
    await app.project.close()
    return end, taken


def _overhead(project: Path, script: Path, used: list[float]) -> Timed:
    """A run with one sandboxed command, without the time of the command and of trying the sandbox.

    `used` gets the processor time of each: on a busy machine and disk the rest is waiting.
    """

    def timed() -> float:
        app = App(project, environ=ENVIRON)
        run = app.start("evidence", configured(app.project, "look"), Models(default=f"scripted:{script}"))
        end, taken = asyncio.run(_driven(app, run, used))
        assert end.status == "completed", end
        events = app.runs.summary(run).events
        [done] = [event for event in events if event.payload.get("native") == "tool-result"]
        return taken - float(done.payload["outcome"]["durationMs"]) / 1000

    return timed
