"""What every reader of an event relies on: which kind of value each field of a payload has. Pure.

Rules
1. A journal may be anybody's. Before a view looks at an event, its payload is held against this table; what does not
   fit is damage, named by its field. So no view has to doubt each value again.
2. Nothing is required: another implementation may leave out what it likes, and a view then has less to show.
3. What came of a step is held against it only if the step is one of orchestra's own. The outcome of any other is its
   flow's affair, and `outcome_of` gives nothing of it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from orchestra.core.calls import reply_of
from orchestra.core.model import ProviderFailure
from orchestra.core.records import Event, is_time

Number = int | float


class _Error(Struct):
    code: Any = ""
    message: str = ""
    reason: str = ""
    stack: str = ""
    retriable: bool = False


class _File(Struct):
    path: str
    added: int = 0
    removed: int = 0


class _Reference(Struct):
    path: str
    bytes: int = 0
    sha256: str = ""


class _Origin(Struct):
    runId: str
    at: str = ""
    origin: str = ""


class _Note(Struct):
    what: str = ""
    why: str = ""


class _Refusal(Struct):
    message: str = ""
    reason: str = ""


class _Params(Struct):
    dry: bool = False
    planOnly: bool = False
    intent: str = ""
    asker: str = ""
    plan: str | None = None
    checks: Any = None
    policy: Any = None
    approval: Any = None


class _Outcome(Struct):
    """What came of any step of orchestra's own."""

    accepted: list[str] = []
    added: Any = 0
    after: list[_File] = []
    artifact: _Reference | None = None
    artifacts: list[_Reference] = []
    before: list[_File] = []
    by: str = ""
    changes: Any = None
    command: str = ""
    decision: str = ""
    denials: list[_Note] = []
    digest: str = ""
    durationMs: Number = 0
    error: str = ""
    exitCode: int | None = None
    file: _Reference | None = None
    files: list[Any] = []
    finishReason: str = ""
    grounds: str = ""
    output: str = ""
    patch: _Reference | None = None
    plan: dict[str, Any] = {}
    provider: str = ""
    raw: _Reference | None = None
    reason: str = ""
    refusal: _Refusal | None = None
    removed: int = 0
    status: str = ""
    text: str = ""
    timedOut: bool = False
    untaken: list[_Note] = []
    usage: dict[str, Any] | None = None


class _Payload(Struct):
    agent: str = ""
    approval: Any = ""
    approvalId: str = ""
    argv: list[str] = []
    artifact: str = ""
    attempt: int = 1
    childRunId: str = ""
    digest: str = ""
    effect: str = ""
    error: _Error | None = None
    exitCode: int = 0
    files: list[_File] = []
    forkedFrom: _Origin | None = None
    goal: str = ""
    intent: str = ""
    key: str = ""
    maxFixIterations: int = 3
    models: dict[str, Any] = {}
    needed_input: list[str] = []
    notBefore: str = ""
    outcome: Any = None
    params: _Params | None = None
    parentKey: str = ""
    parentRunId: str | None = None
    patch: _Reference | None = None
    policy: Any = ""
    prev: str = ""
    process: Any = None
    question: str = ""
    questionId: str = ""
    reason: str = ""
    reasons: list[str] = []
    redone: Any = False
    result: Any = None
    retryAt: str = ""
    role: str = ""
    scenario: Any = ""
    seal: str = ""
    subject: str = ""
    summary: str = ""
    task: str = ""
    taskId: str = ""
    tier: str = ""
    typed: list[str] = []
    vouches: Any = None
    workflow: str = ""
    workspace: str = ""


# The names of what is kept of an event too long to be shown whole (core/lines.py).
PAYLOAD, OUTCOME = _Payload.__struct_fields__, _Outcome.__struct_fields__
PARAMS, ERROR = _Params.__struct_fields__, _Error.__struct_fields__
_OWN = {"", "AdoptPlan", "ApplyPatch", "Approve", "AskPerson", "AutoApprove", "ChildRun", "Evaluate", "ModelCall"}
_OWN |= {"NewId", "Now", "ProposePatch", "RefusePatch", "RunCommand", "Sleep"}


def misfit(event: Event, number: int) -> str:
    """What is wrong with the event of this line; empty if readers can rely on it."""
    try:
        if not is_time(event.ts):
            return f"its time {event.ts} is none"
        datetime.fromisoformat(event.ts)
        payload = msgspec.convert(event.payload, _Payload)
        if payload.outcome is not None and payload.effect in _OWN:
            msgspec.convert(payload.outcome, _Outcome)
            if payload.effect == "ModelCall":
                reply_of(payload.outcome)
        if payload.error is not None and payload.error.reason == "provider":
            msgspec.convert(event.payload["error"], ProviderFailure)
    except msgspec.ValidationError as error:
        return f"its payload: {error}"
    except ValueError:
        return f"its time {event.ts} is none"
    if number == 1 and event.type != "RUN_CREATED":
        return f"it is {event.type}, and a run begins with RUN_CREATED"
    return ""


def outcome_of(event: Event) -> dict[str, Any]:
    """What came of a step of orchestra's own; nothing for any other event (rule 3)."""
    outcome = event.payload.get("outcome")
    return outcome if isinstance(outcome, dict) and event.payload.get("effect", "") in _OWN else {}
