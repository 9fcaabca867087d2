"""The fold: events to state, for every workflow alike."""

from __future__ import annotations

import msgspec
import pytest

from orchestra.core.errors import IllegalEvent
from orchestra.core.records import EVENT_TYPES, PHASES, Event, EventType, Phase, WorkflowState
from orchestra.core.tables import Fold, Table


def fold(*rows: tuple[EventType, dict[str, object]], phase: Phase = "execute") -> Fold:
    folded = Fold()
    folded.add(Event("00000001", "r", "2026-02-14T12:34:56Z", "RUN_CREATED", {"maxFixIterations": 5}))
    for number, (kind, payload) in enumerate(rows, start=2):
        folded.add(Event(f"{number:08d}", "r", "2026-02-14T12:34:57Z", kind, payload, phase=phase, iteration=2))
    return folded


@pytest.mark.spec("S1-07", "S1-52")
def test_the_vocabulary_is_closed() -> None:
    assert len(EVENT_TYPES) == len(set(EVENT_TYPES)) == 18
    assert PHASES == ("plan", "execute", "evaluate", "fix", "ask")


@pytest.mark.spec("S1-41", "S1-42", "S1-43", "S1-44", "S1-45", "S1-46", "S1-49", "S1-50")
def test_a_new_run_is_created_with_nothing_pending() -> None:
    assert fold().state == WorkflowState(
        runId="r",
        status="created",
        currentPhase=None,
        iteration=1,
        maxFixIterations=5,
        lastEventId="00000001",
        createdAt="2026-02-14T12:34:56Z",
        updatedAt="2026-02-14T12:34:56Z",
    )


@pytest.mark.spec("S1-45")
def test_three_fixes_are_the_default() -> None:
    folded = Fold()
    folded.add(Event("1", "r", "2026-02-14T12:34:56Z", "RUN_CREATED", {}))
    assert folded.state.maxFixIterations == 3


@pytest.mark.spec("S1-47", "S1-78")
def test_a_pending_approval_is_named_until_it_is_answered() -> None:
    asked: tuple[EventType, dict[str, object]] = ("APPROVAL_REQUESTED", {"approvalId": "approval-0001"})
    state = fold(asked).state
    assert (state.status, state.pendingApprovalId) == ("awaiting_approval", "approval-0001")
    after = fold(asked, ("APPROVAL_GRANTED", {"approvalId": "approval-0001"})).state
    assert after.status == "running"
    assert "pendingApprovalId" not in msgspec.to_builtins(after)


@pytest.mark.spec("S1-48", "S1-65")
def test_a_pending_question_is_named_until_it_is_answered() -> None:
    asked: tuple[EventType, dict[str, object]] = ("QUESTION_RAISED", {"questionId": "q1"})
    state = fold(asked, phase="ask").state
    assert (state.status, state.pendingQuestionId, state.currentPhase) == ("awaiting_input", "q1", "ask")
    assert fold(asked, ("QUESTION_ANSWERED", {"questionId": "q1"})).state.status == "running"


def test_a_policys_grant_answers_nobodys_request() -> None:
    folded = fold(("APPROVAL_REQUESTED", {"approvalId": "a1"}), ("APPROVAL_GRANTED", {"effect": "AutoApprove"}))
    assert list(folded.pending) == ["a1"]


def test_one_answer_leaves_the_other_branch_waiting() -> None:
    folded = fold(
        ("APPROVAL_REQUESTED", {"approvalId": "a1"}),
        ("QUESTION_RAISED", {"questionId": "q1"}),
        ("QUESTION_ANSWERED", {"questionId": "q1"}),
    )
    assert folded.state.status == "awaiting_approval"
    assert list(folded.pending) == ["a1"]


@pytest.mark.spec("S1-51")
def test_the_last_error_is_kept() -> None:
    state = fold(("PHASE_FAILED", {"error": {"code": "TIMEOUT", "message": "늦음", "retriable": True}})).state
    assert msgspec.to_builtins(state)["lastError"] == {"code": "TIMEOUT", "message": "늦음"}


@pytest.mark.spec("S1-40")
@pytest.mark.parametrize(
    ("kind", "status"), [("RUN_COMPLETED", "completed"), ("RUN_FAILED", "failed"), ("RUN_CANCELED", "canceled")]
)
def test_a_final_run_is_in_no_phase_and_waits_for_nothing(kind: EventType, status: str) -> None:
    folded = fold(("QUESTION_RAISED", {"questionId": "q1"}), (kind, {}))
    assert (folded.state.status, folded.state.currentPhase, folded.pending) == (status, None, {})


def test_a_run_that_was_never_started_has_no_state() -> None:
    with pytest.raises(IllegalEvent, match="never started"):
        _ = Fold().state


def test_a_forbidden_event_is_refused_with_those_that_are_possible() -> None:
    table = Table.any("x")
    assert table.next("new", "RUN_CREATED") == "open" == table.next("open", "PHASE_STARTED", "plan")
    for state, possible in (("new", "RUN_CREATED"), ("ended", "nothing: the run is final")):
        with pytest.raises(IllegalEvent) as refused:
            table.next(state, "RUN_FAILED")
        assert str(refused.value) == f"workflow x: RUN_FAILED cannot follow in state {state!r} (possible: {possible})"
