"""10. 500 × `true` as tasks of a graph, four at a time, on the real runner, launcher and journal.

Bare: bwrap with the very options of those tasks, started from a loop that keeps four in flight and does nothing else:
no pipes, no artifacts, no limits, no watchdog, no record of anything.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from durable import new_ledger, redactor
from launch import bare_bwrap
from measure import Row, Timed, interleaved, scratch, time_text

from orchestra.commands.clock import Timekeeper
from orchestra.commands.run import Runner
from orchestra.commands.sandbox import RefusedCommand, Workshop
from orchestra.commands.scratch import Scratch
from orchestra.commands.tools import Toolbox
from orchestra.core.command import RunCommand
from orchestra.core.context import Context, Handlers
from orchestra.core.disk import Disk
from orchestra.core.faces import Silent
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder
from orchestra.core.work import AutoApprove
from orchestra.patch.gatekeeper import Gatekeeper
from orchestra.policy.policy import Layer, Policy
from orchestra.worker.task import Command, Sandbox
from orchestra.workflows.dag.effects import AdoptPlan
from orchestra.workflows.dag.files import TaskFiles, adopt
from orchestra.workflows.dag.flow import dag
from orchestra.workflows.dag.shapes import Job
from orchestra.workflows.dag.states import TABLE

ROUNDS, TASKS, WORKERS = 7, 500, 4


def bench() -> list[Row]:
    with scratch("tasks") as folder, asyncio.Runner() as loop:
        project, runs = folder / "project", folder / "runs"
        project.mkdir()
        runs.mkdir()
        policy = Policy(layers=(Layer(whitelist=("true",)),), reads=(str(project),))
        toolbox = Toolbox("/usr/bin:/bin", project)
        workshop = Workshop(
            project, toolbox, disk=Disk(), redactor=Redactor([]), runs=runs, run_as=None, scratch=folder / "scratch"
        )
        graph = _graph(loop, workshop, policy, runs)
        with bare_bwrap(folder, *_contained(workshop, policy)) as start:
            times = interleaved(ROUNDS, graph, _bare(start))
        loop.run(workshop.launcher.close())
    ours, bare = (time_text(times.median(side) / TASKS) for side in range(2))
    name = f"{TASKS} x `true`, {WORKERS} workers, per task"
    return [Row(name, ours, f"{bare} bwrap alone", times.ratio(0, 1), 1.25)]


def _contained(workshop: Workshop, policy: Policy) -> tuple[Command, Sandbox]:
    """What the runner makes of such a task."""
    effect = RunCommand(argv=("true",), timeoutMs=10_000, artifact="t", asker="model", keeps="files", task="t")
    found = workshop.resolve(effect, policy, granted=lambda command: False)
    if isinstance(found, RefusedCommand):
        raise RuntimeError(f"`true` cannot run: {found}")
    (tool,) = found
    sandbox = workshop.sandbox(policy, tool, upper=None, layers=())
    return Command(argv=(tool.path,), cwd=str(workshop.workspace), env={"PATH": "/usr/bin"}, timeout_ms=10_000), sandbox


def _graph(loop: asyncio.Runner, workshop: Workshop, policy: Policy, runs: Path) -> Timed:
    plan = [{"task_id": f"t{number}", "intent": "nothing", "tools": ["true"]} for number in range(TASKS)]
    text = msgspec.json.encode(plan).decode()
    job = Job(intent="measure", policy=policy, prompts={}, config={}, plan=text, summarizer=False, maxWorkers=WORKERS)
    numbers = itertools.count(1)

    def once() -> float:
        start = time.perf_counter()
        folder = RunFolder(runs / f"2026-01-01_{next(numbers):03d}_tasks")
        folder.path.mkdir()
        disk = Disk()
        files = TaskFiles(folder, disk)
        ledger = new_ledger(folder, TABLE, disk, files)
        ledger.open()
        ledger.record("RUN_CREATED", {"workflow": "dag", "params": msgspec.to_builtins(job), "goal": job.intent})
        keeper = Timekeeper(1e6)
        runner = Runner(workshop, policy, ledger, keeper, backoff=0.0, face=Silent())
        gate = Gatekeeper(workshop.workspace, redactor(), closed=(), code={})
        handlers: Handlers = {RunCommand: runner, AdoptPlan: adopt, AutoApprove: gate.grant}
        verdict = loop.run(dag(Context(ledger, handlers), job))
        ledger.close()
        Scratch(workshop.scratch, folder.id, workshop.workspace).remove()
        if verdict.status != "completed":
            raise RuntimeError(f"the tasks were to succeed: {verdict}")
        return time.perf_counter() - start

    loop.run(asyncio.sleep(0))
    return once


def _bare(start: Callable[[], int]) -> Timed:
    def once() -> float:
        begin = time.perf_counter()
        running: set[int] = set()
        for _ in range(TASKS):
            if len(running) == WORKERS:
                running.remove(_ended(running))
            running.add(start())
        while running:
            running.remove(_ended(running))
        return time.perf_counter() - begin

    return once


def _ended(running: set[int]) -> int:
    """The next of them to end; the spawner is a child of this process too, but does not end."""
    pid, status = os.waitpid(-1, 0)
    if pid not in running or status:
        raise RuntimeError(f"process {pid} ended with {status}")
    return pid
