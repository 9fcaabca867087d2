"""Commands that only read a run and its child runs: show, logs, diff, report. They work on a live run too."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

import click
import msgspec
from msgspec import UnsetType

from orchestra.app import App
from orchestra.cli import options, which
from orchestra.cli.advice import answer_lines, command, masked_lines
from orchestra.cli.audit import prompt_lines, reply_lines, usd
from orchestra.cli.runs import facts_of, goal_of, is_at_rest, status_text
from orchestra.cli.text import echo_lines, paint_diff, painted, print_json, safe, step_line
from orchestra.cli.watch import event_lines, follow_run, outline_of
from orchestra.core.command import NOT_GRANTED
from orchestra.core.errors import JournalCorrupt, OrchestraError
from orchestra.core.localtime import local, local_time, localised
from orchestra.core.records import FINAL, Event, utf8
from orchestra.core.run import RunFolder
from orchestra.core.text import count, duration_text
from orchestra.core.worked import seconds_worked
from orchestra.runs.answers import SHORT_DIGEST
from orchestra.runs.find import Member
from orchestra.runs.patches import ShownPatch, about, applied, net_patch, waiting
from orchestra.runs.tree import OpenRequest, status_in
from orchestra.workflows.headline import placed

_SHOWN = 10_000  # characters of a value
_json_option = options.json_of("One JSON object per line.")


@click.command()
@options.run_or_default
@click.option("--prompt", "key", metavar="KEY", help="The exact prompt of this model call (audit lists the keys).")
@click.option("--reply", metavar="KEY", help="What the model replied in this call.")
@options.own
@_json_option
@options.project
def show(run: str | None, key: str | None, reply: str | None, own: bool, as_json: bool, project: Path) -> int:
    """What RUN and its child runs are, what they did and what they wait for."""
    app = App(project)
    folder = which.to_look_at(app, run)
    if key is not None:
        echo_lines(prompt_lines(app, folder, key))
        return 0
    if reply is not None:
        echo_lines(reply_lines(app, folder, reply))
        return 0
    damaged: dict[str, JournalCorrupt] = {}
    members = app.trees.members(folder, own=own, damaged=damaged)
    summary, state = members[0].summary, members[0].summary.fold.state
    waiting = app.trees.requests(folder, members if not own else (), damaged=damaged)
    requests = [one for one in waiting if not (own and one.path)]
    harm = [f"child run {safe(one)} is damaged: {command(app, 'verify', one)} names the place" for one in damaged]
    if as_json:
        for line in harm:
            click.echo(f"orchestra: {line}", err=True)
        status = status_in(members[0], requests)  # with `own` the run's own status, as in state.json
        print_json({**msgspec.to_builtins(state), **facts_of(summary, requests), "status": status})
        return 0
    click.echo(click.style(goal_of(summary), bold=True))
    _echo_facts(app, members, waiting)
    if requests and not summary.foreign:
        echo_lines(answer_lines(app, folder.id, requests))
    click.echo("")
    echo_lines(outline_of(app, members[0]))
    echo_lines(_steps(app, members))
    if harm:
        echo_lines(["", *(f"  {line}" for line in harm)])
    idle = not summary.driven and not waiting and not summary.foreign
    if state.status not in FINAL.values() and idle and (above := app.trees.ended_above(folder)) is not None:
        click.echo(f"\n  run {safe(above.id)} above it has ended: nothing goes on with this run")
    elif state.status not in FINAL.values() and idle:
        click.echo(f"\n  no process drives it: {command(app, 'resume', state.runId)}")
        echo_lines(f"    {line}" for line in _limits(app, members[0]))
    return 0


def _limits(app: App, root: Member) -> Iterator[str]:
    """The money and the time of a stopped root run that were limited, how much is used, and the flags that raise them.

    One of the limits may be why the run stopped.
    """
    if root.summary.parent is not None:
        return
    models = app.terms.models(root.folder, root.summary.created)
    if models.maxBudgetUsd is not None:
        spent = sum(one.summary.spent.usd for one in app.runs.members(root.folder, damaged={}) if not one.kept)
        yield f"${spent:.4f} of ${models.maxBudgetUsd:.4f} is spent; more: resume with --max-budget-usd USD"
    if models.maxTimeSec is not None:
        working = app.runs.members(root.folder, only_open=True, damaged={})
        events = chain.from_iterable(one.summary.events for one in working)
        worked = seconds_worked(events, app.project.store.kept_reading(root.folder))
        total = duration_text(models.maxTimeSec)
        yield f"{worked:.1f}s of {total} of its time is used; more: resume with --max-time TIME"


def _echo_facts(app: App, members: list[Member], requests: list[OpenRequest]) -> None:
    """Print the rows of `show`: what the run is, its child runs, and what its tree cost."""
    summary = members[0].summary
    state = summary.fold.state
    at_rest = _is_at_rest(app, members)
    shown = status_text(summary, status_in(members[0], requests), at_rest=at_rest)
    shown += (" (dry run)" if summary.dry else "") + (" (driven right now)" if summary.driven else "")
    rows = [
        ("run", state.runId),
        ("status", shown),
        ("phase", state.currentPhase or "-"),
        ("iteration", str(state.iteration)),
    ]
    rows += [("started", local(summary.made)), ("last event", f"{state.lastEventId} at {local(state.updatedAt)}")]
    rows += [("folder", str(summary.folder.path)), ("parent", summary.parent or "-")]
    if len(members) > 1:
        rows.append(("child runs", _children(members, requests, at_rest=at_rest)))
    if paid := [call for member in members for call in app.trees.calls(member) if not call.kept]:
        rows.append(("cost", f"${usd(paid)} ({count(len(paid), 'model call')})"))
    if summary.foreign:
        rows.append(("foreign", f"{summary.foreign}; {command(app, 'adopt', state.runId)}"))
    # a completed run has overcome its last error
    error = state.lastError
    if not isinstance(error, UnsetType) and state.status != "completed" and error.code != NOT_GRANTED:
        rows.append(("last error", f"{error.code}: {error.message}"))
    for name, value in rows:
        first, *more = safe(value[:_SHOWN]).splitlines() or [""]
        click.echo("\n".join([f"  {name:<11}{first}", *(f"{'':<13}{line}" for line in more)]))


def _is_at_rest(app: App, members: list[Member]) -> bool:
    """Whether no process drives the tree that these runs belong to; `runs` shows the same."""
    tree = members
    if members[0].summary.parent is not None:
        try:
            tree = app.trees.members(app.runs.root_of(members[0].folder))
        except (OrchestraError, FileNotFoundError):
            return False  # a run above is gone or damaged: this one cannot go on
    return is_at_rest(tree[0].summary.fold.state.status, [one.summary for one in tree])


def _children(members: list[Member], requests: list[OpenRequest], *, at_rest: bool) -> str:
    """The child runs of a tree, one a line: where each is, its status, its id."""
    rows = [(one, status_text(one.summary, status_in(one, requests), at_rest=at_rest)) for one in members[1:]]
    return "\n".join(f"{one.key} {said}{' (kept)' if one.kept else ''} {one.folder.id}" for one, said in rows)


def _steps(app: App, members: list[Member]) -> Iterator[str]:
    """What the runs of a tree did, one line an event that is worth one."""
    headlines = _headlines(app, members)
    for one in app.trees.events(members):
        if text := step_line(one.event, headlines[one.member.folder.id]):
            where = f"{one.member.key} " if one.member.path else ""
            yield f"  {local_time(one.event.ts)} {where}{text}"


def _headlines(app: App, members: list[Member]) -> dict[str, Callable[[Event], str]]:
    """How each run's workflow puts an event into words."""
    runs = (member.summary for member in members)
    return {run.folder.id: placed(app.workflows.of(run.workflow).headline, run.facts.folder) for run in runs}


