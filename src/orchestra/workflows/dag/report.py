"""Makes report.md and metrics.json of a task graph from its events (S2-06, S2-133, F2-06, F2-07).

The report needs no model; the summarizer's text is one section of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from orchestra.core.calls import PastCall, calls_in
from orchestra.core.files import MIB
from orchestra.core.reading import RunCreated, StepEvent
from orchestra.core.records import FINAL, Event, seconds_between
from orchestra.core.text import cell, clean
from orchestra.policy.binding import containment, tiers_of
from orchestra.workflows import bill
from orchestra.workflows.dag.board import Board, Entry, record
from orchestra.workflows.report import Reported

ROOM = 40 * MIB  # for at least 80,000 artifacts
OUTPUT_LINES = 20  # of a failed task's output
GRAPH_TASKS = 150  # Mermaid draws no more than that readably
_CLASSES = {"done": "done", "failed": "failed", "running": "running", "planned": "notrun", "blocked": "notrun"}


def report(run: Reported) -> Iterator[str]:
    """report.md of a run."""
    return render(run, _board(run))


def metrics(run: Reported) -> bytes:
    """metrics.json of a run that ends."""
    figures = msgspec.json.encode(_metrics(_board(run), seconds_between(run.events[0].ts, run.until)))
    return msgspec.json.format(figures) + b"\n"


def _board(run: Reported) -> Board:
    board = board_of(run.whole)
    if run.ended:
        board.stop(run.until, run.message or run.status)  # no task is running any more
    return board


def board_of(events: Iterable[Event]) -> Board:
    """The board after these events, without lines and messages."""
    board = Board(tells=False, room=ROOM)
    for event in events:
        board.add(event)
        board.take_messages()
    return board


def render(run: Reported, board: Board) -> Iterator[str]:
    """The report as lines of Markdown."""
    first, events, status, ended = run.events[0], run.events, run.status, run.until
    created = RunCreated.of(first)
    counts = _counts(board)
    over = "completed" if status in FINAL.values() else "last event"
    message = run.message or ("dry run: nothing was run" if is_dry(board) else "")
    yield from (
        f"# {cell(created.goal or first.runId)}",
        "",
        f"- run: `{clean(first.runId)}` (dag)",
        f"- status: **{status}**" + (f" — {cell(message)}" if message else ""),
        f"- started {first.ts}, {over} {ended}, duration {seconds_between(first.ts, ended):.1f} s",
        *containment(created, tiers_of(events)),
        "",
        "## Task Summary",
        "",
        "| input | planned | succeeded | failed | not run | retried |",
        "|---|---|---|---|---|---|",
        f"| {cell(created.goal)} | {len(board.tasks)} | {counts['done']} "
        f"| {counts['failed']} | {counts['not run'] + counts['dry run']} "
        f"| {sum(entry.retries > 0 for entry in board.tasks)} |",
        "",
        *_summary(board, events),
        "## Task Details",
        "",
        "| ID | Description | Tools | State | Attempts | Duration | Exit |",
        "|---|---|---|---|---|---|---|",
        *(_row(entry, board) for entry in board.tasks),
        "",
        *_graph(board),
        *_failures(board),
        *_artifacts(board),
        *_model_calls(calls_in(run.folder, events)),
        *_metrics_lines(board, seconds_between(first.ts, ended)),
        "## Logs",
        "",
        "- `events.ndjson`, `tasks.jsonl`, `messages.jsonl`, `logs/`",
        *(f"- {cell(entry.label)}: {cell(entry.logs[-1].message)}" for entry in board.tasks if entry.state == "failed"),
    )


def is_dry(board: Board) -> bool:
    """Whether this is a dry run, in which no command runs."""
    return board.job is not None and board.job.dry


def _counts(board: Board) -> Counter[str]:
    return Counter(state_word(entry, board) for entry in board.tasks)


def _metrics(board: Board, seconds: float) -> dict[str, Any]:
    ran = [entry for entry in board.tasks if entry.started and not is_dry(board)]
    return {
        "total_duration_ms": round(seconds * 1000),
        "tasks_total": len(board.tasks),
        "tasks_succeeded": _counts(board)["done"],
        "tasks_failed": sum(entry.state == "failed" for entry in board.tasks),
        "tasks_not_run": len(board.tasks) - len(ran),
        "tasks_retried": sum(entry.retries > 0 for entry in board.tasks),
        "avg_task_duration_ms": round(sum(entry.metrics.duration_ms for entry in ran) / len(ran)) if ran else 0,
        "total_tokens_used": sum(entry.metrics.tokens_used or 0 for entry in board.everyone),
        "artifacts_total_bytes": sum(a.size_bytes for entry in board.tasks for a in entry.artifacts)
        + board.left_out_bytes,
        "tasks": [_task_metrics(entry) for entry in board.tasks],
    }


def _task_metrics(entry: Entry) -> dict[str, Any]:
    task = record(entry)
    return {
        "task_id": task.task_id,
        "label": task.label,
        "state": task.state,
        "retries": task.retries,
        "duration_ms": task.metrics.duration_ms,
        "exit_code": task.metrics.exit_code,
        "artifacts_bytes": sum(artifact.size_bytes for artifact in task.artifacts),
    }


def _summary(board: Board, events: Iterable[Event]) -> list[str]:
    if board.summary:
        return ["## Summary", "", clean(board.summary).strip(), ""]
    why = "none: no summarizer was asked"
    for event in events:
        if event.type == "PHASE_FAILED" and event.phase == "evaluate":
            why = f"none: {StepEvent.of(event).message}"
    return ["## Summary", "", cell(why), ""]


def _row(entry: Entry, board: Board) -> str:
    took = f"{entry.metrics.duration_ms / 1000:.1f} s" if entry.started else ""
    code = "" if entry.metrics.exit_code is None else str(entry.metrics.exit_code)
    task = entry.planned
    cells = (
        task.label,
        task.intent,
        " ".join(task.tools),
        state_word(entry, board),
        str(entry.attempts or ""),
        took,
        code,
    )
    return "| " + " | ".join(map(cell, cells)) + " |"


def state_word(entry: Entry, board: Board, *, ended: bool = True) -> str:
    """A task's state for the report: a task that never began is "not run" once the run has ended (G2-1)."""
    if entry.level == 3 and entry.state == "done" and is_dry(board):
        return "dry run"
    return "not run" if ended and entry.state in ("planned", "blocked") else entry.state


