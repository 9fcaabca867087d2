"""Commands that only read: inbox, runs, show, watch, logs, diff, report. They work on a live run too."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import UNSET, UnsetType

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.advice import command, how_to_answer, masked_lines
from orchestra.cli.audit import prompt_lines
from orchestra.cli.text import echo_lines, paint_diff, painted, print_json, safe, step_line
from orchestra.core.cells import aligned
from orchestra.core.errors import JournalCorrupt
from orchestra.core.reading import Failure, Request, StepEvent, key_of, outcome_of
from orchestra.core.records import FINAL, Event, utf8
from orchestra.core.run import RunFolder
from orchestra.core.text import brief
from orchestra.runs.find import RunSummary

POLL_SECONDS = 0.2
_SHOWN, _IN_A_ROW, _OF_AN_ERROR = 10_000, 500, 1_000_000  # characters of a goal; of a goal in a table; of a full error
_json_option = options.json_of("One JSON object per line.")


@click.command()
@_json_option
@options.project
def runs(as_json: bool, project: Path) -> int:
    """All runs of this project, newest last."""
    rows: list[tuple[str, str, str, str]] = []
    notes: dict[str, None] = {}
    app = App(project)
    for folder, found in app.runs.overview():  # only the row of each run is kept in memory
        if not as_json:
            rows.append(_row(folder, found))
            notes |= dict.fromkeys(_notes(found)) if isinstance(found, RunSummary) else {}
        elif isinstance(found, RunSummary):
            print_json({**msgspec.to_builtins(found.fold.state), **_facts(found)})
        else:
            print_json({"runId": folder.id, "status": "damaged", "dir": str(folder.path), "error": str(found)})
    if not rows and not as_json:
        click.echo(f"no runs here yet; {app.workflows.how_to_start}")
    elif rows:
        echo_lines(aligned(("run", "status", "iteration", "goal"), rows))
        echo_lines(note for note in _NOTES if note in notes)
    return 0


_DRIVEN = "* driven by a process right now"
_STOPPED = "stopped: no process drives it; orchestra resume RUN continues it"
_FOREIGN = "foreign: your key did not make it, or it belongs to another folder; orchestra adopt RUN says more"
_NOTES = (_DRIVEN, _STOPPED, _FOREIGN)


def _notes(summary: RunSummary) -> Iterator[str]:
    """The notes that explain the marks in a run's row."""
    if summary.driven:
        yield _DRIVEN
    if _is_stopped(summary):
        yield _STOPPED
    if summary.foreign:
        yield _FOREIGN


def _is_stopped(summary: RunSummary) -> bool:
    """Whether a run can go on but no process drives it. It is shown as `stopped`, not `running`."""
    if summary.driven or summary.foreign or summary.parent is not None:
        return False
    return summary.fold.state.status in ("created", "running")


def _status(summary: RunSummary) -> str:
    status = "stopped" if _is_stopped(summary) else str(summary.fold.state.status)
    return (
        status
        + (" (foreign)" if summary.foreign else "")
        + (" (dry run)" if summary.dry else "")
        + (" *" if summary.driven else "")
    )


def _row(folder: RunFolder, found: RunSummary | JournalCorrupt) -> tuple[str, str, str, str]:
    if isinstance(found, JournalCorrupt):
        return safe(folder.id), "damaged", "-", f"orchestra verify {safe(folder.id)} says where"
    state = found.fold.state
    return safe(folder.id), _status(found), str(state.iteration), brief(_goal(found), _IN_A_ROW)


