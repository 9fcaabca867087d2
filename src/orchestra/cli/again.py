"""Commands that go on from what a run did: retry (after a failure), fork (from a point, or with another answer)."""

from __future__ import annotations

import asyncio

import click

from orchestra.app import App
from orchestra.cli import options, which
from orchestra.cli.driving import Drive
from orchestra.core.errors import UsageError
from orchestra.core.fork import NewAnswer
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.providers.choose import Models
from orchestra.runs.answers import who as person
from orchestra.runs.asked import find_asked


@click.command()
@options.run_or_default
@click.option(
    "--max-fixes",
    type=click.IntRange(min=0),
    help="The most fixes of the new run, the kept ones included (default: as many again, if the limit ended it).",
)
@options.accept_drift
@options.models
@options.driving
def retry(
    run: str | None,
    max_fixes: int | None,
    drift: tuple[str, ...],
    who: options.Answering,
    how: options.Driving,
) -> int:
    """Go on after RUN failed or was canceled, in a new run that keeps everything that succeeded.

    Only what failed, and what depends on it, is done again. Kept calls are not paid again, kept answers not asked
    again. After the last allowed fix, the new run goes on with the next one. The old run stays as it is.
    A run that has not ended is gone on with as it is, as `orchestra resume` does.

    \b
    orchestra retry last
    orchestra retry last --provider anthropic
    orchestra retry last --max-fixes 6
    """
    app = App(how.project)
    root = app.runs.vouched_root(which.newest(app, run))
    status = root.fold.state.status
    _refuse_completed(root.folder, status)
    if status not in FINAL.values() and max_fixes is not None:
        raise UsageError(f"run {root.folder.id} has not ended: --max-fixes is for the new run after a failure")
    recorded = app.terms.models(root.folder, root.created)
    models = options.chosen(who, recorded)
    options.warn_of_unknown_prices(models or recorded, app.project.providers)
    drive, accepted = Drive(how, models), frozenset(drift)
    if status in FINAL.values():

        def make() -> RunFolder:
            return asyncio.run(drive.app.again.retry(root.folder, fixes=max_fixes, accept_drift=accepted))

        return drive.drive(make, accept_drift=accepted)
    if not how.quiet:
        click.echo(f"orchestra: run {root.folder.id} has not ended: going on with it", err=True)
    return drive.drive(lambda: root.folder, known=True, accept_drift=accepted)


@click.command()
@options.run_or_default
@click.option(
    "--at",
    default="",
    metavar="EVENT",
    help="The last event to keep, of those `orchestra logs RUN` lists. What came after it, or had not ended then, is"
    " done anew (default: everything that succeeded is kept, as by `orchestra retry`).",
)
@click.option(
    "--answer",
    nargs=2,
    metavar="QUESTION TEXT",
    help="Answer this question of the run differently. Everything that does not depend on the answer is kept.",
)
@click.option("--no-drive", is_flag=True, help="Only create the new run.")
@options.models
@options.driving
def fork(
    run: str | None,
    at: str,
    answer: tuple[str, str] | None,
    no_drive: bool,
    who: options.Answering,
    how: options.Driving,
) -> int:
    """Start a new run that keeps settled steps of RUN, and drive it from there. RUN stays as it is.

    \b
    orchestra fork last --answer colour green
    orchestra fork last --answer implement.1/colour green
    orchestra fork last --at 12
    """
    app = App(how.project)
    folder = which.newest(app, run)
    if at and answer:
        raise UsageError("--at and --answer: give one of them; --answer keeps what does not depend on the answer")
    if at and not at.isdecimal():
        raise UsageError(f"--at {at!r}: an event's id is a number (orchestra logs {folder.id} lists them)")
    models = _models(app, folder, who)
    drive = Drive(how, models)

    def make() -> RunFolder:
        again = drive.app.again
        if at:
            return again.fork(folder, at.zfill(8))
        if answer:
            return asyncio.run(again.answered(folder, _new_answer(drive.app, folder, *answer)))
        return asyncio.run(again.retry(folder))

    if not at and not answer:
        _refuse_completed(folder, drive.app.runs.vouched(folder).fold.state.status)
    if no_drive:
        click.echo(make().id)
        return 0
    return drive.drive(make)


def _models(app: App, folder: RunFolder, who: options.Answering) -> Models | None:
    """The models that the flags choose for a fork of this run; None if they choose none."""
    created = app.runs.first_of(folder.id) if any(who) else None
    if created is None:
        return None
    models = options.chosen(who, app.terms.models(app.runs.root_of(folder), created))
    if models:
        options.warn_of_unknown_prices(models, app.project.providers)
    return models


def _new_answer(app: App, folder: RunFolder, question: str, text: str) -> NewAnswer:
    """The answer that a person gives anew; UsageError if there is no such question, or it does not take this answer."""
    app.runs.vouched(folder)
    asked = find_asked(app.runs, folder, options.clean(question))
    return NewAnswer(asked.path, app.answers.checked(asked.run, asked.request, options.clean(text)), person())


def _refuse_completed(folder: RunFolder, status: str) -> None:
    if status == "completed":
        raise UsageError(
            f"run {folder.id} is completed: nothing in it failed. To answer one of its questions differently:"
            f" orchestra fork {folder.id} --answer QUESTION TEXT; from one of its events: orchestra fork {folder.id}"
            " --at EVENT"
        )
