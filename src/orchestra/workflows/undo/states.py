"""The transition table of an undo: one patch, granted by the policy, because every byte was in the project before.

If a file changed since, the patch is not applied and the run fails. If nothing is left to undo, the run completes with
the patch that changes nothing.
"""

from __future__ import annotations

from orchestra.core.tables import Table

_EDGES: dict[str, dict[str, str]] = {
    "new": {"RUN_CREATED": "created"},
    "created": {"PATCH_PRODUCED": "patch_produced"},
    "patch_produced": {
        "APPROVAL_GRANTED": "approval_granted",
        "PATCH_APPLY_FAILED": "patch_failed",  # a file changed since
        "RUN_COMPLETED": "completed",  # nothing is left to undo
    },
    "approval_granted": {"PATCH_APPLIED": "patch_applied", "PATCH_APPLY_FAILED": "patch_failed"},
    "patch_applied": {"RUN_COMPLETED": "completed"},
    "patch_failed": {},
    "completed": {},
    "failed": {},
    "canceled": {},
}

TABLE = Table.of("undo", _EDGES)