@click.command()
@_json_option
@options.project
def inbox(as_json: bool, project: Path) -> int:
    """Everything that waits for you, with the command that answers it."""
    app = App(project)
    foreign: list[str] = []
    waits = False
    for _, summary in app.runs.overview():
        if not isinstance(summary, RunSummary) or not summary.fold.pending:
            continue
        if summary.foreign:
            foreign.append(summary.folder.id)
            continue
        waits = True
        if as_json:
            open_requests = app.project.store.unanswered(summary.folder, summary.fold.pending)
            for name, event in summary.fold.pending.items():
                facts = {"runId": summary.folder.id, "id": name, "type": event.type}
                print_json({**facts, "answered": name not in open_requests, "payload": event.payload})
            continue
        click.echo(click.style(safe(summary.folder.id), bold=True) + f"  {_goal(summary)}")
        echo_lines(how_to_answer(app, summary.folder))
    if not waits and not as_json:
        click.echo("nothing waits for you")
    for run_id in foreign:  # a foreign run's requests are not shown: another person may have written them
        click.echo(f"{safe(run_id)} is foreign; look: {command(app, 'adopt', run_id)}", err=True)
    return 0


@click.command()
@options.run_argument
@click.option("--prompt", "key", metavar="KEY", help="The exact prompt of this model call (audit lists the keys).")
@_json_option
@options.project
def show(run: str, key: str | None, as_json: bool, project: Path) -> int:
    """What RUN is, what it did and what it waits for."""
    app = App(project)
    if key is not None:
        echo_lines(prompt_lines(app, app.runs.find(run), key))
        return 0
    summary = app.runs.summary(app.runs.find(run))
    state = summary.fold.state
    if as_json:
        print_json({**msgspec.to_builtins(state), **_facts(summary)})
        return 0
    click.echo(click.style(_goal(summary), bold=True))
    status = state.status + (" (dry run)" if summary.dry else "") + (" (driven right now)" if summary.driven else "")
    rows = [
        ("run", state.runId),
        ("status", status),
        ("phase", state.currentPhase or "-"),
        ("iteration", str(state.iteration)),
    ]
    rows += [("started", state.createdAt), ("last event", f"{state.lastEventId} at {state.updatedAt}")]
    rows += [("folder", str(summary.folder.path)), ("parent", summary.parent or "-")]
    if summary.foreign:
        rows.append(("foreign", f"{summary.foreign}; {command(app, 'adopt', state.runId)}"))
    # a completed run has overcome its last error
    if not isinstance(state.lastError, UnsetType) and state.status != "completed":
        rows.append(("last error", f"{state.lastError.code}: {state.lastError.message}"))
    for name, value in rows:
        first, *more = safe(value[:_SHOWN]).splitlines() or [""]
        click.echo("\n".join([f"  {name:<11}{first}", *(f"{'':<13}{line}" for line in more)]))
    for line in how_to_answer(app, summary.folder) if summary.fold.pending and not summary.foreign else ():
        click.echo(line)
    click.echo("")
    headline = app.workflows.of(summary.workflow).headline
    echo_lines(f"  {event.ts[11:19]} {text}" for event in summary.events if (text := step_line(event, headline)))
    idle = not summary.driven and not summary.fold.pending and not summary.foreign
    if state.status not in FINAL.values() and idle:
        click.echo(f"\n  no process drives it: {command(app, 'resume', state.runId)}")
    return 0


@click.command()
@options.run_argument
@_json_option
@options.project
def watch(run: str, as_json: bool, project: Path) -> int:
    """Follow RUN from its beginning until it ends (Ctrl-C leaves it alone)."""
    app = App(project)
    return _follow(app, app.runs.find(run), as_json=as_json)


@click.command()
@options.run_argument
@click.option("-f", "--follow", is_flag=True, help="Keep printing as events come.")
@_json_option
@options.project
def logs(run: str, follow: bool, as_json: bool, project: Path) -> int:
    """RUN's events, one per line, with errors in full."""
    app = App(project)
    folder = app.runs.find(run)
    if follow:
        return _follow(app, folder, as_json=as_json, full=True)
    events = app.project.store.events(folder, keep=False)  # read first, so that damage is reported before any output
    if as_json:
        for event in events:
            print_json(event)
    else:
        headline = app.workflow_of(folder.id).headline
        echo_lines(line for event in events for line in _lines(event, headline, full=True))
    return 0


