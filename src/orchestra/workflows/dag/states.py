"""The transition tables of a task graph: that of the run, and that of one task (S2 "상태 전환").

Tasks run concurrently, so the run's table covers only the run as a whole. `board.py` checks every event of a task
against the task's table. docs/dag-states.md is drawn from both.
"""

from __future__ import annotations

from orchestra.core.errors import IllegalEvent
from orchestra.core.tables import Table
from orchestra.workflows.dag.shapes import TaskState

# S2-125 … S2-131, and G2-1: `blocked` becomes `running` when all dependencies are done. `done` and `failed` are final.
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
    "PHASE_COMPLETED plan": "planned",  # the planner replied (it may ask to see more), or a plan is recorded
    "PHASE_FAILED plan": "planning",  # the call is repeated, or the planner gets the reasons
}
_WORKING = {
    "PHASE_STARTED execute": "working",
    "PHASE_COMPLETED execute": "working",
    "PHASE_FAILED execute": "working",
    "PATCH_PRODUCED": "working",  # the changes of an `rw` task go through the gate (S1-64, S1-66)
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
    "plan_rejected": {**_PLANNING, **_SUMMING_UP},  # a new plan; or the end, if a second plan was rejected
    "agreed": {**_WORKING, **_SUMMING_UP, "RUN_COMPLETED": "completed"},
    "working": {**_WORKING, **_SUMMING_UP, **_PLANNING, "RUN_COMPLETED": "completed"},
    "summing_up": {**_SUMMING_UP, "RUN_COMPLETED": "completed"},
    "completed": {},
    "failed": {},
    "canceled": {},
}

TABLE = Table.of("dag", _EDGES)
