"""The total time of a run, from its journal."""

from __future__ import annotations

import asyncio

import pytest

from orchestra.commands.clock import Timekeeper
from orchestra.core.accounts import used
from orchestra.core.errors import StepFailed, TimeReached
from orchestra.core.records import Event, EventType
from orchestra.core.text import duration_text, seconds_of


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


def happened(at: str, type: EventType, run: str = "r", number: int = 2, **payload: object) -> Event:
    return Event(id=f"{number:08d}", runId=run, type=type, ts=f"2026-01-31T{at}.000Z", payload=payload)


def test_time_in_which_a_person_thinks_does_not_count() -> None:
    asked = happened("01:00:00", "QUESTION_RAISED", key="ask.1", effect="AskPerson")
    answered = happened("09:00:00", "QUESTION_ANSWERED", key="ask.1", effect="AskPerson", outcome={"text": "네"})
    assert used([asked, answered]) == 0


def test_a_sleep_counts_and_not_the_hours_in_which_nobody_drove_the_run() -> None:
    deadline = "2026-01-31T01:00:30.000Z"
    begun = happened("01:00:00", "PHASE_STARTED", key="sleep.1", effect="Sleep", deadline=deadline)
    over = happened("09:00:00", "PHASE_COMPLETED", key="sleep.1", effect="Sleep", outcome={"at": deadline})
    assert used([begun, over]) == 30


def test_a_finished_child_need_not_be_read_for_the_time_it_took() -> None:
    """Its step has the reading of the tree's clock; only what came after that, or reaches past it, is added."""
    before = completed("2026-01-31T01:00:00.000Z", 500_000)
    ended = happened("01:00:10", "PHASE_COMPLETED", key="child.1", effect="ChildRun", outcome={"treeMs": 90_000})
    across = completed("2026-01-31T01:00:15.000Z", 60_000)  # of which five seconds came after
    assert used([before, ended, across]) == 95
    open_child = [happened("01:00:20", "RUN_CREATED", run="child"), completed("2026-01-31T01:00:40.000Z", 20_000)]
    assert used([before, ended, across, *open_child]) == 115


def test_what_a_fork_copied_was_another_runs_time() -> None:
    origin = {"runId": "old", "at": "00000002", "origin": "old"}
    created = happened("01:00:00", "RUN_CREATED", number=1, forkedFrom=origin)
    copied = completed("2026-01-31T01:00:00.000Z", 60_000)
    own = Event(id="00000003", runId="r", type=copied.type, ts="2026-01-31T02:00:00.000Z", payload=copied.payload)
    assert used([created, copied, own]) == 60


def test_a_limit_that_was_asked_for_stops_and_a_default_fails_the_step() -> None:
    assert isinstance(Timekeeper(1).over("plan.1"), StepFailed)
    stopped = Timekeeper(90, run_id="R", asked=True).over("plan.1")
    assert isinstance(stopped, TimeReached) and stopped.exit_code == 4
    assert "orchestra resume R --max-time 3m" in str(stopped)


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("1.5", 1.5), ("90s", 90), ("15m", 900), ("2h", 7200)])
def test_a_duration_is_read_and_written(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds
    assert seconds_of(duration_text(seconds)) == seconds


def test_a_duration_is_written_in_its_largest_unit() -> None:
    assert [duration_text(one) for one in (3600, 60, 90, 7260)] == ["1h", "1m", "90s", "121m"]


@pytest.mark.parametrize("text", ["", "h", "0", "-3", "nan", "inf", "2d", "1h30m", "두 시간", "1e99"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        seconds_of(text)


def test_only_the_time_in_which_something_works_or_a_retry_waits_counts() -> None:
    times = iter([0.0, 10.0, 11.0, 13.0, 14.0, 20.0, 30.0, 31.0, 32.0, 100.0])
    keeper = Timekeeper(60, clock=lambda: next(times))  # at 0
    with keeper.working(), keeper.working():  # from 10, and beside it from 11
        pass  # to 13, and to 14
    assert keeper.worked == 4  # asked at 20
    keeper.waits(5)  # from 30
    keeper.waits(2)  # from 31, beside the other
    assert keeper.worked == 6
    assert keeper.left == 51  # the longer wait was over at 35


def test_a_retry_waits_only_as_long_as_the_time_that_was_asked_for_lasts() -> None:
    def still() -> float:
        return 0.0

    asyncio.run(Timekeeper(0, clock=still).pause(0.001, "plan.1"))  # a default: the step fails by itself
    asyncio.run(Timekeeper(0.001, clock=still, asked=True).pause(0.001, "plan.1"))
    with pytest.raises(TimeReached):
        asyncio.run(Timekeeper(0.001, clock=still, asked=True).pause(60, "plan.1"))
