"""The transition table of a team's run: turns as the phases and events of every run (C-06).

Turn 1 (drafts, and updates after late inputs) is phase execute, turn 2 (reviews, decisions of conflicts) evaluate, turn
3 (revisions) fix; every question is phase ask. A question keeps the state: other drafts go on meanwhile. A child run
that builds, and the patch with its result, are steps of turn 1. The states are those of one phase of the team; which
phase it is, is in the events.
"""

from __future__ import annotations

from orchestra.core.tables import Table


def _steps(phase: str, state: str) -> dict[str, str]:
    return {f"PHASE_{what} {phase}": state for what in ("STARTED", "COMPLETED", "FAILED")}


def _asks(state: str) -> dict[str, str]:
    return {"QUESTION_RAISED": state, "QUESTION_ANSWERED": state}


_DRAFTS, _REVIEWS, _REVISIONS = (
    _steps("execute", "drafting"),
    _steps("evaluate", "reviewing"),
    _steps("fix", "revising"),
)
_APPROVAL = ("APPROVAL_REQUESTED", "APPROVAL_GRANTED", "APPROVAL_REJECTED")
_PATCHES = dict.fromkeys(("PATCH_PRODUCED", *_APPROVAL, "PATCH_APPLIED", "PATCH_APPLY_FAILED"), "drafting")
_ENDS = {"RUN_COMPLETED": "completed"}
_EDGES: dict[str, dict[str, str]] = {
    "new": {"RUN_CREATED": "created"},
    "created": _DRAFTS,
    "drafting": {**_DRAFTS, **_PATCHES, **_REVIEWS, **_REVISIONS, **_asks("drafting"), **_ENDS},
    "reviewing": {**_REVIEWS, **_REVISIONS, **_DRAFTS, **_asks("reviewing"), **_ENDS},
    "revising": {**_REVISIONS, **_REVIEWS, **_DRAFTS, **_asks("revising"), **_ENDS},
    "completed": {},
    "failed": {},
    "canceled": {},
}

TABLE = Table.of("team", _EDGES)
