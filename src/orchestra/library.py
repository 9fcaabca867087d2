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
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args, overload

from msgspec import Struct

from orchestra.app import App
from orchestra.core.engine import RunEnd
from orchestra.core.errors import OrchestraError, UsageError
from orchestra.core.records import FINAL, OnAsk, RunStatus
from orchestra.core.run import RunFolder
from orchestra.core.text import dollars_of, seconds_of
from orchestra.providers.spec import from_here
from orchestra.runs.answers import told_apart
from orchestra.workflows.own.context import as_declared
from orchestra.workflows.own.definition import Definition, refuse_another
from orchestra.workflows.own.workflow import described

R = TypeVar("R")
_POLL_SECONDS = 0.1
WAITING = 3  # the exit code of a run that waits for a person
# parameters of `run` that no workflow may use
_OPTIONS = frozenset({"project", "provider", "model", "roles", "max_budget_usd", "max_time", "on_ask"})


class Outcome(Struct, Generic[R], frozen=True):
    """The state of a run: completed with its result, failed, canceled, or waiting for a person."""

    runId: str
    status: RunStatus
    exitCode: int  # as on the command line: 0 completed, 1 failed, 3 waiting, 4 budget, 5 refused, 6 no provider …
    result: R | None = None
    message: str = ""  # why it failed, or what it waits for, each request with the command that answers it


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
    max_time: float | str | None = ...,
    on_ask: OnAsk = ...,
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
    max_time: float | str | None = ...,
    on_ask: OnAsk = ...,
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
    max_time: float | str | None = None,
    on_ask: OnAsk = "park",
    **params: object,
) -> Outcome[Any]:
    """Start a run in a project folder and drive it until it ends or waits for a person.

    `workflow` is the function or its name. The other parameters are the flags of the same name (`--provider` …).
    """
    own = workflow if isinstance(workflow, Definition) else None
    if not own:
        _refuse_no_workflow(workflow)
    _refuse_unknown(on_ask)
    if own:
        refuse_another(own)
        if taken := _OPTIONS.intersection(own.names):
            raise UsageError(f"{own.name}: its parameter {min(taken)} is an option of orchestra.run; rename it")
    app = App(_folder(project), more=(described(own),) if own else ())
    name = own.name if own else str(workflow)
    job = own.job(**params) if own else app.job(name, params)
    routing = app.project.providers.routing(
        provider=from_here(provider),
        roles={agent: from_here(spec) for agent, spec in (roles or {}).items()},
        model=model,
        budget=_dollars(max_budget_usd),
        seconds=_seconds(max_time),
    )
    folder = app.start(name, job, routing)
    return _outcome(app, folder, on_ask)


@overload
def resume(
    run_id: str, workflow: Definition[..., R], /, *, project: str | os.PathLike[str] = ..., on_ask: OnAsk = ...
) -> Outcome[R]: ...
@overload
def resume(run_id: str, /, *, project: str | os.PathLike[str] = ..., on_ask: OnAsk = ...) -> Outcome[object]: ...
def resume(
    run_id: str,
    workflow: Definition[..., Any] | None = None,
    /,
    *,
    project: str | os.PathLike[str] = ".",
    on_ask: OnAsk = "park",
) -> Outcome[Any]:
    """Continue a run where it stopped: after a crash, an answer, a raised budget. `run_id` may also be `last`.

    `workflow` is the function, for type checkers: it gives the result its type. UsageError if the run has another
    workflow.
    """
    _refuse_unknown(on_ask)
    if workflow:
        _refuse_no_workflow(workflow)
        refuse_another(workflow)
    app = App(_folder(project), more=(described(workflow),) if workflow else ())
    folder = app.runs.find(run_id)
    if workflow and (found := app.runs.summary(folder, keep=False).workflow) != workflow.name:
        raise UsageError(f"run {folder.id} is of workflow {found}, not of {workflow.name}")
    return _outcome(app, folder, on_ask)


def _refuse_no_workflow(workflow: object) -> None:
    """UsageError for what is neither a workflow nor the name of one."""
    if not isinstance(workflow, str | Definition):
        name = getattr(workflow, "__name__", repr(workflow))
        raise UsageError(f"{name} is no workflow: write @orchestra.workflow above its `async def`")


def _folder(project: str | os.PathLike[str]) -> Path:
    """The project's folder; UsageError if there is none."""
    try:
        path = Path(project)
    except TypeError:
        raise UsageError(f"project={project!r}: want the path of a folder") from None
    if not path.is_dir():
        raise UsageError(f"project={str(project)!r}: {path.absolute()} is not a folder; give project= the path of one")
    return path


def _seconds(said: float | str | None) -> float | None:
    try:
        return None if said is None else seconds_of(str(said))
    except ValueError:
        raise UsageError(f"max_time={said!r}: want seconds, or a text such as 90s, 15m, 2h") from None


def _refuse_unknown(on_ask: OnAsk) -> None:
    if on_ask not in get_args(OnAsk):
        raise UsageError(f"on_ask={on_ask!r}: want one of {', '.join(get_args(OnAsk))}")


def _dollars(said: float | None) -> float | None:
    try:
        return None if said is None else dollars_of(str(said))
    except ValueError:
        raise UsageError(f"max_budget_usd={said!r}: want an amount of dollars above 0") from None


def _outcome(app: App, folder: RunFolder, on_ask: OnAsk) -> Outcome[Any]:
    """Drive the tree of a run and return its state."""
    end = _drive(app, folder, on_ask)
    root = app.runs.exactly(end.run_id) or folder
    if end.exit_code == WAITING and end.status not in FINAL.values():
        return Outcome(end.run_id, end.status, end.exit_code, None, _awaited(app, root))
    known = app.workflows.get(app.runs.summary(root, keep=False).workflow)
    result = as_declared(end.result, known.returns if known else None) if end.status == "completed" else None
    return Outcome(end.run_id, end.status, end.exit_code, result, end.message)


def _awaited(app: App, root: RunFolder) -> str:
    """What a tree of runs waits for, each request with the command that answers it."""
    requests = app.trees.requests(root)
    lines: list[str] = []
    for one, which in zip(requests, told_apart(requests), strict=True):
        verb = ("approve", root.id) if one.is_approval else ("answer", root.id, "TEXT")
        lines.append(f"{one.asked.question or one.asked.summary} ({shlex.join(('orchestra', *verb, *which))})")
    return "\n".join(lines)


def _drive(app: App, folder: RunFolder, on_ask: OnAsk) -> RunEnd:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_driven(app, folder, on_ask))
    return _beside(app, folder, on_ask)


def _beside(app: App, folder: RunFolder, on_ask: OnAsk) -> RunEnd:
    """Drive a run in a thread (rule 2). Ctrl-C cancels the calling task, which stops the thread."""
    caller = asyncio.current_task()
    begun: concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, asyncio.Future[RunEnd]]]
    begun = concurrent.futures.Future()

    async def driven() -> RunEnd:
        task = asyncio.ensure_future(_driven(app, folder, on_ask))
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


async def _driven(app: App, folder: RunFolder, on_ask: OnAsk) -> RunEnd:
    """Drive a run. An error that stops the run without ending it (a budget, a full disk) is returned (rule 1)."""
    try:
        return await app.drive(folder, on_ask=on_ask)
    except OrchestraError as stopped:
        return RunEnd(folder.id, app.trees.status(folder), stopped.exit_code, str(stopped), stopped.code)