@click.command()
@options.run_or_default
@click.option("-f", "--follow", is_flag=True, help="Keep printing as events come.")
@options.own
@_json_option
@options.project
def logs(run: str | None, follow: bool, own: bool, as_json: bool, project: Path) -> int:
    """The events of RUN and its child runs in order of time, one per line, with errors in full."""
    app = App(project)
    folder = which.to_look_at(app, run)
    if follow:
        return follow_run(app, folder, as_json=as_json, full=True, own=own)
    members = app.trees.members(folder, own=own)  # read first, so that damage is reported before any output
    if as_json:
        for one in app.trees.events(members):
            print_json(one.event)
        return 0
    headlines = _headlines(app, members)
    echo_lines(
        f"{one.member.key} {line}" if one.member.path else line
        for one in app.trees.events(members)
        for line in event_lines(one.event, headlines[one.member.folder.id], full=True)
    )
    return 0


@click.command()
@options.run_or_default
@click.option("--patches", is_flag=True, help="Every patch that was applied, in order, instead of the net change.")
@click.option(
    "--exact", is_flag=True, help="With the bytes that are masked otherwise: secrets are printed as they are."
)
@options.own
@options.project
def diff(run: str | None, patches: bool, exact: bool, own: bool, project: Path) -> int:
    """What RUN and its child runs wait with; else what they changed in the end, as one diff that `git apply` takes.

    Secrets in a patch are masked; the masked places are listed on stderr. --exact prints the bytes that are applied.
    They come from the raw reply, which only you can read.

    \b
    orchestra diff last
    orchestra diff last | git apply -R
    orchestra diff last --patches
    """
    app = App(project)
    folder = which.to_look_at(app, run)
    asked = [one for one in app.trees.requests(folder) if one.is_approval and not (own and one.path)]
    shown = _Shown(app, exact=exact)
    for one in asked if not patches else ():
        if len(asked) > 1:
            click.echo(f"{one.name}, --digest {safe(one.asked.digest[:SHORT_DIGEST])}:", err=True)
        if one.asked.subject != "patch":
            lines = app.workflows.of(one.run.workflow).shown(one.run.folder, one.event, True)
            echo_lines(map(painted, lines) if lines is not None else [safe(one.asked.summary)])
        else:
            shown.echo(waiting(one, exact=exact))
    if asked and not patches:
        return 0
    members = app.trees.members(folder, own=own)
    copy = app.runs.summary(folder).facts.copy
    history = applied(app.trees.events(members), copy=copy, exact=exact)
    foreign = any(member.summary.foreign for member in members)  # of others: their records of texts prove nothing
    for patch in history if patches or foreign else _net(app, folder, history, exact=exact, own=own):
        shown.echo(patch)
    if not shown.some:
        click.echo(f"run {safe(folder.id)} has changed no file and waits with no patch", err=True)
    return 0


