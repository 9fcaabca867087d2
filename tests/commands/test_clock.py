"""The total time of a run, from its journal."""

from __future__ import annotations

from orchestra.commands.clock import used
from orchestra.core.records import Event


def completed(at: str, milliseconds: int) -> Event:
    outcome = {
        "command": "c",
        "exitCode": 0,
        "status": "pass",
        "durationMs": milliseconds,
        "timedOut": False,
        "output": "",
    }
    payload = {"key": "check-1.1", "effect": "RunCommand", "outcome": outcome}
    return Event(
        id="00000002",
        runId="r",
        type="PHASE_COMPLETED",
        ts=at,
        payload=payload,
        phase="evaluate",
        iteration=1,
    )


def test_seconds_of_steps_are_summed_and_counted_once_where_they_overlap() -> None:
    hour = completed("2026-01-31T02:00:00.000Z", 3_600_000)
    assert round(used([hour]), 3) == 3600.0
    beside = completed("2026-01-31T01:30:00.000Z", 1_800_000)  # within the hour
    assert round(used([beside, hour]), 3) == 3600.0
    later = completed("2026-01-31T03:00:00.000Z", 60_000)
    assert round(used([beside, hour, later]), 3) == 3660.0
