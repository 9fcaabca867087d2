"""The other files of S3's storage: session.json, state.json of a request, knowledge.yaml. Records only.

They follow the storage document (S3-141, section 5/S3 of docs/spec): `session.json` and `knowledge.yaml` lie in
`sessions/<hash>/`, `state.json` in `contracts/<R>/`. All three are made from events and never read back by a flow; the
state words are S3's own (C-05).
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from orchestra.workflows.contracts.records import Moment, RequestId, SubtaskId, TaskId, Text

SessionStatus = Literal["active", "completed", "stopped"]
GlobalPhase = Literal["global_discovery", "task_loop", "complete"]
TaskStatus = Literal["pending", "in_progress", "completed"]
SubtaskStatus = Literal["pending", "in_progress", "completed", "failed"]
SubtaskPhase = Literal["test_first", "implementation", "verification", "complete"]
Gate = Literal["GATE-1", "GATE-2", "GATE-3", "GATE-4"]
GateStatus = Literal["pending", "passed", "failed"]
GATES: tuple[Gate, ...] = ("GATE-1", "GATE-2", "GATE-3", "GATE-4")


class SessionProject(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The project of a session."""

    path: Text
    name: str
    hash: Text


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Paths of the project's rules for agents; None where there is no such file."""

    claude_md: str | None
    agents_md: str | None


class Session(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`session.json`: the project, and the request that is worked on."""

    version: Literal[1]
    project: SessionProject
    status: SessionStatus
    current_task: str | None
    created_at: Moment
    updated_at: Moment
    manifest: Manifest


class RequestState(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a request has come."""

    id: RequestId
    original_request: Text
    status: SessionStatus
    current_task: TaskId | None
    global_phase: GlobalPhase


class SubtaskState(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a subtask has come, and its gates."""

    name: str
    status: SubtaskStatus
    phase: SubtaskPhase
    gates: dict[Gate, GateStatus]


class ContractTaskState(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a task has come."""

    name: str
    status: TaskStatus
    current_subtask: SubtaskId | None
    subtasks: dict[SubtaskId, SubtaskState]
    subtask_order: tuple[SubtaskId, ...]


class ContractState(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`state.json` of a request, version 2."""

    version: Literal[2]
    request: RequestState
    tasks: dict[TaskId, ContractTaskState]
    task_order: tuple[TaskId, ...]


class KnownDecision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decision that later tasks must know."""

    id: Annotated[str, Meta(pattern=r"^D[1-9][0-9]{0,8}\Z", description="D1, D2, …")]
    text: Text


class Pitfall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cause of a failure that was repaired; later implementer prompts name it."""

    id: Annotated[str, Meta(pattern=r"^P[1-9][0-9]{0,8}\Z", description="P1, P2, …")]
    text: Text


class Knowledge(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`knowledge.yaml`: what earlier tasks of the project taught."""

    patterns: tuple[Text, ...]
    decisions: tuple[KnownDecision, ...]
    pitfalls: tuple[Pitfall, ...]
    updated_at: Moment
