"""Commands that only read: inbox, runs, show, watch, logs, diff, audit, report. They work on a live run too."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import UNSET, UnsetType

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.advice import command, how_to_answer, masked_lines
from orchestra.cli.audit import prompt_lines
from orchestra.cli.graph import whole_plan
from orchestra.cli.text import echo_lines, paint_diff, print_json, safe, step_line
from orchestra.cli.wide import aligned
from orchestra.core.errors import JournalCorrupt
from orchestra.core.inbox import waiting as unanswered
from orchestra.core.journal import Follower, read_journal
from orchestra.core.records import FINAL, Event, utf8
from orchestra.core.run import RunFolder, is_driven
from orchestra.core.shape import outcome_of
from orchestra.core.text import brief
from orchestra.runs.find import RunSummary
from orchestra.workflows.dag.files import read_plan_file

POLL_SECONDS = 0.2
_SHOWN, _IN_A_ROW, _OF_AN_ERROR = 10_000, 500, 1_000_000  # characters of a goal; beside others; of an error in full
_json_option = options.json_of("One JSON object per line.")


@click.command()
@_json_option
@options.project
def runs(as_json: bool, project: Path) -> int:
    """All runs of this project, newest last."""
    rows: list[tuple[str, str, str, str]] = []
    notes: dict[str, None] = {}
    for folder, found in App(project).overview():  # of each run only its row is kept
        if not as_json:
            rows.append(_row(folder, found))
            notes |= dict.fromkeys(_notes(found)) if isinstance(found, RunSummary) else {}
        elif isinstance(found, RunSummary):
            print_json({**msgspec.to_builtins(found.fold.state), **_facts(found)})
        else:
            print_json({"runId": folder.id, "status": "damaged", "dir": str(folder.path), "error": str(found)})
    if not rows and not as_json:
        click.echo('no runs here yet; start one: orchestra loop "GOAL" --check "CMD", or orchestra dag "INTENT"')
    elif rows:
        echo_lines(aligned(("run", "status", "iteration", "goal"), rows))
        echo_lines(note for note in _NOTES if note in notes)
    return 0


_DRIVEN = "* driven by a process right now"
_STOPPED = "stopped: nobody drives it; orchestra resume RUN goes on with it"
_FOREIGN = "foreign: your key did not make it, or it belongs to another folder; orchestra adopt RUN says more"
_NOTES = (_DRIVEN, _STOPPED, _FOREIGN)


def _notes(summary: RunSummary) -> Iterator[str]:
    """What the marks in its row mean."""
    if summary.driven:
        yield _DRIVEN
    if _is_stopped(summary):
        yield _STOPPED
    if summary.foreign:
        yield _FOREIGN


def _is_stopped(summary: RunSummary) -> bool:
    """Whether a run could go on and nobody makes it: `running` would promise something."""
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
    for _, summary in app.overview():
        if not isinstance(summary, RunSummary) or not summary.fold.pending:
            continue
        if summary.foreign:
            foreign.append(summary.folder.id)
            continue
        waits = True
        if as_json:
            open_requests = unanswered(summary.folder, summary.fold.pending, app.keyring.known)
            for name, event in summary.fold.pending.items():
                facts = {"runId": summary.folder.id, "id": name, "type": event.type}
                print_json({**facts, "answered": name not in open_requests, "payload": event.payload})
            continue
        click.echo(click.style(safe(summary.folder.id), bold=True) + f"  {_goal(summary)}")
        echo_lines(how_to_answer(app, summary.folder))
    if not waits and not as_json:
        click.echo("nothing waits for you")
    for run_id in foreign:  # what a foreign run asks for may be somebody else's wish
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
        echo_lines(prompt_lines(app.find(run), key))
        return 0
    summary = app.summary(app.find(run))
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
    if not isinstance(state.lastError, UnsetType) and state.status != "completed":  # then it was overcome
        rows.append(("last error", f"{state.lastError.code}: {state.lastError.message}"))
    for name, value in rows:
        first, *more = safe(value[:_SHOWN]).splitlines() or [""]
        click.echo("\n".join([f"  {name:<11}{first}", *(f"{'':<13}{line}" for line in more)]))
    for line in how_to_answer(app, summary.folder) if summary.fold.pending and not summary.foreign else ():
        click.echo(line)
    click.echo("")
    echo_lines(f"  {event.ts[11:19]} {text}" for event in summary.events if (text := step_line(event)))
    idle = not summary.driven and not summary.fold.pending and not summary.foreign
    if state.status not in FINAL.values() and idle:
        click.echo(f"\n  nobody drives it: {command(app, 'resume', state.runId)}")
    return 0


@click.command()
@options.run_argument
@_json_option
@options.project
def watch(run: str, as_json: bool, project: Path) -> int:
    """Follow RUN from its beginning until it ends (Ctrl-C leaves it alone)."""
    app = App(project)
    return _follow(app, app.find(run), as_json=as_json)


@click.command()
@options.run_argument
@click.option("-f", "--follow", is_flag=True, help="Keep printing as events come.")
@_json_option
@options.project
def logs(run: str, follow: bool, as_json: bool, project: Path) -> int:
    """RUN's events, one per line, with errors in full."""
    app = App(project)
    folder = app.find(run)
    if follow:
        return _follow(app, folder, as_json=as_json, full=True)
    events = read_journal(folder.events, keep=False).events  # damage is told before anything else
    if as_json:
        for event in events:
            print_json(event)
    else:
        echo_lines(line for event in events for line in _lines(event, full=True))
    return 0


