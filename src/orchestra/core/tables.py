"""Transition tables and the fold: which event may come next, and the current state of a run.

Rules
1. A table is data: state → trigger → state. A trigger is an event type, with the phase for the PHASE_ events
   (`PHASE_STARTED plan`). The table is checked before a byte is written, so an illegal event cannot be recorded
   (S1-73).
2. Each workflow has its own table. Docs and viewers draw from it.
3. The fold from events to `WorkflowState` is one function for all workflows, because all use the same events (D-02).
4. What waits below an edition that was replaced (core/newest.py) waits no more: its requests are withdrawn, its child
   runs are to be ended.
5. Both are pure: the same events give the same state, on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TypeVar

from msgspec import UNSET, Struct, UnsetType

from orchestra.core.changing import change_in
from orchestra.core.errors import IllegalEvent
from orchestra.core.newest import NUMBERED, Newest
from orchestra.core.records import (
    EVENT_TYPES,
    FINAL,
    PHASES,
    ErrorInfo,
    Event,
    EventType,
    Phase,
    RunStatus,
    WorkflowState,
)

T = TypeVar("T")


@cache  # there are only a hundred names, and every event needs one
def trigger(type: EventType, phase: Phase | UnsetType = UNSET) -> str:
    """The name of an event in a table."""
    return f"{type} {phase}" if type.startswith("PHASE_") and phase is not UNSET else type


class Table(Struct, frozen=True):
    """A workflow's transition table. `start` is the state before RUN_CREATED."""

    name: str
    start: str
    edges: Mapping[str, Mapping[str, str]]

    @classmethod
    def of(cls, name: str, edges: Mapping[str, Mapping[str, str]]) -> Table:
        """A workflow's table from its own edges: a run may fail or be canceled in every state that is not final."""
        ended = {"new", "completed", "failed", "canceled"}
        ends = {"RUN_FAILED": "failed", "RUN_CANCELED": "canceled"}
        return cls(name, "new", {state: on if state in ended else {**on, **ends} for state, on in edges.items()})

    @classmethod
    def any(cls, name: str) -> Table:
        """A table that allows any step at any time: for a workflow without a table of its own."""
        steps = {trigger(type, phase): "open" for type in EVENT_TYPES if type != "RUN_CREATED" for phase in PHASES}
        ends = dict.fromkeys(FINAL, "ended")
        return cls(name, "new", {"new": {"RUN_CREATED": "open"}, "open": {**steps, **ends}, "ended": {}})

    def next(self, state: str, type: EventType, phase: Phase | UnsetType = UNSET) -> str:
        """The state after this event; IllegalEvent, with the allowed events, if the table forbids it."""
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


_STEPS = ("PHASE_STARTED", "PHASE_COMPLETED")


