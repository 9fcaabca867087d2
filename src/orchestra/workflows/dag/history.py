"""The history of a task graph, read from its events: what the board does not keep. Pure.

Rules
1. Lines and messages are the board's, in the order of the events that made them.
2. For one event, the lines of the level that sends a message come first, then the message, then the other lines.
3. An attempt without an end was cut off, by a kill or by the end of the run; or it still runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, assert_never

from msgspec import Struct

from orchestra.core.command import typed
from orchestra.core.reading import StepEvent, branch_of, outcome_of
from orchestra.core.records import FINAL, Event, seconds_between
from orchestra.core.text import some
from orchestra.workflows.dag.board import NETWORK_DENIED, Board, Component, Line, Message
from orchestra.workflows.dag.shapes import Assignment, LogLevel, Plan, PlanRequest, TaskArtifact, TaskResult, TaskState


class Moment(Struct, frozen=True, kw_only=True, gc=False):
    """One line of `orchestra trace`: what one level did, or a message to another level."""

    timestamp: str
    since_ms: int  # milliseconds since the run began
    component: Component
    to: Component | None = None  # the receiver of a message
    task_id: str
    label: str  # the label of the task
    kind: Literal["message", "state", "retry", "denial", "log"]
    state: TaskState | None = None  # the task's new state; None for a message
    severity: LogLevel = "info"
    message: str


class Attempt(Struct, frozen=True, gc=False):
    """One attempt of a task's command."""

    number: int
    started: str
    ended: str | None = None
    error: str | None = None  # None: it succeeded, or has not ended
    exit_code: int | None = None
    retry_at: str | None = None
    cut_off: bool = False  # rule 3


def attempts_of(events: Sequence[Event], label: str) -> list[Attempt]:
    """Every attempt of a task of the plan, in order."""
    found: list[Attempt] = []
    begun: Event | None = None
    for event in (e for e in events if e.phase == "execute" and branch_of(e) == label):
        if event.type == "PHASE_STARTED":
            if begun is not None:
                found.append(_attempt(begun, cut_off=True))
            begun = event
        elif event.type in ("PHASE_COMPLETED", "PHASE_FAILED") and begun is not None:
            found.append(_attempt(begun, event))
            begun = None
    return found if begun is None else [*found, _attempt(begun, cut_off=events[-1].type in FINAL)]


def _attempt(begun: Event, ended: Event | None = None, *, cut_off: bool = False) -> Attempt:
    number = StepEvent.of(begun).attempt
    if ended is None:
        return Attempt(number, begun.ts, cut_off=cut_off)
    end = StepEvent.of(ended)
    return Attempt(
        number,
        begun.ts,
        ended.ts,
        error=end.message if end.error else None,
        exit_code=outcome_of(ended).exit_code,
        retry_at=end.retryAt or None,
    )


def patch_of(events: Iterable[Event], label: str) -> str | None:
    """The path, in the run's folder, of the patch with a task's changes."""
    path: str | None = None
    for event in events:
        if event.type == "PATCH_PRODUCED" and branch_of(event) == label:
            patch = outcome_of(event).patch
            path = patch.path if patch else None
    return path


def artifacts_of(events: Iterable[Event], label: str) -> tuple[TaskArtifact, ...]:
    """Every artifact of a task of the plan, by path."""
    found: dict[str, TaskArtifact] = {}
    for event in (e for e in events if e.phase == "execute" and branch_of(e) == label):
        for ref in outcome_of(event).artifacts:
            found[ref.path] = TaskArtifact(ref.path, ref.bytes, ref.sha256)
    return tuple(found.values())


def moments(events: Sequence[Event]) -> Iterator[Moment]:
    """Everything that the three levels did, in order of time."""
    board, teller = Board(room=0), _Teller(events[0].ts)
    for event in events:
        board.add(event)
        lines, messages = board.take(), board.take_messages()
        teller.meet(lines)
        speaker = messages[0].sender if messages else ""
        yield from (teller.line(line) for line in lines if line.component == speaker)  # rule 2
        yield from map(teller.message, messages)
        yield from (teller.line(line) for line in lines if line.component != speaker)


class _Teller:
    """Makes moments from lines and messages; keeps the labels of earlier tasks."""

    def __init__(self, start: str) -> None:
        self._start = start
        self._states: dict[str, TaskState] = {}
        self._labels: dict[str, str] = {}
        self._coordinator = ""

    def meet(self, lines: list[Line]) -> None:
        """Keep the labels of tasks, because messages have only their ids."""
        for line in lines:
            self._labels[line.task_id] = line.label
            if line.component == "L2":
                self._coordinator = line.task_id

    def line(self, line: Line) -> Moment:
        kind: Literal["state", "retry", "denial", "log"] = "log"
        if self._states.get(line.task_id) != line.state:
            kind = "state"
        elif "retryAt" in line.payload:
            kind = "retry"
        elif line.message.startswith(NETWORK_DENIED):
            kind = "denial"
        self._states[line.task_id] = line.state
        return Moment(
            timestamp=line.timestamp,
            since_ms=self._since(line.timestamp),
            component=line.component,
            task_id=line.task_id,
            label=line.label,
            kind=kind,
            state=line.state,
            severity=line.severity,
            message=line.message,
        )

    def message(self, message: Message) -> Moment:
        said = message.message
        task_id = said.task_id if isinstance(said, Assignment | TaskResult) else self._coordinator
        return Moment(
            timestamp=message.timestamp,
            since_ms=self._since(message.timestamp),
            component=message.sender,
            to=message.receiver,
            task_id=task_id,
            label=self._labels[task_id],
            kind="message",
            severity="error" if isinstance(said, TaskResult) and said.state == "failed" else "info",
            message=_said(said),
        )

    def _since(self, moment: str) -> int:
        return round(seconds_between(self._start, moment) * 1000)


def _said(message: PlanRequest | Plan | Assignment | TaskResult) -> str:
    """A message, shortened to one line; messages.jsonl has the whole message."""
    match message:
        case PlanRequest():
            return f"plan request: {message.intent}"
        case Plan():
            return f"plan: {some([task.label for task in message.tasks])}"
        case Assignment():
            return f"assignment: {typed((*message.tools, *message.inputs.args))}"
        case TaskResult():
            exited = "" if message.metrics.exit_code is None else f", exit code {message.metrics.exit_code}"
            return f"result: {message.state}{exited}, {message.metrics.duration_ms / 1000:.1f} s"
    assert_never(message)
