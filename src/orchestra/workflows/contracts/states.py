"""The transition table of a contracts run: S3's stages as the phases and events of every run (C-06).

Exploring, breakdown and design are phase plan; test contract, test code, the red run and an implementation execute; an
implementation again fix; verification and gates evaluate; every question is phase ask. Which task and subtask a step
belongs to is in its event. A retry of a design leads back to planning, so the stages follow in any order. Patches of
this run are test code, and what is taken back; an implementation's patches are its child run's.
"""

from __future__ import annotations

from orchestra.core.tables import Table

_STATES = {"plan": "planning", "execute": "writing", "evaluate": "verifying", "fix": "repairing"}


def _stages(stay: str = "") -> dict[str, str]:
    """Every stage may begin after every other one: which, is the flow's to say. `stay`: the state remains this one."""
    return {
        f"PHASE_{what} {phase}": stay or state
        for phase, state in _STATES.items()
        for what in ("STARTED", "COMPLETED", "FAILED")
    }


_NEXT = {"PATCH_PRODUCED": "patch_produced", "RUN_COMPLETED": "completed"}


def _asks(state: str) -> dict[str, str]:
    return {"QUESTION_RAISED": state, "QUESTION_ANSWERED": state}


def _patching(state: str) -> dict[str, str]:
    """What may happen at any time between a patch and its end. Every process first looks at the contracts, and writes
    damaged ones again: the patch goes on after that. It is given up if a contract that it was made from was edited."""
    return {**_stages(state), **_asks(state), **_NEXT}


_EDGES: dict[str, dict[str, str]] = {
    "new": {"RUN_CREATED": "created"},
    "created": {f"PHASE_{what} plan": "planning" for what in ("STARTED", "COMPLETED", "FAILED")},
    **{state: {**_stages(), **_asks(state), **_NEXT} for state in (*_STATES.values(), "patched")},
    "patch_produced": {
        **_patching("patch_produced"),
        "APPROVAL_REQUESTED": "approval_requested",
        "APPROVAL_GRANTED": "approval_granted",  # by policy (C-19)
        "PATCH_APPLY_FAILED": "patched",  # out of scope, or it does not fit the files
    },
    "approval_requested": {
        **_patching("approval_requested"),
        "APPROVAL_GRANTED": "approval_granted",
        "APPROVAL_REJECTED": "patched",
    },
    "approval_granted": {
        **_patching("approval_granted"),
        "PATCH_APPLIED": "patched",
        "PATCH_APPLY_FAILED": "patched",
    },
    "completed": {},
    "failed": {},
    "canceled": {},
}

TABLE = Table.of("contracts", _EDGES)