def _follow(app: App, folder: RunFolder, *, as_json: bool, full: bool = False) -> int:
    """Print events as they come, until the run ends. When the run waits, print once how to answer."""
    store = app.project.store
    journal, told = store.follow(folder), -1
    headline = app.workflow_of(folder.id).headline
    while True:
        before = journal.offset
        for event in journal.new():
            if as_json:
                print_json(event)
            else:
                for line in _lines(event, headline, full=full):
                    click.echo(line)
            if event.type in FINAL:
                return 0
        if journal.offset == before and not as_json and told != before and not store.is_driven(folder):
            told = before
            for line in how_to_answer(app, folder) or [f"no process drives it: {command(app, 'resume', folder.id)}"]:
                click.echo(line, err=True)
        time.sleep(POLL_SECONDS)


def _lines(event: Event, headline: Callable[[Event], str], *, full: bool) -> Iterator[str]:
    """An event as lines for a person; `full`: every event, with its whole error."""
    if full:
        phase = f"{event.phase}/{event.iteration}" if event.phase is not UNSET else "-"
        text = step_line(event, headline) or safe(key_of(event))
        yield f"{safe(event.id)} {event.ts} {event.type:<26}{phase:<12}{text}"
        error = StepEvent.of(event).error or outcome_of(event).refusal or Failure()
        whole = error.message if len(error.message) > 200 else ""  # the headline is cut
        for part in (whole[:_OF_AN_ERROR], error.stack[:_OF_AN_ERROR]):
            yield from (f"    {line}" for line in safe(part).splitlines())
    elif text := step_line(event, headline):
        yield f"{event.ts[11:19]} {text}"


@click.command()
@options.run_argument
@click.option(
    "--exact", is_flag=True, help="With the bytes that are masked otherwise: secrets are printed as they are."
)
@options.project
def diff(run: str, exact: bool, project: Path) -> int:
    """The patch or plan RUN waits with, or else every patch it applied, in order.

    Secrets in a patch are masked; the masked places are listed on stderr. --exact prints the bytes that are applied.
    They come from the raw reply, which only you can read.
    """
    app = App(project)
    folder = app.runs.find(run)
    if (request := app.runs.asked(folder)) is not None:
        lines = app.workflow_of(folder.id).shown(folder, request, True)
        echo_lines(map(painted, lines) if lines is not None else [safe(Request.of(request).summary)])
        return 0
    some = False
    for patch in app.runs.patches(folder, exact=exact):
        if exact and not some:
            click.echo(
                "orchestra: the exact bytes follow, secrets and all: mind who sees this screen or file", err=True
            )
        some = True
        if exact and not sys.stdout.isatty():
            # exact bytes: control characters are harmless except on a terminal
            sys.stdout.buffer.write(utf8(patch.diff))
            continue
        echo_lines(paint_diff(patch.diff))
        for line in masked_lines(app, folder.id, patch.masked):
            click.echo(line, err=True)
    if not some:
        click.echo(f"run {safe(folder.id)} has applied no patch and waits with none", err=True)
    return 0


@click.command()
@options.run_argument
@options.project
def report(run: str, project: Path) -> int:
    """RUN's report as Markdown; for an unfinished run, the report so far."""
    app = App(project)
    summary = app.runs.summary(app.runs.find(run))
    if summary.fold.state.status in FINAL.values() and os.path.lexists(summary.folder.report):
        echo_lines(map(safe, app.runs.report_of(summary.folder)))
    else:
        echo_lines(app.report(summary))
    return 0


def _goal(summary: RunSummary) -> str:
    return brief(summary.facts.goal, _SHOWN)


def _facts(summary: RunSummary) -> dict[str, Any]:
    return {
        "workflow": summary.workflow,
        "goal": _goal(summary),
        "dir": str(summary.folder.path),
        "driven": summary.driven,
        "vouched": not summary.foreign,
        "parentRunId": summary.parent,
        "pending": [{"id": name, "type": e.type} for name, e in summary.fold.pending.items()],
    }
