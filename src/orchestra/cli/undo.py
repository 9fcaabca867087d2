"""`orchestra undo`: take a run's changes back."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec
from msgspec import Struct

from orchestra.app import App
from orchestra.cli import options, which
from orchestra.cli.advice import command
from orchestra.cli.asking import can_ask, confirmed
from orchestra.cli.completing import run_names
from orchestra.cli.driving import Drive
from orchestra.cli.face import JsonFace, QuietFace
from orchestra.cli.text import echo_lines, safe
from orchestra.core.errors import UsageError
from orchestra.core.reading import job_of
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.core.text import brief
from orchestra.core.work import Since
from orchestra.providers.choose import Models
from orchestra.workflows.undo.flow import NOT_UNDONE
from orchestra.workflows.undo.shapes import Job, Undone
from orchestra.workflows.undo.workflow import NOTHING, UNDO


class _Chosen(Struct, frozen=True):
    """The run to undo, and whether a person named it."""

    folder: RunFolder
    named: bool


@click.command()
@click.argument("run", metavar="[RUN]", required=False, default="", shell_complete=run_names)
@click.option(
    "--to",
    default="",
    metavar="EVENT",
    help="Take back only what came after this event of RUN (`orchestra logs RUN` lists them).",
)
@click.option("--yes", is_flag=True, help="Do not ask, if no RUN is given.")
@options.driving
def undo(run: str, to: str, yes: bool, how: options.Driving) -> int:
    """Take the changes of RUN and its child runs back: every file becomes what it was before, to the byte.

    If one of the files changed since, it is named, nothing at all is changed, and the exit code is 1. Without RUN, the
    only run that has left changes is meant, and you are asked. An undo is a run of its own (`orchestra runs --all`
    lists it): undo it to have the changes again.

    \b
    orchestra undo last
    orchestra undo last --to 12
    """
    drive = Drive(how, face=None if how.as_json else QuietFace())
    drive.refuse_detached("an undo")
    app = drive.app
    chosen = _chosen(app, run)
    folder, root = chosen.folder, app.runs.vouched_root(chosen.folder).folder
    if not chosen.named and not yes and not _agrees(app, folder, no_input=how.no_input or how.as_json):
        return 2
    since = _since(app, folder, to)
    drive.ask_consent()
    with app.project.store.claim(root):  # nobody goes on with the run meanwhile
        refuse_half_applied(app, folder)
        begun = _cut_short(app, folder, since)
        if not (begun or since or how.as_json or app.trees.changes.left(folder)):
            click.echo(NOTHING)  # no run for that; with --json there is one, whose records are the output
            return 0
        end, made = drive.finish(lambda: begun or _start(app, folder, since), known=begun is not None)
    if isinstance(drive.face, JsonFace) or end.status not in FINAL.values():
        drive.face.done(end, made)
    elif end.status == "completed":
        echo_lines(safe(UNDO.printed(end.result)).split("\n"))
        if msgspec.convert(end.result, Undone).restored:
            click.echo(f"to have the changes again: {command(app, UNDO.name, made.id)}", err=True)
    else:
        click.echo(f"orchestra: {safe(end.message)}", err=True)
        if end.code == NOT_UNDONE:
            echo_lines(_later(app, folder), err=True)
    return end.exit_code


def _start(app: App, folder: RunFolder, since: Since | None) -> RunFolder:
    runs = tuple(one.id for one in app.trees.changes.history(folder))
    return app.start(UNDO.name, Job(folder.id, runs, since), Models())


def _cut_short(app: App, folder: RunFolder, since: Since | None) -> RunFolder | None:
    """The undo of this run, up to the same event, that a kill cut short: it is gone on with."""
    for other in reversed(app.trees.changes.history(folder)[1:]):
        summary = app.runs.summary(other, keep=False)
        if summary.workflow == UNDO.name and summary.fold.state.status not in FINAL.values():
            job = msgspec.convert(job_of(summary.created), Job)
            if (job.run, job.to) == (folder.id, since):
                return other
    return None


def refuse_half_applied(app: App, folder: RunFolder) -> None:
    """UsageError if a kill cut a patch of the run short: what the patch changed is not recorded yet."""
    for run in app.answers.half_applied(folder):
        raise UsageError(
            f"run {run.folder.id} was killed while it wrote a patch, and has not finished it. First go on with it"
            f" ({command(app, 'resume', folder.id)}), or end it ({command(app, 'cancel', folder.id)})"
        )


def _since(app: App, folder: RunFolder, to: str) -> Since | None:
    if not to:
        return None
    for event in app.runs.summary(folder).events:
        if to.isdecimal() and event.id == to.zfill(8):
            return Since(event.id, event.ts)
    raise UsageError(f"--to {to!r}: run {folder.id} has no such event ({command(app, 'logs', folder.id)} lists them)")


def _later(app: App, folder: RunFolder) -> Iterator[str]:
    """Which later runs changed the same files: they can be undone first."""
    for run_id in app.trees.changes.changed_by(folder, app.trees.changes.left(folder)):
        yield f"  changed by a later run, which can be undone first: {command(app, 'undo', run_id)}"


# -- which run --------------------------------------------------------------------------------------------------------


def _chosen(app: App, run: str) -> _Chosen:
    if run:
        return _Chosen(app.runs.find(run), named=True)
    return _Chosen(which.only_changed(app, UNDO.name), named=False)


def _agrees(app: App, folder: RunFolder, *, no_input: bool) -> bool:
    left = ", ".join(app.trees.changes.left(folder))
    if not can_ask(no_input=no_input):
        raise UsageError(f"nobody can be asked here; give the run: {command(app, 'undo', folder.id)}, or --yes")
    click.echo(f"{safe(folder.id)}  {brief(app.runs.began(folder).goal, 200)}\n  changed: {safe(left)}", err=True)
    agrees = confirmed("Take this back?")
    if not agrees:
        click.echo("not taken back", err=True)
    return agrees
