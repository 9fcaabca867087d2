"""The library's two functions: `run` starts a workflow, `resume` continues a run (docs/library.md).

Rules
1. A run that fails, waits or stops is returned as an outcome. An exception means that no run was started: a wrong
   parameter, a missing provider, no consent.
2. Both are ordinary functions. Where an event loop runs already, they use a thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from msgspec import Struct

from orchestra.app import App
from orchestra.core.engine import RunEnd
from orchestra.core.errors import OrchestraError, UsageError
from orchestra.core.reading import Request
from orchestra.core.records import FINAL, RunStatus
from orchestra.core.run import RunFolder
from orchestra.providers.choose import from_here
from orchestra.workflows.own.context import typed
from orchestra.workflows.own.definition import Definition, refuse_another
from orchestra.workflows.own.workflow import described

R = TypeVar("R")
_POLL_SECONDS = 0.1
WAITING = 3  # the exit code of a run that waits for a person
# parameters of `run` that no workflow may use
_OPTIONS = frozenset({"project", "provider", "model", "roles", "max_budget_usd"})


class Outcome(Struct, Generic[R], frozen=True):
    """The state of a run: completed with its result, failed, canceled, or waiting for a person."""

    runId: str
    status: RunStatus
    exitCode: int  # as on the command line: 0 completed, 1 failed, 3 waiting, 4 budget, 5 refused, 6 no provider …
    result: R | None = None
    message: str = ""  # why it failed, or what it waits for and the command that answers


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

    `workflow` is the function or its name. The other parameters are the flags of the same name (`--provider` …).
    """
    own = workflow if isinstance(workflow, Definition) else None
    if own:
        refuse_another(own)
        if taken := _OPTIONS.intersection(own.names):
            raise UsageError(f"{own.name}: its parameter {min(taken)} is an option of orchestra.run; rename it")
    app = App(Path(project), more=(described(own),) if own else ())
    name = own.name if own else str(workflow)
    job = own.job(**params) if own else app.job(name, params)
    routing = app.project.providers.routing(
        provider=from_here(provider),
        roles={agent: from_here(spec) for agent, spec in (roles or {}).items()},
        model=model,
        budget=max_budget_usd,
    )
    folder = app.start(name, job, routing)
    return _outcome(app, folder)


@overload
def resume(run_id: str, workflow: Definition[..., R], /, *, project: str | os.PathLike[str] = ...) -> Outcome[R]: ...
@overload
def resume(run_id: str, /, *, project: str | os.PathLike[str] = ...) -> Outcome[object]: ...
def resume(
    run_id: str, workflow: Definition[..., Any] | None = None, /, *, project: str | os.PathLike[str] = "."
) -> Outcome[Any]:
    """Continue a run where it stopped: after a crash, an answer, a raised budget. `run_id` may also be `last`.

    `workflow` is the function, for type checkers: it gives the result its type. UsageError if the run has another
    workflow.
    """
    if workflow:
        refuse_another(workflow)
    app = App(Path(project), more=(described(workflow),) if workflow else ())
    folder = app.runs.find(run_id)
    if workflow and (found := app.runs.summary(folder, keep=False).workflow) != workflow.name:
        raise UsageError(f"run {folder.id} is of workflow {found}, not of {workflow.name}")
    return _outcome(app, folder)


def _outcome(app: App, folder: RunFolder) -> Outcome[Any]:
    """Drive a run and return its state."""
    end = _drive(app, folder)
    if end.exit_code == WAITING and end.status not in FINAL.values():
        status, message = _awaited(app, folder)
        return Outcome(end.run_id, status, end.exit_code, None, message)
    known = app.workflows.get(app.runs.summary(folder, keep=False).workflow)
    result = typed(end.result, known.returns if known else None) if end.status == "completed" else None
    return Outcome(end.run_id, end.status, end.exit_code, result, end.message)


def _awaited(app: App, folder: RunFolder) -> tuple[RunStatus, str]:
    """What a run or its child run waits for: the status, and a message with the command that answers."""
    fold = app.runs.summary(folder).fold
    for event in fold.pending.values():
        request = Request.of(event)
        verb = ("answer", folder.id, "TEXT") if event.type == "QUESTION_RAISED" else ("approve", folder.id)
        return fold.state.status, f"{request.question or request.summary} ({' '.join(('orchestra', *verb))})"
    for _, child in fold.children.values():
        status, message = _awaited(app, app.runs.find(child))
        if message:
            return status, message
    return fold.state.status, ""


def _drive(app: App, folder: RunFolder) -> RunEnd:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_driven(app, folder))
    return _beside(app, folder)


def _beside(app: App, folder: RunFolder) -> RunEnd:
    """Drive a run in a thread (rule 2). Ctrl-C cancels the calling task, which stops the thread."""
    caller = asyncio.current_task()
    begun: concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, asyncio.Future[RunEnd]]]
    begun = concurrent.futures.Future()

    async def driven() -> RunEnd:
        task = asyncio.ensure_future(_driven(app, folder))
        begun.set_result((asyncio.get_running_loop(), task))
        return await task

    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        done = beside.submit(asyncio.run, driven())
        try:
            while not concurrent.futures.wait([done], _POLL_SECONDS).done:
                if caller is not None and caller.cancelling():
                    raise asyncio.CancelledError
            return done.result()
        finally:
            if not done.done():
                loop, task = begun.result()
                with contextlib.suppress(RuntimeError):  # the loop is closed: the run has just ended
                    loop.call_soon_threadsafe(task.cancel)


async def _driven(app: App, folder: RunFolder) -> RunEnd:
    """Drive a run. An error that stops the run without ending it (a budget, a full disk) is returned (rule 1)."""
    try:
        return await app.drive(folder)
    except OrchestraError as stopped:
        status = app.runs.summary(folder).fold.state.status
        return RunEnd(folder.id, status, stopped.exit_code, str(stopped), stopped.code)
