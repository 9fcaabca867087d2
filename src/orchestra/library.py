"""The library's two verbs: run a workflow of your own, and resume one (docs/library.md).

Rules
1. A run that fails, waits or is stopped is an outcome, never an exception. What is wrong before there is a run (a
   parameter, a provider, no consent) is raised.
2. Both are ordinary functions. They may be called where an event loop runs already; then they use a thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from msgspec import Struct

from orchestra.app import App
from orchestra.core.engine import RunEnd
from orchestra.core.errors import OrchestraError
from orchestra.core.records import RunStatus
from orchestra.core.run import RunFolder
from orchestra.workflows.own.context import typed
from orchestra.workflows.own.definition import Definition
from orchestra.workflows.own.workflow import described

R = TypeVar("R")


class Outcome(Struct, Generic[R], frozen=True):
    """How a run stands: completed with its result, failed, canceled, or waiting for a person."""

    runId: str
    status: RunStatus
    exitCode: int  # as of the command line: 0 completed, 1 failed, 3 waiting, 4 budget, 5 refused, 6 no provider …
    result: R | None = None
    message: str = ""  # why it failed, or what it waits for


@overload
def run(
    workflow: Definition[..., R],
    /,
    *,
    project: str | os.PathLike[str] = ...,
    provider: str = ...,
    model: str = ...,
    roles: Mapping[str, str] | None = ...,
    max_budget_usd: float | None = ...,
    **params: object,
) -> Outcome[R]: ...
@overload
def run(
    workflow: str,
    /,
    *,
    project: str | os.PathLike[str] = ...,
    provider: str = ...,
    model: str = ...,
    roles: Mapping[str, str] | None = ...,
    max_budget_usd: float | None = ...,
    **params: object,
) -> Outcome[object]: ...
def run(
    workflow: Definition[..., Any] | str,
    /,
    *,
    project: str | os.PathLike[str] = ".",
    provider: str = "",
    model: str = "",
    roles: Mapping[str, str] | None = None,
    max_budget_usd: float | None = None,
    **params: object,
) -> Outcome[Any]:
    """Start a run in a project folder and drive it until it ends or waits for a person.

    `workflow` is the function or its name. `provider` and the rest are the flags of the same name (`--provider` …).
    """
    app = App(Path(project), more=(described(workflow),) if isinstance(workflow, Definition) else ())
    name = workflow.name if isinstance(workflow, Definition) else workflow
    job = workflow.job(**params) if isinstance(workflow, Definition) else app.job(name, params)
    routing = app.project.providers.routing(
        provider=_from_here(provider), roles=roles or {}, model=model, budget=max_budget_usd
    )
    folder = app.start(name, job, routing)
    return _outcome(app, folder, workflow)


def resume(run_id: str, /, *, project: str | os.PathLike[str] = ".") -> Outcome[object]:
    """Go on with a run where it stopped: after a crash, an answer, a raised budget. `run_id` may also be `last`."""
    app = App(Path(project))
    return _outcome(app, app.runs.find(run_id), "")


def _outcome(app: App, folder: RunFolder, workflow: Definition[..., Any] | str) -> Outcome[Any]:
    end = _drive(app, folder)
    completed = end.status == "completed"
    returns = workflow.returns if isinstance(workflow, Definition) else None
    result = typed(end.result, returns) if completed else None
    return Outcome(end.run_id, end.status, end.exit_code, result, end.message)


def _drive(app: App, folder: RunFolder) -> RunEnd:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_driven(app, folder))
    with concurrent.futures.ThreadPoolExecutor(1) as beside:  # rule 2
        return beside.submit(asyncio.run, _driven(app, folder)).result()


async def _driven(app: App, folder: RunFolder) -> RunEnd:
    """Rule 1: what stops a run without ending it (a budget, a full disk) is an outcome too."""
    try:
        return await app.drive(folder)
    except OrchestraError as stopped:
        status = app.runs.summary(folder).fold.state.status
        return RunEnd(folder.id, status, stopped.exit_code, str(stopped), stopped.code)


def _from_here(spec: str) -> str:
    """A provider spec as a program gives it: its file is named from where the program runs, as on a command line."""
    name, _, argument = spec.partition(":")
    return f"{name}:{os.path.abspath(argument)}" if name in ("scripted", "local") and argument else spec
