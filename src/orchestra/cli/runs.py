"""`orchestra runs` and `orchestra inbox`: all trees of runs of a project, and everything in them that waits.

Rules
1. Child runs are shown below the run that began them. Status and requests of a run are those of its tree.
2. A request is answered by the id of the run at the top of its tree. A foreign run's requests are not shown: another
   person may have written them.
3. The runs of a session are one row, the newest. `--all` shows every run, and `--json` always does.
4. Undos and applies that have ended are about other runs: only `--all` shows them.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.advice import answer_lines, command, waiting_lines
from orchestra.cli.hosting import how_commands_begin
from orchestra.cli.text import echo_lines, print_json, safe
from orchestra.core.accounts import money
from orchestra.core.cells import aligned
from orchestra.core.errors import JournalCorrupt, OrchestraError, UsageError
from orchestra.core.localtime import local_minute, took
from orchestra.core.reading import RunCreated, job_of
from orchestra.core.records import FINAL, RunStatus, now, seconds_between
from orchestra.core.text import brief, count
from orchestra.runs.find import RunSummary, number_text
from orchestra.runs.tree import Listed, OpenRequest

_SHOWN, _IN_A_ROW = 10_000, 500  # characters of a goal; of a goal in a table
_DEEPEST = 20  # levels of child runs that are indented
_json_option = options.json_of("One JSON object per line.")


@click.command()
@click.option("--all", "every", is_flag=True, help="Every turn of a session, every undo and apply, too.")
@click.option(
    "--latest",
    nargs=2,
    metavar="TEAM TASK",
    help="Print only the id of the newest completed run of a team on a task.",
)
@_json_option
@options.project
def runs(every: bool, latest: tuple[str, str] | None, as_json: bool, project: Path) -> int:
    """All runs of this project, newest last; child runs below the run that began them.

    Of a session, only the newest turn is shown, with the number of its turns; --all shows every one.
    Undos and applies are shown with --all.
    """
    if latest:
        found = _latest(App(project), latest)
        print_json({"runId": found}) if as_json else click.echo(found)
        return 0
    rows: list[tuple[str, ...]] = []
    notes: dict[str, None] = {}
    waits: list[str] = []
    app = App(project)
    for tree in app.trees.listing(
        sessions=not every and not as_json, asides=every
    ):  # only the rows of each tree are kept in memory
        at_rest = _is_at_rest(tree)
        for one in tree:
            if as_json:
                print_json(_record(one))
                continue
            rows.append(_row(one, tree, at_rest=at_rest))
            notes |= dict.fromkeys(_notes(one, at_rest=at_rest)) if isinstance(one.found, RunSummary) else {}
        waits += [] if as_json else _waiting_below(app, tree)
    if not rows and not as_json:
        click.echo(f"no runs here yet; {app.workflows.how_to_start}")
    elif rows:
        room = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
        echo_lines(aligned(*fitted(rows, room), whole=not sys.stdout.isatty()))
        echo_lines(note.format(how_commands_begin()) for note in _NOTES if note in notes)
        echo_lines(waits)
    return 0


def _latest(app: App, names: tuple[str, str]) -> str:
    """The id of the newest completed run whose workflow names its runs like this (S4-37, S4-38)."""
    for folder in reversed(list(app.runs.folders())):
        created = app.project.store.first(folder)
        workflow = app.workflows.of(RunCreated.of(created).workflow)
        if workflow.id_parts is None or RunCreated.of(created).parentRunId is not None:
            continue
        try:
            parts = workflow.id_parts(msgspec.convert(job_of(created), workflow.params))
            if parts == names and app.runs.summary(folder).fold.state.status == "completed":
                return folder.id
        except (msgspec.ValidationError, JournalCorrupt):
            continue  # of another version, or damaged
    raise UsageError(f"there is no completed run of {names[0]} on {names[1]} here (orchestra runs lists all)")


def _waiting_below(app: App, tree: Sequence[Listed]) -> Iterator[str]:
    """What a root waits for whose child runs wait, and how to answer: its row has only the status."""
    for root in tree[:1]:
        foreign = not isinstance(root.found, RunSummary) or root.found.foreign
        if not foreign and any(request.path for request in root.requests):
            lines = waiting_lines(app, root.folder.id, root.requests)
            yield from (f"{safe(root.folder.id)}: {line}" for line in lines)


_DRIVEN = "* driven by a process right now"
_STOPPED = "stopped: no process drives it; {}resume RUN continues it"
_FOREIGN = "foreign: your key did not make it, or it belongs to another folder; {}adopt RUN says more"
_NOTES = (_DRIVEN, _STOPPED, _FOREIGN)


def _notes(one: Listed, *, at_rest: bool) -> Iterator[str]:
    """The notes that explain the marks in a run's row; {} stands for how a command begins."""
    assert isinstance(one.found, RunSummary)
    if one.found.driven:
        yield _DRIVEN
    if at_rest and _is_stopped(one.found, one.status):
        yield _STOPPED
    if one.found.foreign:
        yield _FOREIGN


