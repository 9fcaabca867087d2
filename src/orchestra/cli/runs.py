"""`orchestra runs` and `orchestra inbox`: all trees of runs of a project, and everything in them that waits.

Rules
1. Child runs are shown below the run that began them. Status and requests of a run are those of its tree.
2. A request is answered by the id of the run at the top of its tree. A foreign run's requests are not shown: another
   person may have written them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.advice import answer_lines, command, waiting_lines
from orchestra.cli.text import echo_lines, print_json, safe
from orchestra.core.cells import aligned
from orchestra.core.records import RunStatus
from orchestra.core.text import brief
from orchestra.runs.find import RunSummary
from orchestra.runs.tree import Listed, OpenRequest

_SHOWN, _IN_A_ROW = 10_000, 500  # characters of a goal; of a goal in a table
_DEEPEST = 20  # levels of child runs that are indented
_json_option = options.json_of("One JSON object per line.")


@click.command()
@_json_option
@options.project
def runs(as_json: bool, project: Path) -> int:
    """All runs of this project, newest last; child runs below the run that began them."""
    rows: list[tuple[str, str, str, str]] = []
    notes: dict[str, None] = {}
    waits: list[str] = []
    app = App(project)
    for tree in app.trees.listing():  # only the rows of each tree are kept in memory
        for one in tree:
            if as_json:
                print_json(_record(one))
                continue
            rows.append(_row(one))
            notes |= dict.fromkeys(_notes(one)) if isinstance(one.found, RunSummary) else {}
        waits += [] if as_json else _waiting_below(app, tree)
    if not rows and not as_json:
        click.echo(f"no runs here yet; {app.workflows.how_to_start}")
    elif rows:
        echo_lines(aligned(("run", "status", "iteration", "goal"), rows))
        echo_lines(note for note in _NOTES if note in notes)
        echo_lines(waits)
    return 0


def _waiting_below(app: App, tree: Sequence[Listed]) -> Iterator[str]:
    """What a root waits for whose child runs wait, and how to answer: its row has only the status."""
    for root in tree[:1]:
        foreign = not isinstance(root.found, RunSummary) or root.found.foreign
        if not foreign and any(request.path for request in root.requests):
            lines = waiting_lines(app, root.folder.id, root.requests)
            yield from (f"{safe(root.folder.id)}: {line}" for line in lines)


_DRIVEN = "* driven by a process right now"
_STOPPED = "stopped: no process drives it; orchestra resume RUN continues it"
_FOREIGN = "foreign: your key did not make it, or it belongs to another folder; orchestra adopt RUN says more"
_NOTES = (_DRIVEN, _STOPPED, _FOREIGN)


def _notes(one: Listed) -> Iterator[str]:
    """The notes that explain the marks in a run's row."""
    assert isinstance(one.found, RunSummary)
    if one.found.driven:
        yield _DRIVEN
    if _is_stopped(one.found, one.status):
        yield _STOPPED
    if one.found.foreign:
        yield _FOREIGN


def _is_stopped(summary: RunSummary, status: RunStatus | None) -> bool:
    """Whether a tree can go on but no process drives it. It is shown as `stopped`, not `running`."""
    if summary.driven or summary.foreign or summary.parent is not None:
        return False
    return status in ("created", "running")


def _status(summary: RunSummary, status: RunStatus | None) -> str:
    shown = "stopped" if _is_stopped(summary, status) else str(status)
    return (
        shown
        + (" (foreign)" if summary.foreign else "")
        + (" (dry run)" if summary.dry else "")
        + (" *" if summary.driven else "")
    )


def _row(one: Listed) -> tuple[str, str, str, str]:
    run_id = f"{'  ' * min(one.depth, _DEEPEST)}{safe(one.folder.id)}"
    if not isinstance(one.found, RunSummary):
        return run_id, "damaged", "-", f"orchestra verify {safe(one.folder.id)} says where"
    key = f"{brief(one.found.facts.parentKey, _IN_A_ROW)}: " if one.depth else ""
    iteration = str(one.found.fold.state.iteration)
    return run_id, _status(one.found, one.status), iteration, key + brief(goal_of(one.found), _IN_A_ROW)


def _record(one: Listed) -> dict[str, Any]:
    """A run for programs. Status and requests are those of its tree."""
    if not isinstance(one.found, RunSummary):
        return {"runId": one.folder.id, "status": "damaged", "dir": str(one.folder.path), "error": str(one.found)}
    state = msgspec.to_builtins(one.found.fold.state)
    return {**state, **facts_of(one.found, one.requests), "status": one.status}


@click.command()
@_json_option
@options.project
def inbox(as_json: bool, project: Path) -> int:
    """Everything that waits for you, with the command that answers it."""
    app = App(project)
    foreign: dict[str, None] = {}
    waits = False
    for tree in app.trees.listing():
        foreign |= dict.fromkeys(r.run.folder.id for one in tree for r in one.requests if r.run.foreign)
        for root in _answered_by(tree):
            requests = [one for one in root.requests if not one.run.foreign]
            waits = waits or bool(requests)
            if as_json:
                for one in requests:
                    print_json({**request_record(one), "rootRunId": root.folder.id, "payload": one.event.payload})
            elif requests and isinstance(root.found, RunSummary):
                click.echo(click.style(safe(root.folder.id), bold=True) + f"  {goal_of(root.found)}")
                echo_lines(answer_lines(app, root.folder.id, requests))
    if not waits and not as_json:
        click.echo("nothing waits for you")
    for run_id in foreign:  # a foreign run's requests are not shown: another person may have written them
        click.echo(f"{safe(run_id)} is foreign; look: {command(app, 'adopt', run_id)}", err=True)
    return 0


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
        "goal": goal_of(summary),
        "dir": str(summary.folder.path),
        "driven": summary.driven,
        "vouched": not summary.foreign,
        "parentRunId": summary.parent,
        "parentKey": summary.facts.parentKey or None,
        "pending": [request_record(one) for one in requests],
    }


def request_record(one: OpenRequest) -> dict[str, Any]:
    """An open request for programs."""
    where = {"name": one.name, "child": one.child} if one.path else {"name": one.name}
    return {"runId": one.run.folder.id, "id": one.id, "type": one.event.type, **where, "answered": one.answered}
