"""A run with a child run, driven for real: a parent workflow of the test's own that has a task graph do its work."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from orchestra.app import App
from orchestra.core.context import Context, Verdict
from orchestra.core.engine import Beginning
from orchestra.core.run import RunFolder
from orchestra.policy.policy import Layer, Policy
from orchestra.workflows.description import Workflow
from tests.support.graph import job

WIDE = Policy(layers=(Layer(whitelist=("echo", "ls")),), reads=("/",), max_task_sec=100)


class Order(Struct):
    """What the parent hands to its child."""

    job: dict[str, Any]


async def parent(ctx: Context, order: Order) -> Verdict:
    child = await ctx.call("work", "dag", order.job)
    return Verdict(status=child.status, result={"child": child.childRunId}, exit_code=0)


PARENT = Workflow(
    name="parent", params=Order, flow=parent, goal=lambda order: "p", root=lambda project: project.path / "runs"
)


def run(project: Path, handed: Policy, own: Policy, *plan: dict[str, Any]) -> RunFolder:
    """Drive a parent that hands `handed` down to a child with a policy of its own; the child's folder."""
    project.mkdir(exist_ok=True)
    app = App(project, more=(PARENT,))
    params = msgspec.to_builtins(Order(msgspec.to_builtins(job(list(plan), policy=own, approval="never"))))
    facts = {"goal": "p", "policy": msgspec.to_builtins(handed), "typed": ("approval",)}
    root = app.engine.start("parent", "p", Beginning(params, facts))
    asyncio.run(app.drive(root))
    [child] = [folder for folder in app.runs.folders() if folder.id != root.id]
    return child
