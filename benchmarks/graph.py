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
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from durable import new_ledger
from measure import Row, Timed, Timings, interleaved, scratch, time_text

from orchestra.core.command import CommandOutcome, RunCommand
from orchestra.core.context import Context, Step
from orchestra.core.disk import Disk
from orchestra.core.run import RunFolder
from orchestra.core.work import Approval, AutoApprove
from orchestra.policy.policy import Layer, Policy
from orchestra.workflows.dag.effects import AdoptPlan
from orchestra.workflows.dag.files import TaskFiles, adopt
from orchestra.workflows.dag.flow import dag
from orchestra.workflows.dag.shapes import Job
from orchestra.workflows.dag.states import TABLE

ROUNDS, TASKS, FEW, DEEP, WORKERS, LAYER = 5, 10_000, 1_000, 1_000, 4, 50
_LINE = b"x" * 349 + b"\n"
Plan = list[dict[str, Any]]


def bench() -> list[Row]:
    with scratch("graph") as folder:
        flat, wide, deep = _Graph(folder, _flat(TASKS)), _Graph(folder, _wide(TASKS)), _Graph(folder, _chain(DEEP))
        few, narrow = _Graph(folder, _flat(FEW)), _Graph(folder, _wide(FEW))
        again = _replayed(folder, _flat(TASKS))
        group, single = _bare(folder, TASKS, WORKERS), _bare(folder, DEEP, 1)
        taken = interleaved(ROUNDS, flat, wide, deep, few, narrow, again, group, single).sides
    whole = dict(zip((flat, wide, deep, few, narrow), taken, strict=False))
    replay, grouped, synced = taken[-3:]
    rows: list[Row] = []
    for graph, name, bare, base, target in (
        (flat, f"graph of {TASKS:,} tasks", grouped, "append, group commit", 3.0),
        (wide, f"graph of {TASKS:,} tasks with 4 edges each", grouped, "append, group commit", None),
        (deep, f"chain of {DEEP:,} tasks", synced, "append+fdatasync", 3.0),
    ):
        base = f"{_each(bare, graph.tasks)} {base}"
        work = Timings((tuple(graph.worked), bare)).ratio(0, 1)
        all_ = Timings((whole[graph], bare)).ratio(0, 1)
        rows += [
            Row(f"{name}: scheduling and journaling, per task", _each(graph.worked, graph.tasks), base, work, target),
            Row("  the same with the reading of its plan", _each(whole[graph], graph.tasks), base, all_),
        ]
    for many, less, name in (
        (flat, few, f"a task of {TASKS:,} against one of {FEW:,}"),
        (wide, narrow, "with 4 edges each"),
    ):
        ratio = Timings((whole[many], whole[less])).ratio(0, 1) * less.tasks / many.tasks
        ours, theirs = _each(whole[many], many.tasks), _each(whole[less], less.tasks)
        rows.append(Row(f"linear: {name}", ours, theirs, ratio, 1.25))
    live = Timings((replay, whole[flat])).ratio(0, 1)
    return [*rows, Row(f"replay of {TASKS:,} tasks, per task", _each(replay, TASKS), "live", live)]


def _each(seconds: Sequence[float], tasks: int) -> str:
    return time_text(statistics.median(seconds) / tasks)


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


class _Graph:
    """A graph that is run anew whenever it is called; `worked` are the seconds after its plan's approval."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.tasks = len(plan)
        self.worked: list[float] = []
        self._folder = folder
        self._job = _job(plan)

    def __call__(self) -> float:
        whole, worked = _live(self._folder / f"2026-01-01_{next(_numbers):03d}_graph", self._job)
        self.worked.append(worked)
        return whole


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
    ledger = new_ledger(folder, TABLE, disk, files)
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
