"""The transition table of a loop: S1 §4.3 and §4.4.

A state is named after the last recorded event. A `*_failed` state is a recorded failure after which the run goes on.
RUN_FAILED and RUN_CANCELED may follow in every state that is not final (G1-11; a provider may fail anywhere).
docs/loop-states.md is drawn from this table.

`execute` and `fix` have one contract (S1-70), so one function makes the rows of both. They differ only in the state
after an answer.
"""

from __future__ import annotations

from typing import Literal

from orchestra.core.tables import Table

_FIX = {"PHASE_STARTED fix": "fix"}


def _writing(phase: Literal["execute", "fix"]) -> dict[str, dict[str, str]]:
    """The rows from the start of a writing phase to its patch, its question or its failure."""
    again: dict[str, str] = {f"PHASE_STARTED {phase}": phase}
    return {
        phase: {f"PHASE_COMPLETED {phase}": f"{phase}_done", f"PHASE_FAILED {phase}": f"{phase}_failed"},
        f"{phase}_done": {
            "PATCH_PRODUCED": "patch_produced",  # S1-63
            "QUESTION_RAISED": f"{phase}_asked",  # S1-65
            "PHASE_STARTED evaluate": "evaluate",  # a NOOP reply is evaluated at once (G1-4)
        },
        f"{phase}_failed": {**again, **_FIX},  # the call again, or a fix (S1-98)
        f"{phase}_asked": {"QUESTION_ANSWERED": f"{phase}_answered"},
        f"{phase}_answered": again,  # back to the phase that asked (G1-3)
    }


_EDGES: dict[str, dict[str, str]] = {
    "new": {"RUN_CREATED": "created"},  # S1-61
    "created": {"PHASE_STARTED plan": "plan"},
    "plan": {
        "PHASE_STARTED plan": "plan",  # a check that is begun again after a crash
        "PHASE_COMPLETED plan": "plan_done",
        "PHASE_FAILED plan": "plan_failed",
    },
    "plan_failed": {"PHASE_STARTED plan": "plan", "QUESTION_RAISED": "plan_asked"},  # G1-6, G1-16
    "plan_done": {
        "PHASE_STARTED plan": "plan",  # the next check of the baseline, then the planner; it may ask to see more
        "QUESTION_RAISED": "plan_asked",  # a check of the baseline lacks its environment (G1-16)
        "PHASE_STARTED execute": "execute",  # S1-62
        "PHASE_STARTED fix": "fix",  # a loop that repairs what an earlier one left (Job.problem)
    },
    "plan_asked": {"QUESTION_ANSWERED": "plan_answered"},
    "plan_answered": {"PHASE_STARTED plan": "plan"},  # the baseline again
    **_writing("execute"),
    **_writing("fix"),
    "patch_produced": {
        "APPROVAL_REQUESTED": "approval_requested",  # S1-64
        "APPROVAL_GRANTED": "approval_granted",  # by policy (C-19)
        "PATCH_APPLY_FAILED": "patch_failed",  # it does not fit the files, so no person is asked
    },
    "approval_requested": {
        "APPROVAL_GRANTED": "approval_granted",
        "APPROVAL_REJECTED": "approval_rejected",
        "PATCH_PRODUCED": "patch_revised",  # a person's own version: parts of the patch, or an edited one
    },
    "patch_revised": {"APPROVAL_GRANTED": "approval_granted"},  # by whoever wrote it, for its own digest (D-11)
    "approval_granted": {"PATCH_APPLIED": "patch_applied", "PATCH_APPLY_FAILED": "patch_failed"},  # S1-66
    "approval_rejected": _FIX,  # S1-76
    "patch_failed": _FIX,  # G1-5
    "patch_applied": {"PHASE_STARTED evaluate": "evaluate"},
    "evaluate": {
        "PHASE_STARTED evaluate": "evaluate",  # a check that is begun again after a crash
        "PHASE_COMPLETED evaluate": "evaluate_done",
        "PHASE_FAILED evaluate": "evaluate_failed",
    },
    "evaluate_done": {
        "PHASE_STARTED evaluate": "evaluate",  # the next check, then the evaluator
        "EVALUATION_PASSED": "passed",
        "EVALUATION_FAILED_FIXABLE": "fixable",
        "EVALUATION_FAILED_BLOCKED": "blocked",
    },
    "evaluate_failed": {"PHASE_STARTED evaluate": "evaluate"},
    "passed": {"RUN_COMPLETED": "completed"},  # S1-67
    "fixable": _FIX,  # S1-68
    "blocked": {"PHASE_STARTED ask": "ask", "QUESTION_RAISED": "blocked_asked"},  # S1-69
    "ask": {"PHASE_COMPLETED ask": "ask_done", "PHASE_FAILED ask": "ask_done"},
    "ask_done": {"PHASE_STARTED ask": "ask", "QUESTION_RAISED": "blocked_asked"},
    "blocked_asked": {"QUESTION_ANSWERED": "blocked_answered"},
    "blocked_answered": {
        **_FIX,  # G1-3
        "PHASE_STARTED evaluate": "evaluate",  # a check lacked its environment: no fix could help
    },
    "completed": {},
    "failed": {},
    "canceled": {},
}

TABLE = Table.of("loop", _EDGES)
