"""Commands that answer a run and drive it on: resume, approve, reject, answer, cancel (kill)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import click

from orchestra.app import App
from orchestra.cli import options, which
from orchestra.cli.advice import left_lines
from orchestra.cli.driving import Drive
from orchestra.cli.face import JsonFace
from orchestra.cli.text import echo_lines
from orchestra.core.engine import RunEnd
from orchestra.core.errors import UsageError
from orchestra.core.faces import Launched
from orchestra.core.run import RunFolder
from orchestra.core.text import count
from orchestra.policy.policy import ApprovalPolicy
from orchestra.runs.answers import who as person
from orchestra.runs.choosing import read_hunks
from orchestra.runs.tree import OpenRequest


@click.command()
@options.run_or_default
@options.max_fixes("How many fixes at most from now on, those made included; more than the run had.")
@options.approval("a patch from now on", default="as before", variable=None)
@options.checks("A command that must exit 0 from now on; replaces the run's checks. Repeatable.")
@options.accept_drift
@options.models
@options.driving
def resume(
    run: str | None,
    max_fixes: int | None,
    approval: ApprovalPolicy | None,
    checks: tuple[str, ...],
    drift: tuple[str, ...],
    who: options.Answering,
    how: options.Driving,
) -> int:
    """Go on with RUN where it stopped: after a crash, a Ctrl-C, an answer, a raised budget or time.

    --max-fixes, --approval and --check change the run from its next step on; the change is in its journal. A patch
    that waits for you still does.

    \b
    orchestra resume last
    orchestra resume last --max-fixes 6 --check "pytest -q"
    """
    app = App(how.project)
    folder = which.to_go_on_with(app, run)
    root = app.runs.vouched_root(folder)
    argvs = tuple(map(options.split_check, checks))
    given = {"maxFixIterations": max_fixes, "approval": approval, "checks": argvs or None}
    if wishes := {name: value for name, value in given.items() if value is not None}:
        app.change(root.folder, wishes, person())
    recorded = app.terms.models(root.folder, root.created)
    models = options.chosen(who, recorded)
    options.warn_of_unknown_prices(models or recorded, app.project.providers)
    drive = Drive(how, models)
    return drive.drive(lambda: root.folder, known=True, accept_drift=frozenset(drift))


@click.command()
@options.run_or_default
@click.option("--only", multiple=True, metavar="FILE", help="Take only this file of the patch. Repeatable.")
@click.option(
    "--hunks",
    multiple=True,
    metavar="FILE:N,N",
    help="Take only these hunks of a file, counted from 1; a wrong number lists them. Repeatable.",
)
@click.option("--reason", default="", help="Why not the rest of the patch; goes to the fixer.")
@click.option("--digest", default="", help="Grant what waits with this digest, and no other. Needed if several wait.")
@options.no_drive
@options.driving
def approve(
    run: str | None,
    only: tuple[str, ...],
    hunks: tuple[str, ...],
    reason: str,
    digest: str,
    no_drive: bool,
    how: options.Driving,
) -> int:
    """Grant the plan or patch that RUN or a child run waits with (orchestra diff RUN shows it), and drive RUN on.

    With --only or --hunks the rest of the patch is declined: it is not applied, and the fixer is told.

    \b
    orchestra approve last
    orchestra approve last --only src/app.py --hunks README.md:1,3 --reason "the rest is not needed"
    """
    parts, why = read_hunks(hunks), options.clean(reason)
    if why and not only and not parts:
        raise UsageError("--reason says why the rest of a patch is declined: give --only or --hunks too")

    def act(app: App, folder: RunFolder) -> OpenRequest:
        return app.answers.approve(folder, digest=digest, only=only, hunks=parts, reason=why)

    return _say(how, run, act, no_drive)


@click.command()
@options.run_or_default
@click.option("--reason", required=True, help="Why; goes to the fixer, or to the planner.")
@click.option("--digest", default="", help="Reject what waits with this digest, and no other. Needed if several wait.")
@click.option("--end", is_flag=True, help="End the run instead of having it fixed or planned anew.")
@options.no_drive
@options.driving
def reject(run: str | None, reason: str, digest: str, end: bool, no_drive: bool, how: options.Driving) -> int:
    """Reject the plan or patch that RUN or a child run waits with, with a reason.

    A loop's patch goes back to the fixer, a model's plan to the planner. Rejecting a plan of your own ends the run;
    rejecting the patch of a graph's task fails the task. The reason is kept in the run.
    """
    text = options.clean(reason)

    def act(app: App, folder: RunFolder) -> OpenRequest:
        return app.answers.reject(folder, reason=text, digest=digest, end=end)

    return _say(how, run, act, no_drive)


@click.command()
@options.run_then("text", "TEXT")
@click.option(
    "--question",
    default="",
    metavar="ID",
    help="The name of the question, as `orchestra show RUN` has it. Needed if several wait.",
)
@options.no_drive
@options.driving
def answer(run: str | None, text: str, question: str, no_drive: bool, how: options.Driving) -> int:
    """Answer the question that RUN or a child run waits with, and drive RUN on.

    \b
    orchestra answer last blue
    orchestra answer last blue --question implement.1/colour

    If the question has options, only these are answers; for yes and no also y, n, 예, 네, 아니오, 아니요. The first
    answer to a question stands.
    """
    name = options.clean(question)
    return _say(
        how, run, lambda app, f: app.answers.answer(f, options.clean(text), question=name), no_drive, which.to_answer
    )


@click.command()
@options.run_or_default
@click.option("--reason", default="", help="Why; kept in the run.")
@options.project
def cancel(run: str | None, reason: str, project: Path) -> int:
    """End RUN and all its child runs for good, whether they are driven, parked or were killed.

    The id of a child run stands for the whole tree that it belongs to.

    \b
    orchestra cancel last --reason "the goal has changed"
    """
    app = App(project)
    folder = app.runs.vouched_root(which.to_end(app, run)).folder
    open_below = len(list(app.runs.members(folder, only_open=True))) - 1
    end = asyncio.run(app.cancel(folder, options.clean(reason)))
    what = str(end.status) if end else "cancel recorded; the process driving it is stopping"
    below = f", with {count(open_below, 'child run')}" if open_below else ""
    click.echo(f"{folder.id}: {what}{below}", err=True)
    if end is not None:
        echo_lines(left_lines(app, folder, end.status), err=True)
    return 0


kill = cancel  # S2's own name for it


def _say(
    how: options.Driving,
    run: str | None,
    act: Callable[[App, RunFolder], OpenRequest],
    no_drive: bool,
    find: Callable[[App, str | None], RunFolder] = which.to_decide,
) -> int:
    """Record an answer, then drive the tree, unless `no_drive` is set or another process drives it."""
    drive = Drive(how)
    folder = find(drive.app, run)
    request = act(drive.app, folder)
    note = f"{folder.id}: recorded for {request.name}"
    if no_drive:
        click.echo(note, err=True)
        return 0
    root = drive.app.runs.root_of(folder)
    code = 7 if drive.app.project.store.is_driven(root) else drive.drive(lambda: root, known=True)
    if code == 7:  # another process drives the run, and will see the answer
        if isinstance(drive.face, JsonFace):
            drive.face.tell(Launched(root, drive.app.runs.summary(root).workflow))
            drive.face.done(RunEnd(root.id, drive.app.trees.status(root), 0), root)
        click.echo(f"{note}; the process driving the run goes on with it", err=True)
        return 0
    return code
