"""A task graph's run with an executor of the test's own instead of processes: scheduling, states and files.

The planner, the executor and the person are the test's; the flow, the table, the context, the journal and every file
are the real ones.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from orchestra.core.command import CommandOutcome, RunCommand
from orchestra.core.context import Context, Step, Verdict
from orchestra.core.disk import Disk
from orchestra.core.errors import StepFailed
from orchestra.core.records import ArtifactRef, Event
from orchestra.core.run import RunFolder
from orchestra.core.work import Approval, Approve, AutoApprove, ModelCall, ModelReply
from orchestra.policy.policy import Layer, Policy
from orchestra.workflows.dag.effects import AdoptPlan
from orchestra.workflows.dag.files import TaskFiles, adopt
from orchestra.workflows.dag.flow import dag
from orchestra.workflows.dag.plan import read_plan
from orchestra.workflows.dag.shapes import Job
from orchestra.workflows.dag.states import TABLE
from tests.support.core import new_ledger

RAW = ArtifactRef("artifacts/plan/x.raw.txt", 0, "sha256:" + "0" * 64)
POLICY = Policy(layers=(Layer(whitelist=("echo", "ls", "cat", "node", "python", "poetry", "pnpm", "git")),))
Executor = Callable[[RunCommand, int], Awaitable[CommandOutcome]]


def task(name: str, *after: str, tool: str = "echo", **more: Any) -> dict[str, Any]:
    """A planner's task."""
    return {"task_id": name, "intent": f"do {name}", "tools": [tool], "depends_on": list(after), **more}


class LazyDisk(Disk):
    """Never syncs: a long journal is to be written."""

    def sync(self, fd: int) -> None:
        pass


def wanted(count: int) -> str:
    """A plan in which each task comes after four others."""
    return json.dumps([task(f"t{n}", *(f"t{n - k}" for k in range(1, 5) if n >= k)) for n in range(count)])


def write_long_run(project: Path, run: str, tasks: int, *, lines: int) -> Path:
    """Write the run of a graph of so many tasks, each with so many lines of output, which goes on; its journal."""
    folder = RunFolder(project / ".runs" / "workflows" / run)
    folder.path.mkdir(parents=True)
    disk, text = LazyDisk(), wanted(tasks)
    files = TaskFiles(folder, disk)
    ledger = new_ledger(folder, TABLE, disk=disk, projections=(files,))
    ledger.open()
    ledger.record("RUN_CREATED", {"workflow": "dag", "params": msgspec.to_builtins(job(text)), "goal": "긴 일"})
    plan = msgspec.to_builtins(read_plan(text, run, POLICY))
    adopting = {"key": "adopt.1", "effect": "AdoptPlan"}
    ledger.record("PHASE_STARTED", {**adopting, "intent": "x"}, "plan", 1)
    ledger.record("PHASE_COMPLETED", {**adopting, "outcome": {"plan": plan, "added": False}}, "plan", 1)
    ledger.record("APPROVAL_GRANTED", {"key": "approve.1", "effect": "AutoApprove"}, "plan", 1)
    for number in range(tasks):
        step = {"key": f"t{number}/run.1", "effect": "RunCommand"}
        ledger.record("PHASE_STARTED", {**step, "argv": ["echo"]}, "execute", 1)
        outcome = {"exitCode": 0, "durationMs": 5, "status": "pass", "output": f"{number} 번째\n" * lines}
        ledger.record("PHASE_COMPLETED", {**step, "outcome": outcome}, "execute", 1)
    ledger.close()
    return folder.events


def passed(command: RunCommand, output: str = "ok") -> CommandOutcome:
    """A command that did well."""
    return CommandOutcome(" ".join(command.argv), 0, "pass", 5, False, output)


async def succeed(command: RunCommand, attempt: int) -> CommandOutcome:
    return passed(command)


def job(plan: list[dict[str, Any]] | str, **more: Any) -> Job:
    """A job with a person's own plan (text, or tasks); an empty text: the planner makes one."""
    text = (plan or None) if isinstance(plan, str) else json.dumps(plan, ensure_ascii=False)
    prompts = {"planner": "{intent} {constraints} {whitelist_tools}", "summarizer": "{tasks_summary} {artifacts_list}"}
    fields: dict[str, Any] = {"intent": "일을 해줘", "policy": POLICY, "prompts": prompts, "config": {}, "plan": text}
    return Job(**{**fields, "summarizer": False, "backoffSec": 0.0, **more})


class Graph:
    """One run in one folder, for as many lives as a test wants."""

    def __init__(self, path: Path, wanted: Job, run: Executor = succeed, replies: tuple[str, ...] = ()) -> None:
        self.path = path
        self.job = wanted
        self.run = run
        self.replies = list(replies)
        self.asked: list[ModelCall] = []
        self.decisions: list[bool] = []
        self.began: list[str] = []
        self.most = 0
        self._running = 0

    def live(self) -> Verdict:
        """One life: from what the folder holds to the flow's end."""
        self.path.mkdir(parents=True, exist_ok=True)
        disk = Disk()
        folder = RunFolder(self.path)
        files = TaskFiles(folder, disk)
        seen: list[Event] = []
        ledger = new_ledger(folder, TABLE, disk=disk, on_event=seen.append, projections=(files,))
        ledger.open()
        if not ledger.events:
            ledger.record("RUN_CREATED", {"workflow": "dag", "params": msgspec.to_builtins(self.job), "goal": "g"})
        handlers: Any = {
            RunCommand: self._execute,
            ModelCall: self._reply,
            AdoptPlan: adopt,
            AutoApprove: self._grant,
            Approve: self._decide,
        }
        try:
            return asyncio.run(dag(Context(ledger, handlers), self.job))
        finally:
            ledger.close()

    def lines(self, name: str = "tasks.jsonl") -> list[dict[str, Any]]:
        """A JSON-lines file of the run."""
        return [json.loads(line) for line in (self.path / name).read_text(encoding="utf-8").splitlines()]

    def final(self) -> dict[str, str]:
        """The last state of every task of the plan."""
        return {line["label"]: line["state"] for line in self.lines() if line["level"] == 3}

    async def _execute(self, effect: RunCommand, step: Step) -> CommandOutcome:
        self.began.append(effect.task)
        self._running += 1
        self.most = max(self.most, self._running)
        try:
            assert step.intent is not None
            return await self.run(effect, int(step.intent.payload.get("attempt", 1)))
        finally:
            self._running -= 1

    async def _reply(self, effect: ModelCall, step: Step) -> ModelReply:
        self.asked.append(effect)
        if not self.replies:
            raise StepFailed(step.key, "BAD_REQUEST", "no reply is left", retriable=False)
        text = self.replies.pop(0)
        return ModelReply(text=text, raw=RAW, finishReason="stop", durationMs=1, provider="test")

    async def _grant(self, effect: AutoApprove, step: Step) -> Approval:
        return Approval(granted=True, by="policy", digest=effect.digest)

    async def _decide(self, effect: Approve, step: Step) -> Approval:
        granted = self.decisions.pop(0)
        return Approval(
            granted, "tester", effect.digest, "because" if not granted else "", approvalId=effect.approvalId
        )
