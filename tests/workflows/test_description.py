"""What holds for every description of a workflow."""

from __future__ import annotations

from typing import Any

import pytest

from orchestra.core.records import Event, EventType
from orchestra.workflows.all import ALL
from orchestra.workflows.description import Workflow

AT = "2026-11-18T00:00:00.000Z"
PLANS: tuple[Any, ...] = (5, None, "abc", {}, [1])
SETTLED: tuple[Any, ...] = (5, None, {"kind": "Planned"}, [])
ODD: tuple[dict[str, Any], ...] = (
    {},
    *({"effect": "AdoptPlan", "key": "p.1", "outcome": {"plan": {"tasks": odd}}} for odd in PLANS),
    *({"effect": "Settle", "key": "s.1", "outcome": {"value": odd}} for odd in SETTLED),
    {"key": "t.1", "stage": 10**9, "step": -1, "target": "T1", "native": "implement"},
)


@pytest.mark.parametrize("workflow", ALL, ids=lambda one: one.name)
@pytest.mark.parametrize("params", [{}, {"maxSteps": "many", "maxFixIterations": None, "definition": 5}])
def test_how_far_a_run_is_can_be_told_of_any_events(workflow: Workflow, params: dict[str, Any]) -> None:
    """They may be anybody's, or an older version's: a face shows them all the same."""
    pace = workflow.pace(params)
    types: tuple[EventType, ...] = ("RUN_CREATED", "PHASE_STARTED", "PHASE_COMPLETED", "PHASE_FAILED", "RUN_FAILED")
    for number, type in enumerate(types):
        for payload in ODD:
            told = pace(Event(f"{number:08d}", "r", AT, type, payload, "execute", 1))
            assert told is None or all(isinstance(one, int) for one in told)
