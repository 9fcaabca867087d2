"""`orchestra requests`: the requests of contract-driven development, with the state that their tests show.

Rules
1. A request belongs to the newest of its runs: a retry or a rerun goes on with it.
2. Its state is computed from executed tests (workflows/contracts/tracing.py), never read from a file.
3. A folder of contracts without a run, as another tool leaves it, is listed; nothing was executed here.
4. A run in a copy of the project (core/copies.py) counts its own requests, from R1 on, and keeps their contracts there:
   they are no requests of the project.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from msgspec import Struct

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.requesttrace import trace_of
from orchestra.cli.text import echo_lines, print_json, safe
from orchestra.core.cells import aligned
from orchestra.core.errors import JournalCorrupt, UsageError
from orchestra.core.reading import effect_of, outcome_as
from orchestra.core.records import Event, RunStatus
from orchestra.core.run import RunFolder
from orchestra.core.text import brief
from orchestra.workflows.contracts.effects import Taken, TakeRequest
from orchestra.workflows.contracts.places import Places, project_hash, request_number
from orchestra.workflows.contracts.tracing import TracedRequest
from orchestra.workflows.contracts.workflow import CONTRACTS

_IN_A_ROW = 300  # characters of a request


class ListedRequest(Struct, frozen=True):
    """A request as it is listed."""

    request: str
    state: str
    tasks: str
    cases: str
    runId: str
    text: str


@click.command()
@options.json_of("One JSON object per line.")
@options.project
def requests(as_json: bool, project: Path) -> int:
    """The requests of `orchestra contracts`, with the state that their executed tests show.

    A request is done if the tests of all its test cases passed, and no file that they cover was changed later.

    \b
    orchestra requests
    orchestra trace R1
    """
    app = App(project)
    rows = list(_listed(app))
    if as_json:
        for row in rows:
            print_json(row)
        return 0
    if not rows:
        click.echo(f"no request yet; {CONTRACTS.start} begins one")
        return 0
    heads = ("request", "state", "tasks", "test cases", "run", "what")
    cells = [
        (one.request, one.state, one.tasks, one.cases, one.runId, safe(brief(one.text, _IN_A_ROW))) for one in rows
    ]
    lines = aligned(heads, cells)
    click.echo(click.style(next(lines), dim=True))
    echo_lines(lines)
    return 0


def _listed(app: App) -> Iterator[ListedRequest]:
    runs = _runs(app)
    for name in sorted({*runs, *_folders(app)}, key=lambda name: request_number(name) or 0):
        if name not in runs:
            yield ListedRequest(name, "not run here", "", "", "", "")  # rule 3
            continue
        found = trace_of(app, runs[name])
        cases = [case for subtask in found.subtasks for case in subtask.cases]
        passed = sum(case.evidence is not None and case.evidence.status == "passed" for case in cases)
        done = sum(task.state == "done" for task in found.tasks)
        yield ListedRequest(
            request=name,
            state=state_of(app, runs[name], found),
            tasks=f"{done} of {len(found.tasks)} done",
            cases=f"{passed} of {len(cases)} passed",
            runId=found.runId,
            text=found.text,
        )


def state_of(app: App, folder: RunFolder, found: TracedRequest) -> str:
    """The state of a request, with what its run waits for."""
    status: RunStatus = app.trees.status(folder)
    return f"{found.state}, {status}" if status.startswith("awaiting") else found.state


def run_of(app: App, request: str) -> RunFolder:
    """The newest run of a request (rule 1); UsageError if there is none."""
    runs = _runs(app)
    if request not in runs:
        known = ", ".join(sorted(runs, key=lambda name: request_number(name) or 0)) or "none"
        raise UsageError(f"no run of request {request} here (orchestra requests lists them; there are: {known})")
    return runs[request]


def _runs(app: App) -> dict[str, RunFolder]:
    """The newest run of each request; one that is foreign only if there is no other."""
    found: dict[str, tuple[bool, RunFolder]] = {}
    for folder in app.runs.folders():
        began = app.runs.began(folder)
        if began.workflow != CONTRACTS.name or began.copy:  # rule 4
            continue
        try:
            summary = app.runs.summary(folder, keep=False)
        except JournalCorrupt:
            continue
        request = next(_taken(summary.events), "")
        if request and (request not in found or not summary.foreign or found[request][0]):
            found[request] = (bool(summary.foreign), folder)
    return {request: folder for request, (_, folder) in found.items()}


def _taken(events: Iterable[Event]) -> Iterator[str]:
    """The request ids that a run took: one."""
    for event in events:
        if effect_of(event) == TakeRequest.__name__ and (taken := outcome_as(event, Taken)):
            yield taken.request


def _folders(app: App) -> list[str]:
    folder = app.project.path / Places(project_hash(app.project.path)).contracts
    try:
        return [entry.name for entry in folder.iterdir() if request_number(entry.name)]
    except OSError:
        return []
