"""`orchestra` alone, and `orchestra status`: what waits, runs and stopped in this project, and what waits elsewhere.

Rules
1. Only this user's own root runs are told. Runs that have ended are not read, but for the newest.
2. Another project is opened only if this user started a run in it and its folder is still this user's or root's
   (runs/projects.py). One that cannot be opened is passed over here; `orchestra inbox --all` says why.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.advice import command, waiting_lines
from orchestra.cli.hosting import SHELL, how_commands_begin
from orchestra.cli.show import show
from orchestra.cli.text import echo_lines, safe
from orchestra.core.cells import cut
from orchestra.core.errors import OrchestraError
from orchestra.core.localtime import local, took
from orchestra.core.records import FINAL, now, seconds_between
from orchestra.core.run import RunFolder
from orchestra.core.text import brief, count
from orchestra.runs.find import RunSummary, number_text

_GOAL = 80  # characters
_OTHERS = 50  # other projects that are looked at


@click.command()
@options.run_or_default
@options.project
@click.pass_context
def status(ctx: click.Context, run: str | None, project: Path) -> int:
    """What waits, runs and stopped in this project; with RUN, what `orchestra show RUN` prints."""
    if run is not None:
        return int(ctx.invoke(show, run=run, key=None, own=False, as_json=False, project=project))
    echo_lines(overview(App(project)))
    return 0


def overview(app: App) -> Iterator[str]:
    """The lines of `orchestra status`."""
    runs = list(app.meant.unended())
    waiting = [one for one in runs if app.trees.requests(one.folder)]
    driven = [one for one in runs if one.driven and one not in waiting]
    stopped = [one for one in runs if not one.driven and one not in waiting]
    yield f"project {safe(str(app.project.path))}"
    for title, some in (("waits for you", waiting), ("runs now", driven), ("stopped", stopped)):
        if some:
            yield click.style(title, bold=True)
        for one in some:
            yield _line(one)
            yield from (f"      {line}" for line in _next(app, one))
    if not runs:
        yield from _newest(app)
    if others := waiting_elsewhere(app):
        yield f"{count(others, 'run')} of other projects wait for you: {how_commands_begin()}inbox --all"
    yield f"every command: {'/help' if how_commands_begin() != SHELL else 'orchestra --help'}"


def _line(one: RunSummary) -> str:
    """A run in one line: number, goal, when its last event was."""
    ago = took(max(0.0, seconds_between(one.fold.state.updatedAt, now())))
    goal = brief(one.facts.goal or one.folder.id, _GOAL)
    return safe(f"  {number_text(one.facts.number)} {goal} ({one.workflow}, {ago} ago)")


def _next(app: App, one: RunSummary) -> list[str]:
    """What to type next for a run."""
    if lines := waiting_lines(app, one.folder.id, app.trees.requests(one.folder)):
        return lines
    return [command(app, "watch" if one.driven else "resume", one.folder.id)]


def _newest(app: App) -> Iterator[str]:
    """The newest run, if there is any; else how to start one."""
    folders = app.runs.folders()
    if not folders:
        yield f"no runs here yet; {app.workflows.how_to_start}"
        return
    folder: RunFolder = app.runs.find("last")
    summary = app.runs.summary(folder, keep=False)
    state = summary.fold.state
    yield "nothing runs or waits here"
    ended = "ended" if state.status in FINAL.values() else "last event"
    yield cut(f"newest: {_line(summary).strip()}: {state.status}, {ended} {local(state.updatedAt)}", 200)
    yield f"      {command(app, 'show', folder.id)}"


def waiting_elsewhere(app: App) -> int:
    """How many runs of other projects wait for the person."""
    total = 0
    for path in list(app.project.projects.all())[:_OTHERS]:
        if path == app.project.path:
            continue
        try:
            other = App(path, environ=os.environ)
            total += sum(bool(other.trees.requests(one.folder)) for one in other.meant.unended())
        except (OrchestraError, OSError):
            continue
    return total
