"""9. A task graph without processes: what scheduling, states, journal and files cost beside the appends they need.

The flow, the table, the context, the journal and every file are the real ones; a task's command is a function that
returns at once. Bare: what a group of `WORKERS` tasks must append and sync in any case: an intent each, one sync, an
outcome each.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from pathlib import Path
from typing import Any

import msgspec
from durable import redactor
from measure import Row, Timed, interleaved, scratch, time_text

from orchestra.core.context import Context, Step
from orchestra.core.disk import Disk
from orchestra.core.ledger import Ledger
from orchestra.core.run import RunFolder
from orchestra.core.work import AdoptPlan, Approval, AutoApprove, CommandOutcome, RunCommand
from orchestra.policy import Layer, Policy
from orchestra.workflows.dag.files import TaskFiles, adopt
from orchestra.workflows.dag.flow import dag
from orchestra.workflows.dag.shapes import Job
from orchestra.workflows.dag.states import TABLE

ROUNDS, TASKS, FEW, DEEP, WORKERS, LAYER = 5, 10_000, 1_000, 1_000, 4, 50
_LINE = b"x" * 349 + b"\n"
Plan = list[dict[str, Any]]


def bench() -> list[Row]:
    with scratch("graph") as folder:
        flat, few = _task_graph(folder, _flat(TASKS)), _task_graph(folder, _flat(FEW))
        wide, deep = _task_graph(folder, _wide(TASKS)), _task_graph(folder, _chain(DEEP))
        narrow = _task_graph(folder, _wide(FEW))
        many, one = _bare(folder, TASKS, WORKERS), _bare(folder, DEEP, 1)
        times = interleaved(ROUNDS, flat, wide, many, few, deep, one, _replayed(folder, _flat(TASKS)), narrow)
    counts = (TASKS, TASKS, TASKS, FEW, DEEP, DEEP, TASKS, FEW)
    each = [times.median(side) / tasks for side, tasks in enumerate(counts)]
    flat_, wide_, many_, few_, deep_, one_, again, narrow_ = map(time_text, each)
    base = "append, group commit"
    return [
        Row(f"graph of {TASKS:,} tasks, per task", flat_, f"{many_} {base}", times.ratio(0, 2), 3.0),
        Row(f"graph of {TASKS:,} tasks with 4 edges each, per task", wide_, f"{many_} {base}", times.ratio(1, 2), 3.0),
        Row(f"chain of {DEEP:,} tasks, per task", deep_, f"{one_} append+fdatasync", times.ratio(4, 5), 3.0),
        Row(f"linear: a task of {TASKS:,} against one of {FEW:,}", flat_, few_, times.ratio(0, 3) * FEW / TASKS, 1.25),
        Row("linear: the same with 4 edges each", wide_, narrow_, times.ratio(1, 7) * FEW / TASKS, 1.25),
        Row(f"replay of {TASKS:,} tasks, per task", again, f"{flat_} live", times.ratio(6, 0)),
    ]


def _task(number: int, *after: int) -> dict[str, Any]:
    needs = [f"t{one}" for one in after]
    return {"task_id": f"t{number}", "intent": f"do {number}", "tools": ["echo"], "depends_on": needs}


def _flat(count: int) -> Plan:
    return [_task(number) for number in range(count)]


def _wide(count: int) -> Plan:
    """Layers of tasks, each after four of the layer before."""
    return [
        _task(n, *(n - n % LAYER - LAYER + (n + k) % LAYER for k in range(4)) if n >= LAYER else ())
        for n in range(count)
    ]


def _chain(count: int) -> Plan:
    return [_task(number, *((number - 1,) if number else ())) for number in range(count)]


_numbers = itertools.count(1)


def _task_graph(folder: Path, plan: Plan) -> Timed:
    job = _job(plan)

    def once() -> float:
        return _live(folder / f"2026-01-01_{next(_numbers):03d}_graph", job)

    return once


def _replayed(folder: Path, plan: Plan) -> Timed:
    """The whole flow again over a journal that is complete: what a resume costs."""
    job, path = _job(plan), folder / "2026-01-01_000_replayed"
    _live(path, job)
    return lambda: _live(path, job)


def _job(plan: Plan) -> Job:
    policy = Policy(layers=(Layer(whitelist=("echo",)),))
    return Job(intent="measure", policy=policy, prompts={}, config={}, plan=json.dumps(plan), summarizer=False)


def _live(path: Path, job: Job) -> float:
    start = time.perf_counter()
    path.mkdir(exist_ok=True)
    disk, folder = Disk(), RunFolder(path)
    files = TaskFiles(folder, disk)
    ledger = Ledger(folder, TABLE, disk=disk, redactor=redactor(), on_event=lambda event: None, projections=(files,))
    ledger.open()
    if not ledger.events:
        ledger.record("RUN_CREATED", {"workflow": "dag", "params": msgspec.to_builtins(job), "goal": job.intent})
    verdict = asyncio.run(dag(Context(ledger, {RunCommand: _run, AdoptPlan: adopt, AutoApprove: _grant}), job))
    ledger.close()
    if verdict.status != "completed":
        raise RuntimeError(f"the graph was to be completed: {verdict}")
    return time.perf_counter() - start


async def _run(effect: RunCommand, step: Step) -> CommandOutcome:
    return CommandOutcome(" ".join(effect.argv), 0, "pass", 5, False, "ok")


async def _grant(effect: AutoApprove, step: Step) -> Approval:
    return Approval(granted=True, by="policy", digest=effect.digest)


def _bare(folder: Path, tasks: int, workers: int) -> Timed:
    def once() -> float:
        path = folder / f"bare_{next(_numbers)}"
        start = time.perf_counter()
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for _ in range(tasks // workers):
            for _ in range(workers):
                os.write(fd, _LINE)
            os.fdatasync(fd)
            for _ in range(workers):
                os.write(fd, _LINE)
        os.close(fd)
        return time.perf_counter() - start

    return once
