"""The command `inspect`: everything about one task of a task graph.

Rules
1. The task is read from the events, because tasks.jsonl may be behind or missing.
2. TASK is a label, an id, or a unique beginning of one. The plan's own tasks come first: if a task is called `run`, the
   name means that task, and the run itself is found by its id.
"""

from __future__ import annotations

import difflib
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from orchestra.app import App
from orchestra.cli import options, which
from orchestra.cli.advice import command, how_to_answer
from orchestra.cli.graph import graph_events
from orchestra.cli.text import echo_lines, print_json, safe
from orchestra.core.cells import table
from orchestra.core.command import typed
from orchestra.core.errors import UsageError
from orchestra.core.localtime import local, local_time
from orchestra.core.records import FINAL, now, seconds_between
from orchestra.core.text import some
from orchestra.runs.find import RunSummary
from orchestra.workflows.dag.board import Board, Entry, record
from orchestra.workflows.dag.flow import command as argv_of
from orchestra.workflows.dag.history import Attempt, artifacts_of, attempts_of, patch_of
from orchestra.workflows.dag.lines import marked
from orchestra.workflows.dag.report import OUTPUT_LINES, board_of, state_word

_COLOURS = {"done": "green", "failed": "red", "running": "yellow"}


@click.command()
@options.run_then("task", "TASK")
@options.json_of("The task's record (schema task), nothing else.")
@options.project
def inspect(run: str | None, task: str, as_json: bool, project: Path) -> int:
    """Everything about one task of the task graph RUN: what it is, did, printed and left, and how each attempt ended.

    TASK is a label, an id, or a unique beginning of one; `run` and `coordinate` are the run itself and its planning.

    \b
    orchestra inspect last tests
    orchestra inspect last tests --json | jq .artifacts
    """
    app = App(project)
    summary = app.runs.summary(which.to_look_at(app, run))
    board = board_of(graph_events(summary))
    entry = _find(board, options.clean(task))
    if board.left_out and entry.level == 3:
        entry.artifacts = artifacts_of(graph_events(summary), entry.label)
    if as_json:  # with the dependencies, which only the first line in tasks.jsonl has
        print_json(msgspec.structs.replace(record(entry), depends_on=entry.planned.depends_on))
        return 0
    echo_lines(_Shown(app, summary, board, entry).lines())
    return 0


