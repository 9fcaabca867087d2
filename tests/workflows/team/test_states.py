"""The transition table of a team's run: every legal edge, and one illegal edge of each state."""

from __future__ import annotations

from typing import get_args

import pytest

from orchestra.core.errors import IllegalEvent
from orchestra.core.records import EventType, Phase
from orchestra.workflows.team.states import TABLE


def _event(trigger: str) -> tuple[EventType, Phase]:
    name, _, phase = trigger.partition(" ")
    return name, phase or get_args(Phase)[0]  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("state", "trigger", "target"),
    [(state, trigger, target) for state, edges in TABLE.edges.items() for trigger, target in edges.items()],
)
def test_every_legal_edge(state: str, trigger: str, target: str) -> None:
    assert TABLE.next(state, *_event(trigger)) == target


@pytest.mark.parametrize(
    ("state", "trigger"),
    [
        ("new", "RUN_COMPLETED"),
        ("created", "PHASE_STARTED evaluate"),
        ("created", "QUESTION_RAISED"),
        ("drafting", "RUN_CREATED"),
        ("reviewing", "APPROVAL_REQUESTED"),
        ("reviewing", "PATCH_APPLIED"),
        ("revising", "RUN_CREATED"),
        ("completed", "PHASE_STARTED execute"),
        ("failed", "RUN_COMPLETED"),
        ("canceled", "PHASE_STARTED execute"),
    ],
)
def test_an_illegal_edge_of_each_state(state: str, trigger: str) -> None:
    with pytest.raises(IllegalEvent):
        TABLE.next(state, *_event(trigger))
