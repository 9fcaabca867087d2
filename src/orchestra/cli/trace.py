"""The command `trace`: what the three levels of a task graph did, and their messages, one line each."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from orchestra.app import App
from orchestra.cli import options, which
from orchestra.cli.graph import graph_events
from orchestra.cli.text import echo_lines, print_json, safe
from orchestra.core.cells import Rows, aligned, cut
from orchestra.core.events import Events
from orchestra.workflows.dag.history import Moment, moments

LABEL_CELLS = 24  # of a label, at a terminal
_KEPT = 50_000  # the most events of a run whose moments are kept in memory
_INDENT = {"L1": "", "L2": "  ", "L3": "    "}


@click.command()
@options.run_or_default
@options.as_json
@options.project
def trace(run: str | None, as_json: bool, project: Path) -> int:
    """What went on between the levels of the task graph RUN, in order of time.

    L1 is the run, L2 plans it, L3 is a task. Seconds since the start, who, which task, what: messages (L2 → L3),
    changes of state, retries, denials, failures. Also of a run that goes on, waits or was killed.

    \b
    orchestra trace last
    orchestra trace last --json | jq 'select(.kind == "retry")'
    """
    app = App(project)
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
