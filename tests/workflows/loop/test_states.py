"""S1 §4.3 as a table: every legal edge is walked, every state refuses what it does not list."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec import UNSET, UnsetType

from orchestra.core.errors import IllegalEvent
from orchestra.core.records import EVENT_TYPES, PHASES, EventType, Phase
from orchestra.core.tables import trigger
from orchestra.workflows.loop.states import TABLE

EVENTS: list[tuple[EventType, Phase | UnsetType]] = [
    (kind, phase) for kind in EVENT_TYPES for phase in (PHASES if kind.startswith("PHASE_") else (UNSET,))
]
FINAL = ("completed", "failed", "canceled")


@pytest.mark.spec("S1-73", "S1-123")
@pytest.mark.parametrize("state", TABLE.edges)
def test_a_state_allows_what_it_lists_and_nothing_else(state: str) -> None:
    for kind, phase in EVENTS:
        name = trigger(kind, phase)
        if name in TABLE.edges[state]:
            assert TABLE.next(state, kind, phase) == TABLE.edges[state][name]
            assert TABLE.edges[state][name] in TABLE.edges
        else:
            with pytest.raises(IllegalEvent, match="cannot follow"):
                TABLE.next(state, kind, phase)


def test_every_trigger_is_an_event_of_the_vocabulary() -> None:
    known = {trigger(kind, phase) for kind, phase in EVENTS}
    assert {name for edges in TABLE.edges.values() for name in edges} <= known


def test_every_state_can_be_reached_and_every_open_state_can_end() -> None:
    reached, queue = {TABLE.start}, [TABLE.start]
    while queue:
        for target in TABLE.edges[queue.pop()].values():
            if target not in reached:
                reached.add(target)
                queue.append(target)
    assert reached == set(TABLE.edges)
    for state, edges in TABLE.edges.items():
        if state != TABLE.start and state not in FINAL:
            assert {"RUN_FAILED", "RUN_CANCELED"} <= set(edges)  # G1-11
    assert all(TABLE.edges[state] == {} for state in FINAL)


def walk(*names: str) -> str:
    state = TABLE.start
    for name in names:
        kind, _, phase = name.partition(" ")
        assert kind in get_args(EventType)
        state = TABLE.next(state, kind, phase or UNSET)  # type: ignore[arg-type]  # names of this file's own tables
    return state


PLANNED = ("RUN_CREATED", "PHASE_STARTED plan", "PHASE_COMPLETED plan")
EXECUTED = (*PLANNED, "PHASE_STARTED execute", "PHASE_COMPLETED execute")
APPLIED = (*EXECUTED, "PATCH_PRODUCED", "APPROVAL_REQUESTED", "APPROVAL_GRANTED", "PATCH_APPLIED")
EVALUATED = (*APPLIED, "PHASE_STARTED evaluate", "PHASE_COMPLETED evaluate")


@pytest.mark.spec("S1-60", "S1-61", "S1-62", "S1-63", "S1-64", "S1-66", "S1-67")
def test_the_straight_way() -> None:
    assert walk(*EVALUATED, "EVALUATION_PASSED", "RUN_COMPLETED") == "completed"


@pytest.mark.spec("S1-68", "S1-70")
def test_a_fixable_failure_leads_to_a_fix_with_the_same_contract() -> None:
    fixed = walk(*EVALUATED, "EVALUATION_FAILED_FIXABLE", "PHASE_STARTED fix", "PHASE_COMPLETED fix")
    executed = walk(*EXECUTED)
    assert {"PATCH_PRODUCED", "QUESTION_RAISED"} <= set(TABLE.edges[fixed]) & set(TABLE.edges[executed])


@pytest.mark.spec("S1-69")
def test_a_blocked_failure_leads_to_a_question_and_then_to_a_fix() -> None:
    state = walk(*EVALUATED, "EVALUATION_FAILED_BLOCKED", "QUESTION_RAISED", "QUESTION_ANSWERED")
    assert "PHASE_STARTED fix" in TABLE.edges[state]


@pytest.mark.spec("S1-76")
def test_a_rejected_patch_can_be_fixed_but_never_applied() -> None:
    state = walk(*EXECUTED, "PATCH_PRODUCED", "APPROVAL_REQUESTED", "APPROVAL_REJECTED")
    assert "PHASE_STARTED fix" in TABLE.edges[state]
    assert "PATCH_APPLIED" not in TABLE.edges[state]


@pytest.mark.spec("S1-74")
@pytest.mark.parametrize("before", [PLANNED, EXECUTED, (*EXECUTED, "PATCH_PRODUCED")])
def test_no_patch_is_applied_without_a_grant(before: tuple[str, ...]) -> None:
    for kind in ("PATCH_APPLIED", "RUN_COMPLETED"):
        assert kind not in TABLE.edges[walk(*before)]
    assert "PATCH_APPLIED" not in TABLE.edges[walk(*EXECUTED, "PATCH_PRODUCED", "APPROVAL_REQUESTED")]


def test_completion_follows_a_passed_evaluation_and_nothing_else() -> None:
    assert [state for state, edges in TABLE.edges.items() if "RUN_COMPLETED" in edges] == ["passed"]