def _net(app: App, folder: RunFolder, history: Iterable[ShownPatch], *, exact: bool, own: bool) -> Iterator[ShownPatch]:
    """The net change as one patch; of files whose texts are not known any more, each patch."""
    net = app.trees.changes.net(folder, own=own)
    if net.files:
        yield net_patch(folder, net, app.project.redactor, exact=exact)
    if net.unknown:
        names = safe(", ".join(net.unknown))
        click.echo(f"orchestra: {names} changed since the run: its patches are shown one after the other", err=True)
        yield from (about(patch, net.unknown) for patch in history)


class _Shown:
    """Prints patches, and a warning before the first if they have their exact bytes."""

    def __init__(self, app: App, *, exact: bool) -> None:
        self.some = False
        self._app = app
        self._exact = exact

    def echo(self, patch: ShownPatch) -> None:
        if not patch.diff:
            return
        if self._exact and not self.some:
            click.echo(
                "orchestra: the exact bytes follow, secrets and all: mind who sees this screen or file", err=True
            )
        self.some = True
        if sys.stdout.isatty():
            echo_lines(paint_diff(patch.diff))
        else:  # control characters are harmless except on a terminal
            sys.stdout.flush()
            sys.stdout.buffer.write(patch.data or utf8(patch.diff))
            sys.stdout.buffer.flush()
        for line in masked_lines(self._app, patch.folder.id, patch.masked):
            click.echo(line, err=True)


@click.command()
@options.run_or_default
@options.own
@options.project
def report(run: str | None, own: bool, project: Path) -> int:
    """The report of RUN as Markdown, then those of its child runs; for an unfinished run, the report so far."""
    app = App(project)
    for member in app.trees.members(which.to_look_at(app, run), own=own):
        summary = member.summary
        if member.path:
            kept = ", kept from the run that this one was forked from" if member.kept else ""
            click.echo(f"\n---\n\nChild run `{member.key}`{kept}:\n")
        ended = summary.fold.state.status in FINAL.values()
        if ended and not os.path.lexists(summary.folder.report):
            app.rebuild(summary)
        if ended and os.path.lexists(summary.folder.report):
            echo_lines(localised(safe(line)) for line in app.runs.report_of(summary.folder))
        else:
            echo_lines(map(localised, app.report(summary)))
    return 0
