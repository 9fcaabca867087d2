"""What may happen in a task graph: the run's table, and the table of one task (S2 "상태 전환").

Tasks run side by side, so the run's table says only what the run as a whole may do; a task's own table says what may
happen to one task, and `board.py` asks it for every event. docs/dag-states.md is drawn from both.
"""

from __future__ import annotations

from orchestra.core.errors import IllegalEvent
from orchestra.core.tables import Table
from orchestra.workflows.dag.shapes import TaskState

# S2-125 … S2-131, and G2-1: blocked leads to running when all dependencies are done. `done` and `failed` are final.
# While retries remain a failing task stays `running` (S2-131).
TASK: dict[TaskState, tuple[TaskState, ...]] = {
    "planned": ("running", "blocked"),
    "blocked": ("running",),
    "running": ("done", "failed"),
    "done": (),
    "failed": (),
}


def move(label: str, state: TaskState, target: TaskState) -> TaskState:
    """The task's next state, or IllegalEvent."""
    if target not in TASK[state]:
        raise IllegalEvent(f"task {label}: {state} cannot become {target}")
    return target


_PLANNING = {
    "PHASE_STARTED plan": "planning",
    "PHASE_COMPLETED plan": "planned",  # the planner's reply is there; or a person's plan is adopted
    "PHASE_FAILED plan": "planning",  # the call again, or the planner is told what is wrong with its plan
}
_WORKING = {
    "PHASE_STARTED execute": "working",
    "PHASE_COMPLETED execute": "working",
    "PHASE_FAILED execute": "working",
    "PATCH_PRODUCED": "working",  # what an `rw` task changed goes through the gate (S1-64, S1-66)
    "APPROVAL_REQUESTED": "working",
    "APPROVAL_GRANTED": "working",
    "APPROVAL_REJECTED": "working",
    "PATCH_APPLIED": "working",
    "PATCH_APPLY_FAILED": "working",
}
_SUMMING_UP = {
    "PHASE_STARTED evaluate": "summing_up",
    "PHASE_COMPLETED evaluate": "summing_up",
    "PHASE_FAILED evaluate": "summing_up",
}
_EDGES: dict[str, dict[str, str]] = {
    "new": {"RUN_CREATED": "created"},
    "created": _PLANNING,
    "planning": _PLANNING,
    "planned": {
        **_PLANNING,
        "APPROVAL_REQUESTED": "plan_asked",
        "APPROVAL_GRANTED": "agreed",  # by policy
        "RUN_COMPLETED": "completed",  # only a plan was wanted
    },
    "plan_asked": {"APPROVAL_GRANTED": "agreed", "APPROVAL_REJECTED": "plan_rejected"},
    "plan_rejected": {**_PLANNING, **_SUMMING_UP},  # planned anew; or a second plan was rejected, and the first counts
    "agreed": {**_WORKING, **_SUMMING_UP, "RUN_COMPLETED": "completed"},
    "working": {**_WORKING, **_SUMMING_UP, **_PLANNING, "RUN_COMPLETED": "completed"},
    "summing_up": {**_SUMMING_UP, "RUN_COMPLETED": "completed"},
    "completed": {},
    "failed": {},
    "canceled": {},
}

TABLE = Table.of("dag", _EDGES)
