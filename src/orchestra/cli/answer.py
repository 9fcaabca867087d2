"""Commands that answer a run and drive it on: resume, approve, reject, answer, cancel (kill), fork."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import click

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.driving import Drive
from orchestra.cli.face import JsonFace
from orchestra.core.engine import RunEnd
from orchestra.core.errors import UsageError
from orchestra.core.faces import Launched
from orchestra.core.reading import StepEvent, scope_of
from orchestra.core.records import FINAL, Event
from orchestra.core.run import RunFolder
from orchestra.providers.choose import Models


@click.command()
@options.run_argument
@click.option(
    "--accept-drift",
    "drift",
    multiple=True,
    metavar="KEY",
    help="Keep this step's recorded result although the code changed.",
)
@options.models
@options.driving
def resume(
    run: str,
    drift: tuple[str, ...],
    who: options.Answering,
    how: options.Driving,
) -> int:
    """Go on with RUN where it stopped: after a crash, a Ctrl-C, an answer, a raised budget."""
    app = App(how.project)
    folder = app.runs.find(run)
    root = app.runs.vouched_root(folder)
    recorded = app.terms.models(root.folder, root.created)
    models: Models | None = None
    if any(who):
        models = Models(
            default=who.provider or recorded.default,
            roles={**recorded.roles, **who.roles},
            model=who.model or recorded.model,
            maxBudgetUsd=who.max_budget_usd or recorded.maxBudgetUsd,
            typedBudget=bool(who.max_budget_usd) or recorded.typedBudget,
        )
    options.warn_of_unknown_prices(models or recorded, app.project.providers)
    drive = Drive(how, models)
    return drive.drive(lambda: folder, known=True, accept_drift=frozenset(drift))


@click.command()
@options.run_argument
@click.option("--only", multiple=True, metavar="FILE", help="Take only this file of the patch. Repeatable.")
@click.option("--digest", default="", help="Grant the waiting plan or patch of this digest, and no other.")
@options.no_drive
@options.driving
def approve(run: str, only: tuple[str, ...], digest: str, no_drive: bool, how: options.Driving) -> int:
    """Grant the plan or patch RUN waits with (orchestra diff RUN shows it), and drive the run on."""
    return _say(how, run, lambda app, f: app.answers.approve(f, digest=digest, only=only), no_drive)


@click.command()
@options.run_argument
@click.option("--reason", required=True, help="Why; goes to the fixer, or to the planner.")
@click.option("--digest", default="", help="Reject the waiting plan or patch of this digest, and no other.")
@click.option("--end", is_flag=True, help="End the run instead of having it fixed or planned anew.")
@options.no_drive
@options.driving
def reject(run: str, reason: str, digest: str, end: bool, no_drive: bool, how: options.Driving) -> int:
    """Reject the plan or patch RUN waits with, with a reason.

    A loop's patch goes back to the fixer, a model's plan to the planner. Rejecting a plan of your own ends the run;
    rejecting the patch of a graph's task fails the task. The reason is kept in the run.
    """
    text = options.clean(reason)

    def act(app: App, folder: RunFolder) -> str:
        return app.answers.reject(folder, reason=text, digest=digest, end=end)

    return _say(how, run, act, no_drive)


@click.command()
@options.run_argument
@click.argument("text")
@options.no_drive
@options.driving
def answer(run: str, text: str, no_drive: bool, how: options.Driving) -> int:
    """Answer the question RUN waits with."""
    return _say(how, run, lambda app, f: app.answers.answer(f, options.clean(text)), no_drive)


@click.command()
@options.run_argument
@click.option("--reason", default="", help="Why; kept in the run.")
@options.project
def cancel(run: str, reason: str, project: Path) -> int:
    """End RUN for good, whether it is driven, parked or was killed.

    \b
    orchestra cancel last --reason "the goal has changed"
    """
    app = App(project)
    folder = app.runs.vouched_root(app.runs.find(run)).folder
    end = asyncio.run(app.cancel(folder, options.clean(reason)))
    click.echo(f"{folder.id}: {end.status if end else 'cancel recorded; the process driving it is stopping'}", err=True)
    return 0


kill = cancel  # S2's own name for it


@click.command()
@options.run_argument
@click.option(
    "--at",
    default="",
    metavar="EVENT",
    help="The last event to keep, of those `orchestra logs RUN` lists (default: the last one before the run failed; in"
    " a graph, before the first of the tasks that failed began). What came after it is done anew.",
)
@click.option("--no-drive", is_flag=True, help="Only create the new run.")
@options.driving
def fork(run: str, at: str, no_drive: bool, how: options.Driving) -> int:
    """Start a new run that shares RUN's history up to an event, and drive it from there."""
    drive = Drive(how)
    folder = drive.app.runs.find(run)
    if at and not at.isdecimal():
        raise UsageError(f"--at {at!r}: an event's id is a number (orchestra logs {folder.id} lists them)")
    point = at.zfill(8) if at else _before_failure(drive.app, folder)
    if no_drive:
        new = drive.app.fork(folder, point)
        click.echo(new.id)
        return 0
    return drive.drive(lambda: drive.app.fork(folder, point))


def _before_failure(app: App, folder: RunFolder) -> str:
    """The last event before the failed step began: a fork from there can take another path."""
    events = app.project.store.events(folder)
    if not events or events[-1].type not in FINAL:
        raise UsageError(
            f"run {folder.id} has not ended: go on with it (orchestra resume {folder.id}), or name --at EVENT"
        )
    failed = {_task(e) for e in events if e.type == "PHASE_FAILED" and _task(e) and not StepEvent.of(e).retryAt}
    point, before = events[0].id, events[0].id
    for event in (event for event in events if event.type not in FINAL):
        if failed and _task(event) in failed:
            return before  # a task graph: before the first failed task; tasks that ran concurrently run again
        if event.type not in ("PHASE_FAILED", "PHASE_STARTED"):
            point = event.id
        before = event.id
    return point


def _task(event: Event) -> str:
    """The label of the task that an event is about; empty for any other event."""
    return scope_of(event) if event.phase == "execute" else ""


def _say(how: options.Driving, run: str, act: Callable[[App, RunFolder], str], no_drive: bool) -> int:
    """Record an answer, then drive the run, unless `no_drive` is set or another process drives it."""
    drive = Drive(how)
    folder = drive.app.runs.find(run)
    request = act(drive.app, folder)
    note = f"{folder.id}: recorded for {request}"
    if no_drive:
        click.echo(note, err=True)
        return 0
    root = drive.app.runs.root_of(folder)
    code = 7 if drive.app.project.store.is_driven(root) else drive.drive(lambda: root, known=True)
    if code == 7:  # another process drives the run, and will see the answer
        if isinstance(drive.face, JsonFace):
            summary = drive.app.runs.summary(folder)
            drive.face.tell(Launched(folder, summary.workflow))
            drive.face.done(RunEnd(folder.id, summary.fold.state.status, 0), folder)
        click.echo(f"{note}; the process driving the run goes on with it", err=True)
        return 0
    return code
