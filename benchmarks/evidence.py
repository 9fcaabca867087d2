"""A turn of a session: at message 10 and at message 10,000; opening a long session; what a three-step run costs."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

from measure import Row, Timed, interleaved, scratch, time_text

from orchestra.app import App
from orchestra.core.engine import RunEnd
from orchestra.core.run import RunFolder
from orchestra.providers.choose import Models
from orchestra.workflows.evidence.memory import Message
from orchestra.workflows.evidence.sessions import Told, Turn
from orchestra.workflows.evidence.workflow import configured, sessions_of

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
        few, many = (_session(folder / f"of-{turns}", turns) for turns in (FEW, MANY))
        times = interleaved(
            ROUNDS, _turn(few, chat, FEW), _turn(many, chat, MANY), _opening(many), _overhead(few, look)
        )
    near, far, opening, over = (time_text(times.median(side)) for side in range(4))
    return [
        Row(f"a turn at message {MANY:,}, against message {FEW}", far, near, times.ratio(1, 0), 1.2),
        Row(f"opening a session of {MANY:,} messages", opening, "500 ms", times.median(2) / 0.5, 1.0),
        Row("a three-step run, beside its command", over, "60 ms", times.median(3) / 0.06, 1.0),
    ]


def _script(path: Path, replies: tuple[tuple[dict[str, str], object], ...]) -> Path:
    said = [
        {"match": match, "text": text if isinstance(text, str) else json.dumps(text), "repeat": True}
        for match, text in replies
    ]
    path.write_text(json.dumps({"replies": said}))
    return path


def _session(project: Path, turns: int) -> Path:
    """A project with a session of so many turns, and as many folders of runs."""
    project.mkdir()
    for number in range(1, turns + 1):
        (project / "runs" / f"2026-01-01_{number:03d}_evidence_run").mkdir(parents=True)
    sessions = sessions_of(App(project, environ=ENVIRON).project)
    told = [
        Told(number, f"2026-01-01_{number:03d}_evidence_run", f"물음 {number}", "답") for number in range(1, turns + 1)
    ]
    sessions.restore("s", MEMORY, told)
    sessions.begin_turn("s", Turn(turns, told[-1].runId))
    return project


def _turn(project: Path, script: Path, turns: int) -> Timed:
    number = turns

    def timed() -> float:
        nonlocal number
        number += 1
        start = time.perf_counter()
        app = App(project, environ=ENVIRON)
        sessions = sessions_of(app.project)
        with sessions.hold("s"):
            found = sessions.open("s")
            assert found is not None and sessions.newest_turn("s") is not None
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
        assert found is not None and len(turns) >= MANY
        return time.perf_counter() - start

    return timed


async def _driven(app: App, run: RunFolder) -> tuple[RunEnd, float]:
    """Drive a run after the sandbox was tried, as `App.drive` does; how long the run itself took."""
    await app.project.try_command(app.project.policy, run.id)
    start = time.perf_counter()
    end = await app.engine.drive(run)
    taken = time.perf_counter() - start
    await app.project.close()
    return end, taken


def _overhead(project: Path, script: Path) -> Timed:
    """A run with one sandboxed command, without the time of the command and of trying the sandbox."""

    def timed() -> float:
        app = App(project, environ=ENVIRON)
        run = app.start("evidence", configured(app.project, "look"), Models(default=f"scripted:{script}"))
        end, taken = asyncio.run(_driven(app, run))
        assert end.status == "completed", end
        events = app.runs.summary(run).events
        [done] = [event for event in events if event.payload.get("native") == "tool-result"]
        return taken - float(done.payload["outcome"]["durationMs"]) / 1000

    return timed
