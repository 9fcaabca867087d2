"""S1's vocabulary: phases, roles, event types, the event and the state. All workflows use it (D-02).

Field names are the contract's own (camelCase, S1-04), so a record is its JSON. Optional fields are absent, not null,
where the contract marks them with `?`; `currentPhase` and `lastEventId` are the two that are null (S1-43, S1-46).
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Literal, get_args

from msgspec import UNSET, Meta, Struct, UnsetType

Phase = Literal["plan", "execute", "evaluate", "fix", "ask"]  # S1-07
Role = Literal["planner", "developer", "evaluator", "fixer"]  # S1-08
OnAsk = Literal["park", "default"]  # of a question, if nobody here can answer: wait for a person, or take its default
RunStatus = Literal["created", "running", "awaiting_approval", "awaiting_input", "completed", "failed", "canceled"]
EventType = Literal[  # S1-52: exactly these 18
    "RUN_CREATED",
    "PHASE_STARTED",
    "PHASE_COMPLETED",
    "PHASE_FAILED",
    "PATCH_PRODUCED",
    "APPROVAL_REQUESTED",
    "APPROVAL_GRANTED",
    "APPROVAL_REJECTED",
    "PATCH_APPLIED",
    "PATCH_APPLY_FAILED",
    "EVALUATION_PASSED",
    "EVALUATION_FAILED_FIXABLE",
    "EVALUATION_FAILED_BLOCKED",
    "QUESTION_RAISED",
    "QUESTION_ANSWERED",
    "RUN_COMPLETED",
    "RUN_FAILED",
    "RUN_CANCELED",
]
EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)
PHASES: tuple[Phase, ...] = get_args(Phase)
INTENTS = frozenset(
    {"PHASE_STARTED", "APPROVAL_REQUESTED", "QUESTION_RAISED"}
)  # all other events of a step are outcomes
FINAL: dict[str, RunStatus] = {"RUN_COMPLETED": "completed", "RUN_FAILED": "failed", "RUN_CANCELED": "canceled"}

# S1-01: always UTC, always `Z`.
_TIME, _TIMES = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$", ["2026-02-14T12:34:56Z"]
Time = Annotated[str, Meta(pattern=_TIME, examples=_TIMES)]
# The same in the schema, but not checked when an event is decoded: the check took as long as all the rest. For lines
# of unknown origin, core/lines.py checks it with `is_time`.
EventTime = Annotated[str, Meta(extra_json_schema={"pattern": _TIME, "examples": _TIMES})]
is_time = re.compile(_TIME).fullmatch
Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}$")]


def utc(moment: datetime) -> str:
    """A moment in the format of all files of a run (S1-01), to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now() -> str:
    """The current time in the format of all files of a run."""
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    return f"{_second(seconds)}.{str(milliseconds).zfill(3)}Z"


@lru_cache(maxsize=1)  # most events have the same second as the one before
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def seconds_between(start: str, end: str) -> float:
    """The seconds from one written moment to another."""
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def clock(moment: str, seen_from: str) -> str:
    """A written moment for people: the time of day, and the date if it is another day."""
    return moment[11:19] if moment[:10] == seen_from[:10] else f"{moment[:10]} {moment[11:19]}"


def utf8(text: str) -> bytes:
    """Text as UTF-8 bytes. A lone surrogate (half an emoji in a model's JSON) becomes `?`."""
    return text.encode("utf-8", "replace")


class Event(Struct, frozen=True, omit_defaults=True, gc=False):  # gc=False: never in a reference cycle
    """One line of events.ndjson (S1-53 … S1-59)."""

    id: str
    runId: str
    ts: EventTime
    type: EventType
    payload: dict[str, Any]
    phase: Phase | UnsetType = UNSET
    iteration: int | UnsetType = UNSET


class GitFacts(Struct, frozen=True):
    """The repository as a run began in it: the branch, its commit, and how many tracked files had other changes."""

    commit: str = ""
    branch: str = ""
    uncommitted: int = 0


class ErrorInfo(Struct, frozen=True):
    """`lastError` (S1-51)."""

    code: str
    message: str


class WorkflowState(Struct, frozen=True, kw_only=True):
    """state.json: one snapshot, the newest (S1-41 … S1-51). Derived from the journal (D-01)."""

    runId: str
    status: RunStatus
    currentPhase: Phase | None
    iteration: int
    maxFixIterations: int
    lastEventId: str | None
    createdAt: Time
    updatedAt: Time
    pendingApprovalId: str | UnsetType = UNSET
    pendingQuestionId: str | UnsetType = UNSET
    lastError: ErrorInfo | UnsetType = UNSET


class ArtifactRef(Struct, frozen=True):
    """A file of the run, written and synced before the event that names it (D-04).

    An empty file may be missing after a power cut; nothing is lost by that.
    """

    path: str
    bytes: int
    sha256: Digest


class Finding(Struct, frozen=True):
    """One broken requirement."""

    requirement: str
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.requirement}  {self.where}: {self.message}"
