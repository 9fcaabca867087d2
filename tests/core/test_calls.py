"""The model calls of a journal, and which of them a fork only kept."""

from __future__ import annotations

from typing import Any

import pytest

from orchestra.core.calls import past_calls
from orchestra.core.records import Event, EventType


def event(number: int, type: EventType, **payload: Any) -> Event:
    return Event(f"{number:08d}", "r", "2026-01-01T00:00:00Z", type, payload)


def test_a_fork_kept_the_calls_up_to_its_last_copied_event_and_made_the_others() -> None:
    origin = {"runId": "2026-01-01_001_loop_x", "events": 3, "last": "00000003"}
    events = [event(1, "RUN_CREATED", workflow="loop", forkedFrom=origin)]
    for number, key in ((2, "plan.1"), (4, "execute.1")):
        events.append(event(number, "PHASE_STARTED", effect="ModelCall", key=key))
        events.append(event(number + 1, "PHASE_COMPLETED", effect="ModelCall", key=key, outcome={"text": "네"}))
    assert [(call.key, call.kept) for call in past_calls(events)] == [("plan.1", True), ("execute.1", False)]
    own = [event(1, "RUN_CREATED", workflow="loop"), *events[1:]]
    assert not any(call.kept for call in past_calls(own))


@pytest.mark.parametrize(
    ("said", "most"), [(0.25, 0.25), (0.0, 0.0), (-0.5, 0.0), (float("nan"), 0.0), (None, 0.0), ("0.25", 0.0)]
)
def test_what_a_call_reserved_is_an_amount_or_nothing(said: object, most: float) -> None:
    begun = event(2, "PHASE_STARTED", effect="ModelCall", key="plan.1", mostUsd=said)
    ended = event(3, "PHASE_COMPLETED", effect="ModelCall", key="plan.1", outcome={})
    for events in ([begun], [begun, ended]):
        assert [call.mostUsd for call in past_calls(events)] == [most]
