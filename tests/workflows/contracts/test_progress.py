"""How far a request is, from its events."""

from __future__ import annotations

import pytest

from orchestra.core.records import Event, EventType
from orchestra.workflows.contracts.progress import Progress


@pytest.mark.spec("C-05")
@pytest.mark.parametrize(
    ("end", "status"), [("RUN_COMPLETED", "completed"), ("RUN_FAILED", "stopped"), ("RUN_CANCELED", "stopped")]
)
def test_a_request_is_active_until_its_run_ends(end: EventType, status: str) -> None:
    at = "2026-11-18T00:00:00.000Z"
    begun = Event("00000001", "r", at, "RUN_CREATED", {"workflow": "contracts", "params": {}})
    assert Progress.of([begun]).status == "active"
    assert Progress.of([begun, Event("00000002", "r", at, end, {})]).status == status