class Fold:
    """The running summary of a journal: what `state.json` shows, plus every open request to a person."""

    def __init__(self) -> None:
        self.pending: dict[str, Event] = {}  # open approvals and questions by their id, oldest first
        self.children: dict[str, tuple[str, str]] = {}  # open child runs by step: workflow and id
        self.withdrawn: dict[str, Event] = {}  # requests of replaced editions, by their id (rule 4)
        self.replaced: dict[str, tuple[str, str]] = {}  # child runs of replaced editions by step, as in `children`
        self.newest = Newest()
        self.changes = 0  # grows when more than the last event's id and time changed
        self._created = ""
        self._last: Event | None = None
        self._seen: tuple[RunStatus, Phase | None, int] = ("created", None, 1)
        self._error: ErrorInfo | UnsetType = UNSET
        self._most_fixes = 3  # S1-45
        self._steady: object = None  # the phase and iteration in which further steps change nothing visible

    @classmethod
    def of(cls, events: Iterable[Event]) -> Fold:
        """The summary of a whole journal."""
        fold = cls()
        for event in events:
            fold.add(event)
        return fold

    def add(self, event: Event) -> None:
        """Add one event to the summary."""
        self._last = event
        payload = event.payload
        if event.type == "RUN_CREATED" or "changed" in payload:
            self._note_limit(event)
        waited = len(self.pending)
        if "childRunId" in payload:
            key = payload.get("key", "")
            self.children[key] = (payload.get("workflow", ""), payload["childRunId"])
            self.newest.opened(key, key)
        elif self.children:
            self.children.pop(payload.get("key", ""), None)
        if payload.get("effect") in NUMBERED:
            self._note_edition(event)
        if (event.phase, event.iteration) == self._steady and "error" not in payload and event.type in _STEPS:
            return  # the most frequent case: another step of the current phase
        self._created = self._created or event.ts
        self._note_requests(event)
        if error := payload.get("error"):
            self._error = ErrorInfo(code=str(error.get("code", "UNKNOWN")), message=str(error.get("message", "")))
        _, phase, iteration = self._seen
        phase = None if event.type in FINAL else _kept(event.phase, phase)
        seen = (self._status(event), phase, _kept(event.iteration, iteration))
        if seen != self._seen or error or waited != len(self.pending):
            self._seen = seen
            self.changes += 1
        self._steady = (event.phase, event.iteration) if seen[0] == "running" else None

    def _note_limit(self, event: Event) -> None:
        """Note how many fixes the run may make: when it begins, and when a person changes it."""
        said = change_in(event) if "changed" in event.payload else event.payload
        limit = said.get("maxFixIterations")
        if isinstance(limit, int) and limit != self._most_fixes:
            self._most_fixes = limit
            self.changes += 1

    def _note_requests(self, event: Event) -> None:
        payload = event.payload
        match event.type:
            case "APPROVAL_REQUESTED":
                self._asked(str(payload.get("approvalId", event.id)), event)
            case "QUESTION_RAISED":
                self._asked(str(payload.get("questionId", event.id)), event)
            case "APPROVAL_GRANTED" if payload.get("effect") == "AutoApprove":
                pass  # the policy's own grant answers no request (C-19)
            case "APPROVAL_GRANTED" | "APPROVAL_REJECTED":
                self._answered("APPROVAL_REQUESTED", payload.get("approvalId"))
            case "QUESTION_ANSWERED":
                self._answered("QUESTION_RAISED", payload.get("questionId"))
            case "RUN_COMPLETED" | "RUN_FAILED" | "RUN_CANCELED":
                self.pending.clear()
                self.children.clear()

    def is_withdrawn(self, request: Event) -> bool:
        """Whether this request of a step was withdrawn (rule 4)."""
        return any(one is request for one in self.withdrawn.values())

    def _asked(self, name: str, event: Event) -> None:
        self.pending[name] = event
        self.withdrawn.pop(name, None)
        self.newest.opened(str(event.payload.get("key", "")), name)

    def _note_edition(self, event: Event) -> None:
        """Withdraw what an edition replaces, or a changed file makes doubtful (rule 4), if it is still open."""
        for name, key in self.newest.note(event):
            self._withdraw(name, key)
            if name in self.children:
                self.replaced[name] = self.children.pop(name)
        for name, key in self.newest.doubted(event):
            self._withdraw(name, key)

    def _withdraw(self, name: str, key: str) -> None:
        if name in self.pending and self.pending[name].payload.get("key") == key:
            self.withdrawn[name] = self.pending.pop(name)

    def _answered(self, kind: EventType, name: str | None) -> None:
        if name is None:  # a journal without ids: the oldest request is meant
            name = next((n for n, e in self.pending.items() if e.type == kind), "")
        self.pending.pop(name, None)

    def _status(self, event: Event) -> RunStatus:
        status = _STATUS.get(event.type, "running")
        if status == "running" and self.pending:  # another branch works, but one waits for a person
            return "awaiting_approval" if self._oldest("APPROVAL_REQUESTED") else "awaiting_input"
        return status

    def _oldest(self, kind: EventType) -> str | None:
        return next((name for name, event in self.pending.items() if event.type == kind), None)

    @property
    def state(self) -> WorkflowState:
        """The current state. There is none before RUN_CREATED."""
        if self._last is None:
            raise IllegalEvent("the run has no RUN_CREATED event: it was never started")
        status, phase, iteration = self._seen
        return WorkflowState(
            runId=self._last.runId,
            status=status,
            currentPhase=phase,
            iteration=iteration,
            maxFixIterations=self._most_fixes,
            lastEventId=self._last.id,
            createdAt=self._created,
            updatedAt=self._last.ts,
            pendingApprovalId=self._oldest("APPROVAL_REQUESTED") or UNSET,
            pendingQuestionId=self._oldest("QUESTION_RAISED") or UNSET,
            lastError=self._error,
        )


def _kept(value: T | UnsetType, otherwise: T) -> T:
    return otherwise if isinstance(value, UnsetType) else value
