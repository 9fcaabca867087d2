"""9. A task graph without processes: what scheduling, states, journal and files cost beside the appends they need.

The flow, the table, the context, the journal and every file are the real ones; a task's command is a function that
returns at once. Scheduling and journaling: from the plan's approval to the closed run folder. With the reading of the
plan: from its text on, which is checked task by task, written down and approved. Bare: what a group of `WORKERS` tasks
must append and sync in any case: an intent each, one sync, an outcome each.
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
        plans = (_flat(TASKS), _flat(FEW), _wide(TASKS), _wide(FEW), _chain(DEEP))
        graphs = [side for plan in plans for side in _task_graph(folder, plan)]
        many, one = _bare(folder, TASKS, WORKERS), _bare(folder, DEEP, 1)
        times = interleaved(ROUNDS, *graphs, many, one, _replayed(folder, _flat(TASKS)))
    counts = [len(plan) for plan in plans for _ in range(2)] + [TASKS, DEEP, TASKS]
    each = [time_text(times.median(side) / tasks) for side, tasks in enumerate(counts)]
    flat, flat_, few, _, wide, wide_, narrow, _, deep, deep_, many_, one_, again = each
    group, sync = f"{many_} append, group commit", f"{one_} append+fdatasync"
    work = "scheduling and journaling, per task"
    return [
        Row(f"graph of {TASKS:,} tasks: {work}", flat_, group, times.ratio(1, 10), 3.0),
        Row("  the same with the reading of the plan", flat, group, times.ratio(0, 10)),
        Row(f"graph of {TASKS:,} tasks with 4 edges each: {work}", wide_, group, times.ratio(5, 10), 3.0),
        Row("  the same with the reading of the plan", wide, group, times.ratio(4, 10)),
        Row(f"chain of {DEEP:,} tasks: {work}", deep_, sync, times.ratio(9, 11), 3.0),
        Row("  the same with the reading of the plan", deep, sync, times.ratio(8, 11), 3.0),
        Row(f"linear: a task of {TASKS:,} against one of {FEW:,}", flat, few, times.ratio(0, 2) * FEW / TASKS, 1.25),
        Row("linear: the same with 4 edges each", wide, narrow, times.ratio(4, 6) * FEW / TASKS, 1.25),
        Row(f"replay of {TASKS:,} tasks, per task", again, f"{flat} live", times.ratio(12, 0)),
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


def _task_graph(folder: Path, plan: Plan) -> tuple[Timed, Timed]:
    """A graph from its start, and from its plan's approval: two runs each round."""
    job = _job(plan)

    def path() -> Path:
        return folder / f"2026-01-01_{next(_numbers):03d}_graph"

    return lambda: _live(path(), job)[0], lambda: _live(path(), job)[1]


def _replayed(folder: Path, plan: Plan) -> Timed:
    """The whole flow again over a journal that is complete: what a resume costs."""
    job, path = _job(plan), folder / "2026-01-01_000_replayed"
    _live(path, job)
    return lambda: _live(path, job)[0]


def _job(plan: Plan) -> Job:
    policy = Policy(layers=(Layer(whitelist=("echo",)),))
    return Job(intent="measure", policy=policy, prompts={}, config={}, plan=json.dumps(plan), summarizer=False)


def _live(path: Path, job: Job) -> tuple[float, float]:
    """One life of a run: its seconds, and those of them after the approval of its plan."""
    start = approved = time.perf_counter()

    async def grant(effect: AutoApprove, step: Step) -> Approval:
        nonlocal approved
        approved = time.perf_counter()
        return Approval(granted=True, by="policy", digest=effect.digest)

    path.mkdir(exist_ok=True)
    disk, folder = Disk(), RunFolder(path)
    files = TaskFiles(folder, disk)
    ledger = Ledger(folder, TABLE, disk=disk, redactor=redactor(), on_event=lambda event: None, projections=(files,))
    ledger.open()
    if not ledger.events:
        ledger.record("RUN_CREATED", {"workflow": "dag", "params": msgspec.to_builtins(job), "goal": job.intent})
    verdict = asyncio.run(dag(Context(ledger, {RunCommand: _run, AdoptPlan: adopt, AutoApprove: grant}), job))
    ledger.close()
    end = time.perf_counter()
    if verdict.status != "completed":
        raise RuntimeError(f"the graph was to be completed: {verdict}")
    return end - start, end - approved


async def _run(effect: RunCommand, step: Step) -> CommandOutcome:
    return CommandOutcome(" ".join(effect.argv), 0, "pass", 5, False, "ok")


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
