"""The transition table of an evidence run: S5's states as the phases and events of every run (C-06).

PlanIntent is phase plan, AcquireEvidence execute, AssessSufficiency evaluate, ForcedSynthesis execute with its own name
in the payload; every question is phase ask. ContextGuard may come before any model call and leads back to the state it
interrupted (S5-10); it is recorded in the phase of that state.
"""

from __future__ import annotations

from orchestra.core.tables import Table


def _steps(phase: str, state: str) -> dict[str, str]:
    return {f"PHASE_{what} {phase}": state for what in ("STARTED", "COMPLETED", "FAILED")}


_ANSWERED = {"RUN_COMPLETED": "completed"}
_GRANTING = {"APPROVAL_REQUESTED": "granting"}  # a rule asks about a command
_EDGES: dict[str, dict[str, str]] = {
    "new": {"RUN_CREATED": "created"},
    "created": _steps("plan", "PlanIntent"),
    "PlanIntent": {
        **_steps("plan", "PlanIntent"),
        **_steps("execute", "AcquireEvidence"),
        **_steps("evaluate", "AssessSufficiency"),
    },
    "AcquireEvidence": {
        **_steps("execute", "AcquireEvidence"),
        **_steps("evaluate", "AssessSufficiency"),
        **_GRANTING,
        "QUESTION_RAISED": "asking",
        **_ANSWERED,  # after ForcedSynthesis or an immediate report
    },
    "granting": {"APPROVAL_GRANTED": "AcquireEvidence", "APPROVAL_REJECTED": "AcquireEvidence"},
    "asking": {"QUESTION_ANSWERED": "AcquireEvidence"},
    "AssessSufficiency": {
        **_steps("evaluate", "AssessSufficiency"),
        **_steps("execute", "AcquireEvidence"),
        **_ANSWERED,
    },
    "completed": {},
    "failed": {},
    "canceled": {},
}

TABLE = Table.of("evidence", _EDGES)
