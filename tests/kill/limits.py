"""The driver for test_kill_limits.py: a tree of children in parallel with a budget, or in turn with a time limit.

`{case}` starts the tree or goes on with it; `{case}-raised` goes on with a higher limit, as a person would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

import orchestra
from orchestra.app import App
from orchestra.core.errors import OrchestraError
from orchestra.core.run import RunFolder
from orchestra.providers.choose import Models
from orchestra.workflows.own.workflow import described
from tests.support.core import CountingDisk
from tests.support.runs import use_disk

CHILDREN = {"budget": 4, "time": 3}
BUDGET_USD = 0.25  # a call costs 0.02, and about 0.05 are reserved for it
TIME_SEC, CALL_SEC = 0.3, 0.2  # a call and a half
CASES = {
    "budget": Models(model="m", maxBudgetUsd=BUDGET_USD, typedBudget=True),
    "time": Models(model="m", maxTimeSec=TIME_SEC, typedTime=True),
}


@orchestra.workflow
async def paid(ctx: orchestra.Context, word: str) -> str:
    return await ctx.model("writer", word)


@orchestra.workflow
async def limited(ctx: orchestra.Context, children: int, together: bool) -> int:
    def child(number: int) -> Callable[[orchestra.Context], Awaitable[str]]:
        return lambda here: here.call("child", paid, word=f"낱말 {number}")

    if together:
        return len(await ctx.fan_out({f"b{number}": child(number) for number in range(children)}))
    return len([await child(number)(ctx) for number in range(children)])


WORKFLOWS = (described(limited), described(paid))


def drive(flow: str, project: Path, script: Path, counting: CountingDisk | None) -> int:
    """One life."""
    case, _, raised = flow.partition("-")
    models = msgspec.structs.replace(CASES[case], default=f"scripted:{script}")
    higher = msgspec.structs.replace(models, maxBudgetUsd=9.0, maxTimeSec=3600.0, typedTime=True, typedBudget=True)
    app = App(project, more=WORKFLOWS, models=higher if raised else None)
    assert app.project.keyring.seal  # made before anything is counted
    if counting is not None:
        use_disk(app, counting)
    try:
        return asyncio.run(app.drive(_root(app, case, models))).exit_code
    except OrchestraError as stopped:  # by its limit
        return stopped.exit_code


def _root(app: App, case: str, models: Models) -> RunFolder:
    found = [folder for folder in app.runs.folders() if "_limited_" in folder.id]
    job = app.job("limited", {"children": CHILDREN[case], "together": case == "budget"})
    return found[0] if found else app.start("limited", job, models)
