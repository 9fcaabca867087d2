"""The run that a command is about, if the person named none: found by `App.meant`, and told on stderr."""

from __future__ import annotations

import click

from orchestra.app import App
from orchestra.cli.advice import command
from orchestra.cli.text import safe
from orchestra.core.errors import UsageError
from orchestra.core.run import RunFolder
from orchestra.core.text import brief
from orchestra.runs.find import number_text

_GOAL = 60  # characters
_LISTED = 20  # runs, the newest


def to_look_at(app: App, run: str | None) -> RunFolder:
    """The run to show."""
    return _told(app, run, app.meant.to_look_at(run))


def to_decide(app: App, run: str | None) -> RunFolder:
    """The run to approve or reject."""
    return _told(app, run, app.meant.to_decide(run))


def to_answer(app: App, run: str | None) -> RunFolder:
    """The run with the question."""
    return _told(app, run, app.meant.to_answer(run))


def to_go_on_with(app: App, run: str | None) -> RunFolder:
    """The run to drive on."""
    return _told(app, run, app.meant.to_go_on_with(run))


def to_end(app: App, run: str | None) -> RunFolder:
    """The run to cancel."""
    return _told(app, run, app.meant.to_end(run))


def newest(app: App, run: str | None) -> RunFolder:
    """The newest run that a person started."""
    return _told(app, run, app.runs.find("last" if run is None else run))


def changed(app: App, run: str | None, *verb: str) -> RunFolder:
    """The run whose changes are meant: without one, the only run that has left some."""
    return _told(app, run, only_changed(app, *verb) if run is None else app.runs.find(run))


def only_changed(app: App, *verb: str) -> RunFolder:
    """The only run that has left changes in the files; UsageError that names each if there are more, or none."""
    first, *more = verb
    fitting = app.trees.changes.undoable()
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise UsageError(f"no run here has left changes; to {first} a certain run: orchestra {first} RUN")
    listed = "".join(
        f"\n  {command(app, first, one.id, *more)}  # {brief(app.runs.began(one).goal, _GOAL)}"
        for one in fitting[-_LISTED:]
    )
    raise UsageError(f"{len(fitting)} runs have left changes; say which:{listed}")


def _told(app: App, run: str | None, folder: RunFolder) -> RunFolder:
    if run is None:
        began = app.runs.began(folder)
        what = f"run {number_text(began.number)} {folder.id}: {brief(began.goal, _GOAL)}"
        click.echo(safe(f"orchestra: {what}"), err=True)
    return folder