def _is_at_rest(tree: Sequence[Listed]) -> bool:
    return is_at_rest(tree[0].status, [one.found for one in tree])


def is_at_rest(status: RunStatus | None, tree: Sequence[RunSummary | JournalCorrupt]) -> bool:
    """Whether a tree can go on but no process drives it. A run without its parent cannot. `status` is the root's."""
    root = tree[0]
    if not isinstance(root, RunSummary) or root.parent is not None or status in FINAL.values():
        return False
    return not any(isinstance(one, RunSummary) and one.driven for one in tree)


def _is_stopped(summary: RunSummary, status: RunStatus | None) -> bool:
    """Whether a run of a tree at rest is in the middle of its work. It is shown as `stopped`, not `running`."""
    return not summary.foreign and status in ("created", "running")


def status_text(summary: RunSummary, status: RunStatus | None, *, at_rest: bool) -> str:
    """The status of a run for people. `at_rest`: no process drives its tree."""
    return "stopped" if at_rest and _is_stopped(summary, status) else str(status)


def _status(summary: RunSummary, status: RunStatus | None, *, at_rest: bool) -> str:
    return (
        status_text(summary, status, at_rest=at_rest)
        + (" (foreign)" if summary.foreign else "")
        + (" (dry run)" if summary.dry else "")
        + (" *" if summary.driven else "")
    )


_COLUMNS = ("no", "run", "status", "started", "took", "cost", "goal")
_WIDE = 130  # cells; a narrower terminal shows no ids: the numbers are enough
_NARROW = 80  # cells; a narrower terminal shows neither times nor cost


def _row(one: Listed, tree: Sequence[Listed], *, at_rest: bool) -> tuple[str, ...]:
    """The columns of a run. Time and cost of a run at the top are those of its tree."""
    run_id = f"{'  ' * min(one.depth, _DEEPEST)}{safe(one.folder.id)}"
    if not isinstance(one.found, RunSummary):
        return "-", run_id, "damaged", "-", "-", "-", f"orchestra verify {safe(one.folder.id)} says where"
    key = f"{brief(one.found.facts.parentKey, _IN_A_ROW)}: " if one.depth else ""
    turns = f" ({count(one.turns, 'turn')})" if one.turns else ""
    goal = f"{key}{_session(one.found, turns)}{brief(goal_of(one.found), _IN_A_ROW)}"
    number = "" if one.depth else number_text(one.found.facts.number)
    below = () if one.depth else (other.found for other in tree if isinstance(other.found, RunSummary))
    until = now() if one.found.driven else max(run.fold.state.updatedAt for run in (one.found, *below))
    return (
        number,
        run_id,
        _status(one.found, one.status, at_rest=at_rest),
        local_minute(one.found.made),
        took(max(0.0, seconds_between(one.found.made, until))),
        _cost([one] if one.depth else tree),
        goal,
    )


def _cost(runs: Sequence[Listed]) -> str:
    spent = [one.found.spent for one in runs if isinstance(one.found, RunSummary)]
    unpriced = sum(one.unpriced for one in spent)
    return money(sum(one.usd for one in spent), unpriced) if any(one.calls for one in spent) else "-"