def _find(board: Board, reference: str) -> Entry:
    """The task for a reference (rule 2); UsageError if there is none or more than one."""
    wanted = unicodedata.normalize("NFC", reference)  # Hangul may be typed as single letters
    own = board.everyone[: len(board.everyone) - len(board.tasks)]
    everyone = [*board.tasks, *own]
    for entry in everyone:
        if wanted in (unicodedata.normalize("NFC", entry.label), entry.planned.task_id):
            return entry
    matches = [entry for entry in everyone if wanted and _begins(entry, wanted)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        shown = "".join(f"\n  {entry.label}  {entry.planned.task_id}" for entry in matches[:10])
        raise UsageError(f"{reference!r} fits {len(matches)} tasks of run {board.run_id}; give more of it:{shown}")
    labels = [entry.label for entry in everyone]
    near = difflib.get_close_matches(wanted, labels, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {some(labels)}"
    unplanned = "" if board.plans else " (it has no plan yet)"
    raise UsageError(f"run {board.run_id} has no task {reference!r}{unplanned}; {hint}")


def _begins(entry: Entry, wanted: str) -> bool:
    return unicodedata.normalize("NFC", entry.label).startswith(wanted) or entry.planned.task_id.startswith(wanted)


class _Shown:
    """One task, as a person sees it."""

    def __init__(self, app: App, summary: RunSummary, board: Board, entry: Entry) -> None:
        self._app = app
        self._summary = summary
        self._board = board
        self._entry = entry
        self._ended = summary.fold.state.status in FINAL.values()

    def lines(self) -> Iterator[str]:
        entry, colour = self._entry, _COLOURS.get(self._entry.state)
        yield click.style(safe(entry.label), bold=True) + f"  {safe(' '.join(entry.planned.intent.split()))}"
        yield f"  {'state':<10}" + click.style(safe(self._state()), fg=colour)
        for name, value in self._facts():
            yield from marked(f"  {name:<10}", value)
        yield from self._attempts()
        yield from self._log()
        yield from self._artifacts()
        yield from self._output()
        if self._summary.fold.pending:
            yield from ("", *how_to_answer(self._app, self._summary.folder))

    def _state(self) -> str:
        """The state, with the reason if the task did not run or its run is not driven."""
        entry, summary = self._entry, self._summary
        state = state_word(entry, self._board, ended=self._ended)
        if state == "not run":
            missed = [one.label for one in self._before() if one.state != "done"]
            return f"not run: {some(missed)} did not get done" if missed else "not run: the run ended before it began"
        if state == "failed":
            return f"failed: {' '.join(entry.logs[-1].message.split())}"
        if entry.waits_for_gate and not self._ended:
            return f"{state}: its command ended, its changes wait at the gate"
        if state == "running" and not summary.driven:
            if summary.fold.pending:
                return "running, until the run stopped to wait for a person"
            return f"running, until the run was stopped; go on: {command(self._app, 'resume', summary.folder.id)}"
        return state

    def _facts(self) -> Iterator[tuple[str, str]]:
        entry, summary = self._entry, self._summary
        planned, limits, start = entry.planned, entry.planned.constraints, summary.created.ts
        if planned.tools:
            yield "command", typed(argv_of(planned))
        yield from (("with", f"{name}={value}") for name, value in entry.inputs.env.items())
        yield from (("file", f"{file.path}\n{file.content}") for file in entry.inputs.files)
        yield "level", f"L{entry.level}" + (f", below {self._parent()}" if entry.parent else "")
        if planned.depends_on:
            yield "after", ", ".join(map(self._with_state, self._before()))
        if after := [one for one in self._board.tasks if planned.task_id in one.planned.depends_on]:
            yield "before", ", ".join(map(self._with_state, after))
        retries = "1 retry" if limits.max_retries == 1 else f"{limits.max_retries} retries"
        box = f", fs {limits.sandbox.fs}, net {limits.sandbox.net}" if entry.level == 3 else ""
        yield "limits", f"{limits.max_duration_sec:g} s, {retries}{box}"
        yield "created", _moment(entry.created, start)
        if entry.started:
            yield "started", _moment(entry.started, start)
            if entry.completed:
                yield "ended", _moment(entry.completed, start)
            took = f"{seconds_between(entry.started, entry.completed or now()):.1f} s"
            if entry.completed and entry.level == 3:
                yield "took", f"{took}, its command {entry.metrics.duration_ms / 1000:.1f} s"
            elif entry.completed or summary.driven:
                yield "took", took if entry.completed else f"{took} so far"
        if entry.metrics.tokens_used:
            yield "tokens", str(entry.metrics.tokens_used)
        if entry.policy:
            yield "policy", entry.policy
        yield "id", planned.task_id
        yield "run", f"{safe(summary.folder.id)} ({summary.fold.state.status})"
        if patch := patch_of(summary.events, entry.label) if entry.level == 3 else None:
            yield "patch", str(summary.folder.path / patch)

    def _before(self) -> list[Entry]:
        wanted = self._entry.planned.depends_on
        return [entry for entry in self._board.tasks if entry.planned.task_id in wanted]

    def _parent(self) -> str:
        return next(one.label for one in self._board.everyone if one.planned.task_id == self._entry.parent)

    def _with_state(self, entry: Entry) -> str:
        return f"{entry.label} ({state_word(entry, self._board, ended=self._ended)})"

    def _attempts(self) -> Iterator[str]:
        tries = attempts_of(self._summary.events, self._entry.label) if self._entry.level == 3 else []
        if tries:
            yield from ("", "  attempts")
        for attempt in tries:
            first, *more = safe(self._how(attempt)).splitlines()
            yield f"    {attempt.number}  {local_time(attempt.started)}  {first}"
            yield from (f"    {'':<{5 + len(local_time(attempt.started))}}{line}" for line in more)

    def _how(self, attempt: Attempt) -> str:
        if attempt.ended is None:
            over = attempt.cut_off or not self._summary.driven
            return "cut off: its end was not recorded" if over else "goes on"
        took = f"after {seconds_between(attempt.started, attempt.ended):.1f} s"
        if attempt.error is None:
            return f"done {took}" + ("" if attempt.exit_code is None else f", exit code {attempt.exit_code}")
        again = f"; tried again from {local_time(attempt.retry_at)} on" if attempt.retry_at else ""
        return f"failed {took}: {attempt.error}{again}"

    def _log(self) -> Iterator[str]:
        yield from ("", "  log")
        for entry in self._entry.logs:
            first, *more = safe(entry.message).splitlines() or [""]
            colour = {"warn": "yellow", "error": "red"}.get(entry.level)
            yield click.style(f"    {local_time(entry.timestamp)}  {entry.level:<5}  {first}", fg=colour)
            yield from (f"    {'':<{9 + len(local_time(entry.timestamp))}}{line}" for line in more)

    def _artifacts(self) -> Iterator[str]:
        made = self._entry.artifacts
        if made:
            yield from ("", f"  artifacts, in {self._summary.folder.path}")
            rows = [(f"    {safe(one.path)}", str(one.size_bytes), one.checksum) for one in made]
            yield from table(("    path", "bytes", "checksum"), rows, whole=not sys.stdout.isatty())

    def _output(self) -> Iterator[str]:
        shown = safe(self._entry.output).rstrip("\n").splitlines()
        if shown:
            more = f", its last {OUTPUT_LINES} lines" if len(shown) > OUTPUT_LINES else ""
            yield from ("", f"  output{more}", *(f"    | {line}" for line in shown[-OUTPUT_LINES:]))


def _moment(moment: str, start: str) -> str:
    return f"{local(moment)} (+{seconds_between(start, moment):.3f} s)"
