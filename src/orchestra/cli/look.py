"""Commands that only read: inbox, runs, show, watch, logs, diff, audit, report. They work on a live run too."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import UNSET, UnsetType

from orchestra.app import App
from orchestra.archive import RunSummary
from orchestra.cli import options
from orchestra.cli.advice import command, how_to_answer, masked_lines
from orchestra.cli.audit import prompt_lines
from orchestra.cli.graph import whole_plan
from orchestra.cli.text import paint_diff, print_json, safe, step_line
from orchestra.cli.wide import table
from orchestra.core.errors import JournalCorrupt
from orchestra.core.inbox import waiting as unanswered
from orchestra.core.journal import follow_events, read_events
from orchestra.core.records import FINAL, Event, utf8
from orchestra.core.run import RunFolder, is_driven

POLL_SECONDS = 0.2
_json_option = options.json_of("One JSON object per line.")


@click.command()
@_json_option
@options.project
def runs(as_json: bool, project: Path) -> int:
    """All runs of this project, newest last."""
    overview = list(App(project).overview())
    summaries = [summary for _, summary in overview if isinstance(summary, RunSummary)]
    if as_json:
        for folder, found in overview:
            if isinstance(found, RunSummary):
                print_json({**msgspec.to_builtins(found.fold.state), **_facts(found)})
            else:
                print_json({"runId": folder.id, "status": "damaged", "dir": str(folder.path), "error": str(found)})
        return 0
    if not overview:
        click.echo('no runs here yet; start one: orchestra loop "GOAL" --check "CMD", or orchestra dag "INTENT"')
        return 0
    rows = [_row(folder, found) for folder, found in overview]
    for line in table(("run", "status", "iteration", "goal"), rows):
        click.echo(line)
    if any(s.driven for s in summaries):
        click.echo("* driven by a process right now")
    if any(_is_stopped(s) for s in summaries):
        click.echo("stopped: nobody drives it; orchestra resume RUN goes on with it")
    if any(s.foreign for s in summaries):
        click.echo("foreign: your key did not make it, or it belongs to another folder; orchestra adopt RUN says more")
    return 0


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
        return folder.id, "damaged", "-", f"orchestra verify {folder.id} says where"
    state = found.fold.state
    return folder.id, _status(found), str(state.iteration), safe(_goal(found))


@click.command()
@_json_option
@options.project
def inbox(as_json: bool, project: Path) -> int:
    """Everything that waits for you, with the command that answers it."""
    app = App(project)
    waiting = [s for s in app.summaries() if s.fold.pending]
    foreign = [s for s in waiting if s.foreign]
    waiting = [s for s in waiting if not s.foreign]
    for summary in waiting:
        if as_json:
            for name, event in summary.fold.pending.items():
                answered = name not in unanswered(summary.folder, summary.fold.pending, app.keyring.known)
                facts = {"runId": summary.folder.id, "id": name, "type": event.type, "answered": answered}
                print_json({**facts, "payload": event.payload})
            continue
        click.echo(click.style(summary.folder.id, bold=True) + f"  {safe(_goal(summary))}")
        for line in how_to_answer(app, summary.folder):
            click.echo(line)
    if not waiting and not as_json:
        click.echo("nothing waits for you")
    for summary in foreign:  # what a foreign run asks for may be somebody else's wish
        click.echo(f"{summary.folder.id} is foreign; look: {command(app, 'adopt', summary.folder.id)}", err=True)
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
        for line in prompt_lines(app.find(run), key):
            click.echo(line)
        return 0
    summary = app.summary(app.find(run))
    state = summary.fold.state
    if as_json:
        print_json({**msgspec.to_builtins(state), **_facts(summary)})
        return 0
    click.echo(click.style(safe(_goal(summary)), bold=True))
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
        first, *more = safe(value).splitlines() or [""]
        click.echo("\n".join([f"  {name:<11}{first}", *(f"{'':<13}{line}" for line in more)]))
    for line in how_to_answer(app, summary.folder) if summary.fold.pending and not summary.foreign else ():
        click.echo(line)
    click.echo("")
    steps = [f"  {event.ts[11:19]} {text}" for event in summary.events if (text := step_line(event))]
    click.echo("\n".join(steps))  # at once: echo flushes
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
    for event in read_events(folder.events):
        _print_event(event, as_json=as_json, full=True)
    return 0


def _follow(app: App, folder: RunFolder, *, as_json: bool, full: bool = False) -> int:
    """Print events as they come, until the run ends; say once who must act when it waits."""
    offset, told = 0, -1
    while True:
        events, offset = follow_events(folder.events, offset)
        for event in events:
            _print_event(event, as_json=as_json, full=full)
            if event.type in FINAL:
                return 0
        if not events and not as_json and told != offset and not is_driven(folder):
            told = offset
            for line in how_to_answer(app, folder) or [f"nobody drives it: {command(app, 'resume', folder.id)}"]:
                click.echo(line, err=True)
        time.sleep(POLL_SECONDS)


def _print_event(event: Event, *, as_json: bool, full: bool) -> None:
    if as_json:
        print_json(event)
    elif full:
        phase = f"{event.phase}/{event.iteration}" if event.phase is not UNSET else "-"
        text = step_line(event) or event.payload.get("key", "")
        click.echo(f"{event.id} {event.ts} {event.type:<26}{phase:<12}{text}")
        error = event.payload.get("error") or (event.payload.get("outcome") or {}).get("refusal") or {}
        whole = error.get("message", "") if len(error.get("message", "")) > 200 else ""  # the line above was cut
        for line in [*whole.splitlines(), *error.get("stack", "").splitlines()]:
            click.echo(f"    {safe(line)}")
    elif text := step_line(event):
        click.echo(f"{event.ts[11:19]} {text}")


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
        click.echo("\n".join(whole_plan(plan, folder.path / "plan.json")))  # at once: echo flushes
        return 0
    patches = app.patches(folder, exact=exact)
    if exact and patches:
        click.echo("orchestra: the exact bytes follow, secrets and all: mind who sees this screen or file", err=True)
    if not patches:
        click.echo(f"run {folder.id} has applied no patch and waits with none", err=True)
    for patch in patches:
        if exact and not sys.stdout.isatty():
            sys.stdout.buffer.write(utf8(patch.diff))  # bytes are bytes: only a terminal could be played tricks on
            continue
        for line in paint_diff(patch.diff):
            click.echo(line)
        for line in masked_lines(app, folder.id, patch.masked):
            click.echo(line, err=True)
    return 0


@click.command()
@options.run_argument
@options.project
def report(run: str, project: Path) -> int:
    """RUN's report as Markdown; of an unfinished run, as far as it got."""
    app = App(project)
    summary = app.summary(app.find(run))
    if summary.folder.report.exists() and summary.fold.state.status in FINAL.values():
        click.echo(summary.folder.report.read_text(encoding="utf-8"), nl=False)
    else:
        click.echo(app.report(summary), nl=False)
    return 0


def _goal(summary: RunSummary) -> str:
    return " ".join(str(summary.created.payload.get("goal", "")).split())


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
