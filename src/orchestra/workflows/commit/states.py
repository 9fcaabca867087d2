"""The transition table of an apply: one patch, granted by the policy, because a person typed the command.

If a file changed since, or the change does not fit the commit, nothing is written and the run fails.
"""

from __future__ import annotations

from orchestra.core.tables import Table

_EDGES: dict[str, dict[str, str]] = {
    "new": {"RUN_CREATED": "created"},
    "created": {"PATCH_PRODUCED": "patch_produced"},
    "patch_produced": {
        "APPROVAL_GRANTED": "approval_granted",
        "PATCH_APPLY_FAILED": "patch_failed",  # it does not fit, or a file changed since
    },
    "approval_granted": {"PATCH_APPLIED": "patch_applied", "PATCH_APPLY_FAILED": "patch_failed"},
    "patch_applied": {"RUN_COMPLETED": "completed"},
    "patch_failed": {},
    "completed": {},
    "failed": {},
    "canceled": {},
}

TABLE = Table.of("commit", _EDGES)
