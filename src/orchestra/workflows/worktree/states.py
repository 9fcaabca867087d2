"""The transition table of a run in a worktree: the work (a child run in a copy), its result at the gate, the end."""

from __future__ import annotations

from orchestra.core.tables import Table

_STEPS = {"PHASE_STARTED execute": "working", "PHASE_COMPLETED execute": "working", "PHASE_FAILED execute": "working"}
_EDGES: dict[str, dict[str, str]] = {
    "new": {"RUN_CREATED": "created"},
    "created": {"PHASE_STARTED execute": "working"},
    "working": {**_STEPS, "PATCH_PRODUCED": "patch_produced", "RUN_COMPLETED": "completed"},
    "patch_produced": {
        "APPROVAL_REQUESTED": "approval_requested",
        "APPROVAL_GRANTED": "approval_granted",
        "PATCH_APPLY_FAILED": "patch_failed",  # it does not fit the project's files
    },
    "approval_requested": {
        "APPROVAL_GRANTED": "approval_granted",
        "APPROVAL_REJECTED": "approval_rejected",
        "PATCH_PRODUCED": "patch_revised",  # a person's own version: parts of the patch, or an edited one
    },
    "patch_revised": {"APPROVAL_GRANTED": "approval_granted"},
    "approval_granted": {"PATCH_APPLIED": "patch_applied", "PATCH_APPLY_FAILED": "patch_failed"},
    "approval_rejected": {},
    "patch_failed": {},
    "patch_applied": {"RUN_COMPLETED": "completed"},
    "completed": {},
    "failed": {},
    "canceled": {},
}

TABLE = Table.of("worktree", _EDGES)
