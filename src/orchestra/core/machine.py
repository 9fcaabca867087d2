"""Transition tables and the fold: what may happen next, and what the run is now.

Rules
1. A table is data: state → trigger → state. A trigger is an event type, with the phase for the PHASE_ events
   (`PHASE_STARTED plan`). The table is asked before a byte is written; an illegal event cannot be recorded (S1-73).
2. Each workflow owns its table. Docs and viewers draw from it.
3. The fold from events to `WorkflowState` is one function for all workflows, because the vocabulary is one (D-02).
4. Both are pure: the same events give the same state, on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType

from orchestra.core.errors import IllegalEvent
from orchestra.core.records import FINAL, ErrorInfo, Event, EventType, Phase, RunStatus, WorkflowState

T = TypeVar("T")


def trigger(type: EventType, phase: Phase | UnsetType = UNSET) -> str:
    """The name under which a table knows an event."""
    return f"{type} {phase}" if type.startswith("PHASE_") and phase is not UNSET else type


class Table(Struct, frozen=True):
    """A workflow's transition table. `start` is the state before RUN_CREATED."""

    name: str
    start: str
    edges: Mapping[str, Mapping[str, str]]

    def next(self, state: str, type: EventType, phase: Phase | UnsetType = UNSET) -> str:
        """The state after this event, or IllegalEvent naming what was possible."""
        target = self.edges[state].get(trigger(type, phase))
        if target is None:
            legal = ", ".join(self.edges[state]) or "nothing: the run is final"
            raise IllegalEvent(
                f"workflow {self.name}: {trigger(type, phase)} cannot follow in state {state!r} (possible: {legal})"
            )
        return target


_STATUS: dict[EventType, RunStatus] = {
    "RUN_CREATED": "created",
    "APPROVAL_REQUESTED": "awaiting_approval",  # S1-78
    "QUESTION_RAISED": "awaiting_input",  # S1-65
    "RUN_COMPLETED": "completed",
    "RUN_FAILED": "failed",
    "RUN_CANCELED": "canceled",
}


class Fold:
    """The running summary of a journal: what `state.json` shows, plus every open request to a person."""

    def __init__(self) -> None:
        self._state: WorkflowState | None = None
        self.pending: dict[str, Event] = {}  # open approvals and questions by their id, oldest first
        self.events = 0

    def add(self, event: Event) -> None:
        """Take one more event into the summary."""
        self.events += 1
        payload = event.payload
        if event.type == "APPROVAL_REQUESTED":
            self.pending[str(payload.get("approvalId", event.id))] = event
        elif event.type == "QUESTION_RAISED":
            self.pending[str(payload.get("questionId", event.id))] = event
        elif event.type in ("APPROVAL_GRANTED", "APPROVAL_REJECTED"):
            self._answered("APPROVAL_REQUESTED", payload.get("approvalId"))
        elif event.type == "QUESTION_ANSWERED":
            self._answered("QUESTION_RAISED", payload.get("questionId"))
        elif event.type in FINAL:
            self.pending.clear()
        self._state = self._next(event, payload)

    def _answered(self, kind: EventType, name: str | None) -> None:
        if name is None:  # an automatic grant (C-19), or a journal that names no ids: then the oldest is meant
            name = next((n for n, e in self.pending.items() if e.type == kind), "")
        self.pending.pop(name, None)

    def _next(self, event: Event, payload: dict[str, Any]) -> WorkflowState:
        before = self._state
        error = payload.get("error")
        approvals = [i for i, e in self.pending.items() if e.type == "APPROVAL_REQUESTED"]
        questions = [i for i, e in self.pending.items() if e.type == "QUESTION_RAISED"]
        status: RunStatus = _STATUS.get(event.type, "running")
        if status == "running" and self.pending:  # another branch works, but a person is needed
            status = "awaiting_approval" if approvals else "awaiting_input"
        return WorkflowState(
            runId=event.runId,
            status=status,
            currentPhase=None if event.type in FINAL else _kept(event.phase, before.currentPhase if before else None),
            iteration=_kept(event.iteration, before.iteration if before else 1),
            maxFixIterations=before.maxFixIterations if before else int(payload.get("maxFixIterations", 3)),  # S1-45
            lastEventId=event.id,
            createdAt=before.createdAt if before else event.ts,
            updatedAt=event.ts,
            pendingApprovalId=approvals[0] if approvals else UNSET,
            pendingQuestionId=questions[0] if questions else UNSET,
            lastError=_error(error) if error else (before.lastError if before else UNSET),
        )

    @property
    def state(self) -> WorkflowState:
        """The newest snapshot; a run without RUN_CREATED has none."""
        if self._state is None:
            raise IllegalEvent("the run has no RUN_CREATED event: it was never started")
        return self._state


def _kept(value: T | UnsetType, otherwise: T) -> T:
    return otherwise if isinstance(value, UnsetType) else value


def _error(error: Mapping[str, Any]) -> ErrorInfo:
    return ErrorInfo(code=str(error.get("code", "UNKNOWN")), message=str(error.get("message", "")))
