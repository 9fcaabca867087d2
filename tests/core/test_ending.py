"""How a run ended, read from its last event."""

from __future__ import annotations

from typing import Any

import pytest

from orchestra.core.ending import ended
from orchestra.core.records import Event, EventType


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