def fitted(rows: list[tuple[str, ...]], room: int) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The header and rows with the columns that fit into so many cells. A pipe gets all of them."""
    if room >= _WIDE or any(row[0] == "-" for row in rows):
        return _COLUMNS, rows
    shown = (0, 2, 3, 4, 5, 6) if room >= _NARROW else (0, 2, 6)
    return tuple(_COLUMNS[at] for at in shown), [tuple(row[at] for at in shown) for row in rows]


def _session(summary: RunSummary, turns: str = "") -> str:
    """The session that a run is a turn of, as the beginning of a line; empty if it is none."""
    session = summary.facts.params.session
    return f"session {brief(session, _IN_A_ROW)}{turns}: " if session else ""


def _record(one: Listed) -> dict[str, Any]:
    """A run for programs. Status and requests are those of its tree."""
    if not isinstance(one.found, RunSummary):
        return {"runId": one.folder.id, "status": "damaged", "dir": str(one.folder.path), "error": str(one.found)}
    state = msgspec.to_builtins(one.found.fold.state)
    return {**state, **facts_of(one.found, one.requests), "status": one.status}


@click.command()
@click.option("--all", "everywhere", is_flag=True, help="Of all your projects: those where you started a run.")
@_json_option
@options.project
def inbox(everywhere: bool, as_json: bool, project: Path) -> int:
    """Everything that waits for you, with the command that answers it, and runs that stopped, with how to go on."""
    app = App(project)
    waits = _inbox(app, as_json=as_json, title="")
    for path in app.project.projects.all() if everywhere else ():
        if path == app.project.path:
            continue
        try:
            waits |= _inbox(App(path), as_json=as_json, title=str(path))
        except (OrchestraError, OSError) as error:
            click.echo(f"orchestra: {safe(str(path))}: {safe(str(error))}", err=True)
    if not waits and not as_json:
        click.echo("nothing waits for you")
    return 0


def _inbox(app: App, *, as_json: bool, title: str) -> bool:
    """Print what waits in one project, below its title; False if nothing does."""
    foreign: dict[str, None] = {}
    lines: list[str] = []
    waits = False
    for tree in app.trees.listing():
        foreign |= dict.fromkeys(r.run.folder.id for one in tree for r in one.requests if r.run.foreign)
        for root in _answered_by(tree):
            requests = [one for one in root.requests if not one.run.foreign]
            waits = waits or bool(requests)
            if as_json:
                for one in requests:
                    where = {"project": title} if title else {}
                    record = {**request_record(one), "rootRunId": root.folder.id, "payload": one.event.payload}
                    print_json({**record, **where})
            elif requests and isinstance(root.found, RunSummary):
                lines += [_said_of(root.found), *answer_lines(app, root.folder.id, requests)]
        if not as_json and (stopped := _stopped_root(tree)):
            lines += [_said_of(stopped), f"  stopped: {command(app, 'resume', stopped.folder.id)}"]
            waits = True
    echo_lines([click.style(safe(title), underline=True), *lines] if title and lines else lines)
    for run_id in foreign:  # a foreign run's requests are not shown: another person may have written them
        click.echo(f"{safe(run_id)} is foreign; look: {command(app, 'adopt', run_id)}", err=True)
    return waits


def _stopped_root(tree: Sequence[Listed]) -> RunSummary | None:
    """The run at the top of a tree that a kill or a signal stopped, and that waits for nobody; else None."""
    root = tree[0].found
    if not isinstance(root, RunSummary) or tree[0].requests or not _is_at_rest(tree):
        return None
    return root if _is_stopped(root, tree[0].status) else None


def _said_of(summary: RunSummary) -> str:
    """The line above what a run waits for: its id, number and goal."""
    number = f"{number_text(summary.facts.number)} " if summary.facts.number else ""
    return f"{number}{click.style(safe(summary.folder.id), bold=True)}  {_session(summary)}{goal_of(summary)}"


def _answered_by(tree: list[Listed]) -> Iterator[Listed]:
    """The runs of a tree by whose ids its requests are answered: the root, and runs that no run above waits for."""
    told: set[tuple[str, str]] = set()
    for one in tree:
        if not isinstance(one.found, RunSummary) or one.found.foreign:
            continue
        left = tuple(r for r in one.requests if (r.run.folder.id, r.id) not in told)
        told |= {(r.run.folder.id, r.id) for r in left}
        if left:
            yield msgspec.structs.replace(one, requests=left)


def goal_of(summary: RunSummary) -> str:
    return brief(summary.facts.goal, _SHOWN)


def facts_of(summary: RunSummary, requests: Sequence[OpenRequest]) -> dict[str, Any]:
    """More about a run for programs; `pending` is what its tree waits for."""
    return {
        "workflow": summary.workflow,
        "number": summary.facts.number or None,
        "goal": goal_of(summary),
        "dir": str(summary.folder.path),
        "driven": summary.driven,
        "vouched": not summary.foreign,
        "parentRunId": summary.parent,
        "parentKey": summary.facts.parentKey or None,
        "sessionId": summary.facts.params.session or None,
        "pending": [request_record(one) for one in requests],
    }


def request_record(one: OpenRequest) -> dict[str, Any]:
    """An open request for programs; of a foreign run without what it asks, which another person may have written."""
    where = {"name": one.name, "child": one.child} if one.path else {"name": one.name}
    record = {"runId": one.run.folder.id, "id": one.id, "type": one.event.type, **where, "answered": one.answered}
    if one.run.foreign:
        return record
    asked = one.asked
    if one.is_approval:
        return {
            **record,
            "subject": asked.subject,
            "summary": asked.summary,
            "files": asked.paths,
            "digest": asked.digest,
        }
    told = {"options": asked.options, "default": asked.default, "impact": asked.impact}
    return {**record, "question": asked.question, **{name: value for name, value in told.items() if value}}


list_ = runs  # a name that people try