def _graph(board: Board) -> list[str]:
    """The DAG with its states, as GitHub and others draw it (Mermaid)."""
    tasks = board.tasks[:GRAPH_TASKS]
    names = {entry.planned.task_id: f"t{number}" for number, entry in enumerate(tasks, start=1)}
    lines = ["## Graph", "", "```mermaid", "graph TD"]
    for entry in tasks:
        name, shown = names[entry.planned.task_id], f"{_mermaid(entry.label)}<br/>{state_word(entry, board)}"
        look = "notrun" if is_dry(board) else _CLASSES[entry.state]
        lines.append(f'  {name}["{shown}"]:::{look}')
    lines += [
        f"  {names[earlier]} --> {names[entry.planned.task_id]}"
        for entry in tasks
        for earlier in entry.planned.depends_on
        if earlier in names
    ]
    lines += [
        "  classDef done fill:#d4edda,stroke:#28a745",
        "  classDef failed fill:#f8d7da,stroke:#dc3545",
        "  classDef running fill:#fff3cd,stroke:#ffc107",
        "  classDef notrun fill:#e2e3e5,stroke:#6c757d",
        "```",
        "",
    ]
    if len(board.tasks) > len(tasks):
        lines += [f"The first {len(tasks)} of {len(board.tasks)} tasks; `plan.json` has them all.", ""]
    return lines


def _failures(board: Board) -> list[str]:
    failed = [entry for entry in board.tasks if entry.state == "failed"]
    lines = ["## Failures", ""] if failed else []
    for entry in failed:
        lines += [f"### {cell(entry.label)}", "", cell(entry.logs[-1].message), ""]
        if entry.output.strip():
            shown = clean(entry.output).splitlines()[-OUTPUT_LINES:]
            lines += ["", *(f"    {line}" for line in shown), ""]  # indented, because the output might close a fence
    return lines


def _artifacts(board: Board) -> list[str]:
    made = [artifact for entry in board.tasks for artifact in entry.artifacts]
    rows = [f"| `{cell(artifact.path)}` | {artifact.size_bytes} | `{artifact.checksum}` |" for artifact in made]
    if board.left_out:
        rows.append(f"| and {board.left_out} more: `events.ndjson` names them all | {board.left_out_bytes} | |")
    return ["## Artifacts", "", *(("| path | bytes | checksum |", "|---|---|---|", *rows) if rows else ("none",)), ""]


def _model_calls(calls: list[PastCall]) -> list[str]:
    return ["## Model calls", "", bill.headline(calls), "", *bill.table(calls), ""] if calls else []


def _metrics_lines(board: Board, seconds: float) -> list[str]:
    figures = _metrics(board, seconds)
    return ["## Metrics", "", *(f"- {name}: {value}" for name, value in figures.items() if name != "tasks"), ""]


def _mermaid(text: str) -> str:
    return clean(text).replace('"', "'").replace("<", "‹").replace("[", "(").replace("]", ")")