def _follow(app: App, folder: RunFolder, *, as_json: bool, full: bool = False) -> int:
    """Print events as they come, until the run ends; say once who must act when it waits."""
    journal, told = Follower(folder.events), -1
    while True:
        before = journal.offset
        for event in journal.new():
            if as_json:
                print_json(event)
            else:
                for line in _lines(event, full=full):
                    click.echo(line)
            if event.type in FINAL:
                return 0
        if journal.offset == before and not as_json and told != before and not is_driven(folder):
            told = before
            for line in how_to_answer(app, folder) or [f"nobody drives it: {command(app, 'resume', folder.id)}"]:
                click.echo(line, err=True)
        time.sleep(POLL_SECONDS)


def _lines(event: Event, *, full: bool) -> Iterator[str]:
    """An event as lines for a person; `full`: whatever it is, with its error."""
    if full:
        phase = f"{event.phase}/{event.iteration}" if event.phase is not UNSET else "-"
        text = step_line(event) or safe(event.payload.get("key", ""))
        yield f"{safe(event.id)} {event.ts} {event.type:<26}{phase:<12}{text}"
        error = event.payload.get("error") or outcome_of(event).get("refusal") or {}
        whole = error.get("message", "") if len(error.get("message", "")) > 200 else ""  # the line above was cut
        for part in (whole[:_OF_AN_ERROR], error.get("stack", "")[:_OF_AN_ERROR]):
            yield from (f"    {line}" for line in safe(part).splitlines())
    elif text := step_line(event):
        yield f"{event.ts[11:19]} {text}"


@click.command()
@options.run_argument
@click.option(
    "--exact", is_flag=True, help="With the bytes that are masked otherwise: secrets are printed as they are."
)
@options.project
def diff(run: str, exact: bool, project: Path) -> int:
    """The patch or plan RUN waits with, or else every patch it applied, in order.

    Secrets in a patch are masked; what is hidden so is told on stderr, with its place. --exact prints the bytes that
    are applied. They come from the raw reply, which only you can read.
    """
    app = App(project)
    folder = app.find(run)
    if plan := app.plan(folder):
        echo_lines(whole_plan(read_plan_file(folder, plan), folder.path / "plan.json"))
        return 0
    some = False
    for patch in app.patches(folder, exact=exact):
        if exact and not some:
            click.echo(
                "orchestra: the exact bytes follow, secrets and all: mind who sees this screen or file", err=True
            )
        some = True
        if exact and not sys.stdout.isatty():
            sys.stdout.buffer.write(utf8(patch.diff))  # bytes are bytes: only a terminal could be played tricks on
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
    """RUN's report as Markdown; of an unfinished run, as far as it got."""
    app = App(project)
    summary = app.summary(app.find(run))
    if summary.fold.state.status in FINAL.values() and os.path.lexists(summary.folder.report):
        echo_lines(map(safe, app.report_of(summary.folder)))
    else:
        echo_lines(app.report(summary))
    return 0


def _goal(summary: RunSummary) -> str:
    return brief(summary.created.payload.get("goal", ""), _SHOWN)


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
