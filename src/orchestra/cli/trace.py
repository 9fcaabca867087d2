"""The command `trace`: what the levels of a task graph did, one line each; or a request and the evidence for it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from orchestra.app import App
from orchestra.cli import options, which
from orchestra.cli.completing import run_names
from orchestra.cli.graph import graph_events
from orchestra.cli.requests import run_of, state_of
from orchestra.cli.requesttrace import backward_lines, lines_of, records_of, trace_of
from orchestra.cli.text import echo_lines, print_json, safe
from orchestra.core.cells import Rows, aligned, cut
from orchestra.core.errors import UsageError
from orchestra.core.events import Events
from orchestra.core.run import RunFolder
from orchestra.workflows.contracts.places import request_number
from orchestra.workflows.contracts.workflow import CONTRACTS
from orchestra.workflows.dag.history import Moment, moments

LABEL_CELLS = 24  # of a label, at a terminal
_KEPT = 50_000  # the most events of a run whose moments are kept in memory
_INDENT = {"L1": "", "L2": "  ", "L3": "    "}


@click.command()
@click.argument("run", metavar="[RUN|R1]", required=False, shell_complete=run_names)
@click.option("--path", "place", metavar="FILE[:LINE]", help="Of a request: from this place back to the request.")
@options.as_json
@options.project
def trace(run: str | None, place: str | None, as_json: bool, project: Path) -> int:
    """What went on between the levels of the task graph RUN, in order of time; or the evidence for the request R1.

    Of a request: task, subtask, test case, the test run that shows it (command, exit code, digest of the files) and the
    hunks that were made for it. Evidence that is older than the last change of the files it covers is shown as stale.

    Of a task graph: L1 is the run, L2 plans it, L3 is a task. Seconds since the start, who, which task, what: messages
    (L2 → L3), changes of state, retries, denials, failures. Also of a run that goes on, waits or was killed.

    \b
    orchestra trace last
    orchestra trace last --json | jq 'select(.kind == "retry")'
    orchestra trace R1 --path money/amounts.py:12
    """
    app = App(project)
    if run is not None and (folder := _request_run(app, run)) is not None:
        return _trace_request(app, folder, place, as_json=as_json)
    if place is not None:
        raise UsageError(f"{run} is no request: --path is for those (orchestra requests lists them)")
    summary = app.runs.summary(which.to_look_at(app, run))
    events = graph_events(summary)
    if as_json:
        for moment in moments(events):
            print_json(moment)
        return 0
    past = list(moments(events)) if len(events) <= _KEPT else _Past(events)
    whole = not sys.stdout.isatty()
    digits = len(f"{max(moment.since_ms for moment in past) / 1000:.3f}")
    rows = Rows(lambda: (_row(moment, digits, whole=whole) for moment in past))
    lines = aligned(("time".rjust(digits), "level", "task", "what"), rows, whole=whole)
    click.echo(click.style(next(lines), dim=True))
    echo_lines(map(_paint, past, lines))
    return 0


def _request_run(app: App, run: str) -> RunFolder | None:
    """The run of the request that is meant, by its id or by a run's; None for a run of something else."""
    if request_number(run):
        return run_of(app, run)
    folder = app.runs.find(run)
    return folder if app.runs.began(folder).workflow == CONTRACTS.name else None


def _trace_request(app: App, folder: RunFolder, place: str | None, *, as_json: bool) -> int:
    found = trace_of(app, folder)
    path, colon, line = (place or "").rpartition(":")
    path, number = (path, int(line)) if colon and line.isdecimal() else (place or "", None)
    if as_json:
        for record in records_of(found, path, number):
            print_json(record)
        return 0
    lines = [*backward_lines(found, path, number)] if path else [*lines_of(found, state_of(app, folder, found))]
    if not lines:
        raise UsageError(f"no patch of {found.id} that is still there changed {place}")
    echo_lines(_painted(line) for line in lines)
    return 0


def _painted(line: str) -> str:
    word = line.split(":")[0]
    if "stale" in word:
        return click.style(safe(line), fg="yellow")
    return click.style(safe(line), fg="red") if " failed" in word else safe(line)


class _Past(Iterable[Moment]):
    """The moments of a long run, read from the file again for each iteration."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def __iter__(self) -> Iterator[Moment]:
        return moments(self._events)


def _row(moment: Moment, digits: int, *, whole: bool) -> tuple[str, str, str, str]:
    who = _INDENT[moment.component] + moment.component + (f" → {moment.to}" if moment.to else "")
    label = safe(moment.label)
    what = safe(" ".join(_what(moment).split()))
    return f"{moment.since_ms / 1000:{digits}.3f}", who, label if whole else cut(label, LABEL_CELLS), what


def _what(moment: Moment) -> str:
    if moment.kind == "retry":
        return f"will be tried again: {moment.message}"
    if moment.kind == "state" and moment.message != moment.state:
        return f"{moment.state}: {moment.message}"
    return moment.message


def _paint(moment: Moment, line: str) -> str:
    if moment.severity != "info":
        return click.style(line, fg="red" if moment.severity == "error" else "yellow")
    if moment.kind == "message":
        return click.style(line, fg="cyan")
    return click.style(line, fg="green") if moment.kind == "state" and moment.state == "done" else line
