"""Runs that work in a folder of the project, driven for real: a parent of the test's own has a loop do its work there.

The parent of `ORDER` starts loops one after the other, each in its folder, and then may take patches back.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from orchestra.app import App
from orchestra.core.context import Context, Verdict
from orchestra.core.ending import RunEnd
from orchestra.core.errors import StepFailed
from orchestra.providers.choose import Models
from orchestra.workflows.description import Workflow
from orchestra.workflows.gate import take_back
from tests.support.project import Project


class Call(Struct, omit_defaults=True):
    """A child: its job, and its folder."""

    job: dict[str, Any]
    folder: str | UnsetType = UNSET
    workflow: str = "loop"


class Order(Struct, omit_defaults=True):
    """What the parent does."""

    calls: tuple[Call, ...] = ()
    back: tuple[int, ...] = ()  # which of its children are taken back, together
    own: bool = False  # whether everything below this run is taken back
    runs: tuple[str, ...] = ()  # other runs to take back
    ask: bool = False  # whether a person is asked before that


async def flow(ctx: Context, order: Order) -> Verdict:
    children: list[str] = []
    said: list[Any] = []
    for call in order.calls:
        try:
            child = await ctx.call("work", call.workflow, call.job, workspace=call.folder)
        except StepFailed as failed:
            said.append(f"{failed.code}: {failed}")
            continue
        children.append(child.childRunId)
        said.append(child.result if child.status == "completed" else f"{child.status}: {child.error}")
    back: dict[str, Any] = {}
    if order.back or order.own or order.runs:
        runs = (*(children[number] for number in order.back), *((ctx.run_id,) if order.own else ()), *order.runs)
        passage = await take_back(ctx.at("fix", 2), runs, "undo.patch")
        refusal = passage.done.refusal if passage.done else None
        back = {"files": [file.path for file in passage.files], "refusal": refusal.message if refusal else ""}
    return Verdict(status="completed", result={"children": children, "said": said, **back})


OUTER = Workflow(name="outer", params=Order, flow=flow, goal=lambda order: "outer")


def run(project: Project, order: Order) -> RunEnd:
    """Drive the parent to its end."""
    app = App(project.path, more=(OUTER,))
    models = Models(default=f"scripted:{project.script}")
    return asyncio.run(app.drive(app.start("outer", order, models)))


def job(project: Project, **more: Any) -> dict[str, Any]:
    """A loop that makes add() add, without asking anybody."""
    return {"goal": "make add() add", "checks": [["grep", "-q", "a + b", "calc.py"]], "approval": "never", **more}


def furnished(path: Path, *replies: dict[str, Any], folder: str = "build/앱", more: str = "") -> Project:
    """A project whose inner folder has the same wrong add(); its configuration allows the check."""
    project = Project(path, *replies)
    project.configure(f"whitelist_tools: [grep, ls, cat]\nloop: {{approval: never}}\n{more}")
    inner = path / folder
    inner.mkdir(parents=True)
    (inner / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    return project
