"""How a run ended, read from its last event."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestra.core.ending import ended, how_ended
from orchestra.core.records import Event, EventType
from tests.support.core import open_ledger


@pytest.mark.parametrize(
    ("kind", "payload", "message"),
    [
        ("RUN_COMPLETED", {"result": {"reason": "a field of a workflow's own result"}}, ""),
        ("RUN_CANCELED", {"result": {"reason": "그만"}}, "그만"),
        ("RUN_CANCELED", {"result": ["reason"]}, ""),
        ("RUN_FAILED", {"error": {"code": "X", "message": "it broke"}, "result": {"reason": "no"}}, "it broke"),
    ],
)
def test_only_a_canceled_run_has_a_reason_in_its_result(kind: EventType, payload: dict[str, Any], message: str) -> None:
    event = Event(id="00000009", runId="r", type=kind, ts="2026-01-31T00:00:00.000Z", payload=payload)
    assert ended("r", event).message == message


def test_a_run_waits_for_one_answer_alone_if_nothing_else_is_open(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "run")

    def asks(name: str) -> bool:
        ledger.record("QUESTION_RAISED", {"key": f"{name}.1", "questionId": name})
        return how_ended(ledger).alone

    assert not how_ended(ledger).alone
    assert asks("a") and not asks("b")
    ledger.record("QUESTION_ANSWERED", {"key": "b.1", "questionId": "b"})
    assert how_ended(ledger).alone
    child = {"key": "below.1", "effect": "ChildRun", "workflow": "open", "childRunId": "run_below"}
    ledger.record("PHASE_STARTED", child, "plan", 1)
    assert not how_ended(ledger).alone
    ledger.record("PHASE_COMPLETED", {"key": "below.1", "effect": "ChildRun", "outcome": {}}, "plan", 1)
    assert how_ended(ledger).alone
    ledger.close()


@pytest.mark.parametrize(
    ("kind", "payload", "code"),
    [
        ("RUN_COMPLETED", {}, 0),
        ("RUN_FAILED", {}, 1),
        ("RUN_CANCELED", {}, 1),
        ("RUN_COMPLETED", {"exitCode": 4}, 4),
        ("RUN_FAILED", {"exitCode": 6}, 6),
    ],
)
def test_a_run_ends_with_the_recorded_exit_code_or_that_of_its_kind(
    kind: EventType, payload: dict[str, Any], code: int
) -> None:
    assert ended("r", Event("1", "r", "2026-01-31T00:00:00.000Z", kind, payload)).exit_code == code
