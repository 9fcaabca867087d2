"""The trace of a request: gathered from its tree of runs, its contracts and the project's files; as lines and records.

What follows from what is decided in workflows/contracts/tracing.py. Here files and journals are read, and lines made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from orchestra.app import App
from orchestra.core.errors import ContractError, OddFile
from orchestra.core.files import MIB, read_below
from orchestra.core.reading import effect_of, outcome_as, outcome_of, scope_of
from orchestra.core.run import RunFolder
from orchestra.core.text import brief
from orchestra.core.work import PatchProposal, TakeBack
from orchestra.runs.patches import applied
from orchestra.workflows.contracts import documents
from orchestra.workflows.contracts.hunks import TracedHunk, hunks_of
from orchestra.workflows.contracts.places import TESTS, Places, project_hash
from orchestra.workflows.contracts.progress import Progress
from orchestra.workflows.contracts.records import TestContract
from orchestra.workflows.contracts.rules import Ids
from orchestra.workflows.contracts.tracing import (
    Change,
    Kind,
    Traced,
    TracedCase,
    TracedRequest,
    target_of,
)

_MOST_FILE = 64 * MIB
_IN_A_LINE = 300  # characters of a request


def trace_of(app: App, folder: RunFolder) -> TracedRequest:
    """The trace of a run's request."""
    summary = app.runs.summary(folder)
    progress = Progress.of(summary.events)
    project = app.project.path
    traced = Traced(folder.id, summary.events, _contracts(project, progress), _changes(app, folder), _digests(project))
    return traced.request()


def _contracts(project: Path, progress: Progress) -> dict[str, TestContract]:
    """The test contracts on disk, by subtask; one that cannot be read is left out."""
    places, found = Places(project_hash(project)), {}
    for task in progress.tasks.values():
        for subtask in task.subtasks:
            ids = Ids(progress.request, task.id, subtask)
            try:
                data = read_below(project, places.subtask(progress.request, subtask, TESTS), documents.MOST_BYTES)
                found[subtask] = documents.read(data.decode(), TestContract, TESTS, ids=ids)
            except (OSError, OddFile, UnicodeDecodeError, ContractError):
                continue
    return found


def _changes(app: App, folder: RunFolder) -> list[Change]:
    """The applied patches of a run's tree, in order."""
    events = list(app.trees.events(app.trees.members(folder)))
    proposed: dict[tuple[str, str], PatchProposal] = {}
    patches = applied(events, copy=app.runs.began(folder).copy)
    found: list[Change] = []
    for one in events:
        event, place = one.event, (one.member.folder.id, scope_of(one.event))
        if event.type == "PATCH_PRODUCED" and (proposal := outcome_as(event, PatchProposal)):
            proposed[place] = proposal
        elif event.type == "PATCH_APPLIED":
            diff = next(patches).diff
            keys = (*one.member.path, scope_of(event))
            taken_back = effect_of(event) == TakeBack.__name__
            kind: Kind = "taken back" if taken_back else "implementation" if one.member.path else "tests"
            files = {file.path for file in outcome_of(event).applied}
            digests = {file.path: file.after for file in proposed[place].files} if place in proposed else {}
            after = {path: None if taken_back else digests.get(path) for path in files}
            hunks = hunks_of(diff) if not taken_back else ()
            found.append(Change(one.member.folder.id, event.id, event.ts, target_of(keys), kind, hunks, after))
    return found


def _digests(project: Path) -> Callable[[str], str | None]:
    """A function that gives the digest of a file of the project, each read once."""
    known: dict[str, str | None] = {}

    def now(path: str) -> str | None:
        if path not in known:
            try:
                known[path] = f"sha256:{hashlib.sha256(read_below(project, path, _MOST_FILE)).hexdigest()}"
            except (OSError, OddFile):
                known[path] = None
        return known[path]

    return now


def lines_of(found: TracedRequest, state: str) -> Iterator[str]:
    """The trace for people: request, task, subtask, test case, test run, hunks."""
    yield f"{found.id} {state}: {brief(found.text, _IN_A_LINE)}  (run {found.runId})"
    for task in found.tasks:
        yield f"  {task.id} {task.state}: {task.name}"
        for subtask in task.subtasks:
            red = {True: "", False: ", its tests passed before the implementation: they prove nothing", None: ""}
            yield f"    {subtask.id} {subtask.state}{red[subtask.red]}: {subtask.name}"
            for case in subtask.cases:
                yield from _case_lines(case)
            yield from (f"      {line}" for line in subtask.proof)
            for change in subtask.changes:
                yield f"      {change.kind} (run {change.runId}, event {change.event}, {change.at})"
                yield from (f"        {_hunk(hunk)}" for hunk in change.hunks)


def _case_lines(case: TracedCase) -> Iterator[str]:
    evidence = case.evidence
    if evidence is None:
        yield f"      {case.id} not run: {case.name}"
        return
    stale = f", stale: {evidence.stale}" if evidence.stale else ""
    yield f"      {case.id} {evidence.status}{stale}: {case.name}"
    tree = evidence.tree.removeprefix("sha256:")[:12] or "unknown"
    yield f"        {evidence.command}: exit code {evidence.exitCode}, files {tree}, {evidence.at}"


def _hunk(hunk: TracedHunk) -> str:
    return f"{hunk.path}:{hunk.first}-{hunk.last} +{hunk.added} -{hunk.removed}"


def backward_lines(found: TracedRequest, path: str, line: int | None) -> Iterator[str]:
    """From a place in a file back to the request: hunk, subtask, its test cases, task."""
    for task in found.tasks:
        for subtask in task.subtasks:
            for change in subtask.changes:
                for hunk in change.hunks:
                    if _is_at(hunk, path, line):
                        yield f"{_hunk(hunk)}  {change.kind} (run {change.runId}, event {change.event})"
                        yield f"  {subtask.id} {subtask.state}: {subtask.name}"
                        for case in subtask.cases:
                            yield from (text[2:] for text in _case_lines(case))
                        yield f"    {task.id} {task.state}: {task.name}"
                        yield f"      {found.id}: {brief(found.text, _IN_A_LINE)}"


def records_of(found: TracedRequest, path: str = "", line: int | None = None) -> Iterator[dict[str, Any]]:
    """The trace for programs: one record per test case and per hunk, each with all ids above it.

    With a path only its hunks, and with a line only those that have it.
    """
    for task in found.tasks:
        for subtask in task.subtasks:
            above = {"request": found.id, "task": task.id, "subtask": subtask.id, "state": subtask.state}
            for case in subtask.cases if not path else ():
                yield {"type": "case", **above, "case": case.id, "name": case.name, "evidence": case.evidence}
            for change in subtask.changes:
                made = {"kind": change.kind, "runId": change.runId, "event": change.event, "at": change.at}
                cases = [case.id for case in subtask.cases]
                for hunk in change.hunks:
                    if path and not _is_at(hunk, path, line):
                        continue
                    yield {"type": "hunk", **above, "cases": cases, **made, "hunk": hunk}


def _is_at(hunk: TracedHunk, path: str, line: int | None) -> bool:
    return hunk.path == path and (line is None or hunk.first <= line <= hunk.last)
