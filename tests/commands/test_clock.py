"""The total time of a run, from its journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestra.commands.clock import InTime, Timekeeper
from orchestra.core.clockfile import ClockReading
from orchestra.core.effects import Sleep
from orchestra.core.errors import StepFailed, TimeReached
from orchestra.core.records import Event, EventType, utc
from orchestra.core.text import dollars_of, duration_text, seconds_of
from orchestra.core.worked import seconds_worked


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
    assert round(seconds_worked([hour]), 3) == 3600.0
    beside = completed("2026-01-31T01:30:00.000Z", 1_800_000)  # within the hour
    assert round(seconds_worked([beside, hour]), 3) == 3600.0
    later = completed("2026-01-31T03:00:00.000Z", 60_000)
    assert round(seconds_worked([beside, hour, later]), 3) == 3660.0


def happened(at: str, type: EventType, run: str = "r", number: int = 2, **payload: object) -> Event:
    return Event(id=f"{number:08d}", runId=run, type=type, ts=f"2026-01-31T{at}.000Z", payload=payload)


def kept(at: str, seconds: float) -> ClockReading:
    return ClockReading(round(1000 * seconds), f"2026-01-31T{at}.000Z")


def test_time_in_which_a_person_thinks_does_not_count() -> None:
    asked = happened("01:00:00", "QUESTION_RAISED", key="ask.1", effect="AskPerson")
    answered = happened("09:00:00", "QUESTION_ANSWERED", key="ask.1", effect="AskPerson", outcome={"text": "네"})
    assert seconds_worked([asked, answered]) == 0


def test_a_sleep_counts_and_not_the_hours_in_which_nobody_drove_the_run() -> None:
    deadline = "2026-01-31T01:00:30.000Z"
    begun = happened("01:00:00", "PHASE_STARTED", key="sleep.1", effect="Sleep", deadline=deadline)
    over = happened("09:00:00", "PHASE_COMPLETED", key="sleep.1", effect="Sleep", outcome={"at": deadline})
    assert seconds_worked([begun, over]) == 30
    late = happened(
        "09:00:00", "PHASE_COMPLETED", key="sleep.1", effect="Sleep", outcome={"at": deadline, "waitedMs": 0}
    )
    assert seconds_worked([begun, late]) == 0  # another process found it over; the first one's part is in its reading
    assert seconds_worked([begun, late], kept("01:00:05", 5)) == 5
    rest = happened(
        "01:00:31", "PHASE_COMPLETED", key="sleep.1", effect="Sleep", outcome={"at": deadline, "waitedMs": 10_000}
    )
    assert seconds_worked([begun, rest]) == 10
    assert seconds_worked([begun, rest], kept("01:00:05", 5)) == 15


RETRY_AT = "2026-01-31T01:10:00.000Z"
FAILED = happened("01:00:00", "PHASE_FAILED", key="plan.1", effect="ModelCall", error={}, retryAt=RETRY_AT)


def attempt(at: str, number: int = 2, *, waitedMs: object = None) -> Event:
    """The intent of the next attempt at the step that has failed."""
    key = f"plan.{number}"
    return happened(
        at, "PHASE_STARTED", number=number + 1, key=key, effect="ModelCall", attempt=number, waitedMs=waitedMs
    )


def test_a_wait_for_a_retry_that_nobody_ended_counts_as_its_processes_kept_it() -> None:
    """Also if a later process recorded something else before it was killed, too: nobody drove the run between them."""
    assert seconds_worked([FAILED]) == 0
    assert seconds_worked([FAILED], kept("01:00:30", 30)) == 30
    beside = happened("01:08:00", "PHASE_STARTED", number=3, key="other.1", effect="ModelCall")
    assert seconds_worked([FAILED, beside]) == 0
    assert seconds_worked([FAILED, beside], kept("01:08:02", 7)) == 7


def test_a_wait_for_a_retry_counts_as_long_as_the_process_waited_that_ended_it() -> None:
    """A kill five seconds after the failure; hours, or seven minutes, later the run is resumed."""
    late = attempt("09:00:00", waitedMs=0)
    assert seconds_worked([FAILED, late]) == 0
    assert seconds_worked([FAILED, late], kept("01:00:05", 5)) == 5
    rest = attempt("01:10:01", waitedMs=180_000)
    assert seconds_worked([FAILED, rest]) == 180
    assert seconds_worked([FAILED, rest], kept("01:00:05", 5)) == 185
    whole = attempt("01:10:30", waitedMs=600_000)  # and it took half a minute until the next attempt could begin
    assert seconds_worked([FAILED, whole]) == 600
    failed_again = happened(
        "01:10:30", "PHASE_FAILED", number=4, key="plan.2", effect="ModelCall", retryAt="2026-01-31T01:20:00.000Z"
    )
    third = attempt("01:20:00", 3, waitedMs=570_000)
    assert seconds_worked([FAILED, whole, failed_again, third]) == 600 + 570


def moment(seconds: float) -> str:
    """So many seconds after the failure."""
    return utc(datetime.fromisoformat(FAILED.ts) + timedelta(seconds=seconds))


LIVES = st.lists(st.tuples(st.floats(0, 400), st.booleans(), st.floats(0, 4000)), max_size=4)


@given(LIVES)
def test_however_often_a_wait_is_cut_off_what_processes_waited_is_counted(
    lives: list[tuple[float, bool, float]],
) -> None:
    """Each life waits so long, or to the end, and may record something else meanwhile; then nobody drives the run."""
    events, reading = [FAILED], None
    now = truth = 0.0
    for lasts, records, pause in lives:
        base, until = seconds_worked(events, reading), max(now, min(now + lasts, 600.0))
        if records:
            beside = happened("00:00:00", "PHASE_STARTED", number=len(events) + 2, key=f"b.{len(events)}")
            events.append(replace(beside, ts=moment((now + until) / 2)))
        truth += until - now
        reading = ClockReading(round(1000 * (base + until - now)), moment(until))
        if until >= 600:
            ended = attempt("00:00:00", waitedMs=round(1000 * max(0.0, 600 - now)))
            events.append(replace(ended, ts=moment(until)))
            break
        now = until + pause
    assert abs(seconds_worked(events, reading) - truth) < 0.05


def test_a_fork_counts_what_it_waited_after_a_failure_that_it_copied() -> None:
    origin = {"runId": "old", "at": "00000002", "origin": "old"}
    created = happened("01:00:00", "RUN_CREATED", number=1, forkedFrom=origin)
    assert seconds_worked([created, FAILED, attempt("01:10:00", waitedMs=540_000)]) == 540


def test_a_wait_that_an_older_version_recorded_counts_whole_if_the_retry_came_when_it_was_over() -> None:
    assert seconds_worked([FAILED, attempt("01:10:05")]) == 600
    assert seconds_worked([FAILED, attempt("09:00:00")]) == 0
    ages = happened("01:00:00", "PHASE_FAILED", key="plan.1", effect="ModelCall", retryAt="9999-01-01T00:00:00.000Z")
    assert seconds_worked([ages, attempt("01:01:00")]) == 60  # the clock was set back, say


@pytest.mark.parametrize("number", [10**400, -5, "long", None, 1e300])
def test_what_is_no_time_counts_nothing(number: object) -> None:
    sleep = happened("01:00:00", "PHASE_STARTED", key="s.1", effect="Sleep", deadline="2026-01-31T01:00:30.000Z")
    over = happened("01:00:30", "PHASE_COMPLETED", key="s.1", effect="Sleep", outcome={"waitedMs": number})
    child = happened("01:00:30", "PHASE_COMPLETED", key="c.1", effect="ChildRun", outcome={"treeMs": number})
    took = happened("01:00:30", "PHASE_COMPLETED", key="m.1", effect="ModelCall", outcome={"durationMs": number})
    assert seconds_worked([FAILED, attempt("01:10:00", waitedMs=number), child, took]) in (0, 600)
    assert seconds_worked([sleep, over]) in (0, 30)


def test_a_finished_child_need_not_be_read_for_the_time_it_took() -> None:
    """Its step has the reading of the tree's clock; only what came after that, or reaches past it, is added."""
    before = completed("2026-01-31T01:00:00.000Z", 500_000)
    ended = happened("01:00:10", "PHASE_COMPLETED", key="child.1", effect="ChildRun", outcome={"treeMs": 90_000})
    across = completed("2026-01-31T01:00:15.000Z", 60_000)  # of which five seconds came after
    assert seconds_worked([before, ended, across]) == 95
    open_child = [happened("01:00:20", "RUN_CREATED", run="child"), completed("2026-01-31T01:00:40.000Z", 20_000)]
    assert seconds_worked([before, ended, across, *open_child]) == 115


def test_a_reading_beside_the_journal_has_what_was_cut_off_and_what_was_recorded_later_is_added() -> None:
    cut_off = happened("01:00:00", "PHASE_STARTED", key="plan.1", effect="ModelCall")
    assert seconds_worked([cut_off]) == 0
    assert seconds_worked([cut_off], kept("01:00:50", 50)) == 50
    again = completed("2026-01-31T01:01:00.000Z", 20_000)  # of which ten seconds came after the reading
    assert seconds_worked([cut_off, again], kept("01:00:50", 50)) == 60


def test_a_reading_never_takes_from_what_the_journal_has() -> None:
    """An older reading of the same run is genuine: as much as none."""
    minute = completed("2026-01-31T01:01:00.000Z", 60_000)
    assert seconds_worked([minute], kept("00:59:00", 0)) == 60
    assert seconds_worked([minute], kept("01:01:00", 0)) == 60
    child = happened("01:01:30", "PHASE_COMPLETED", key="child.1", effect="ChildRun", outcome={"treeMs": 90_000})
    assert seconds_worked([minute, child], kept("01:02:00", 30)) == 90
    assert seconds_worked([minute, child], kept("01:02:00", 100)) == 100


def test_what_a_fork_copied_was_another_runs_time() -> None:
    origin = {"runId": "old", "at": "00000002", "origin": "old"}
    created = happened("01:00:00", "RUN_CREATED", number=1, forkedFrom=origin)
    copied = completed("2026-01-31T01:00:00.000Z", 60_000)
    own = Event(id="00000003", runId="r", type=copied.type, ts="2026-01-31T02:00:00.000Z", payload=copied.payload)
    assert seconds_worked([created, copied, own]) == 60


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


@pytest.mark.parametrize(("text", "amount"), [("20", 20), ("0.5", 0.5), ("1e-3", 0.001)])
def test_an_amount_of_dollars_is_read(text: str, amount: float) -> None:
    assert dollars_of(text) == amount


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "1e999", "True", "$5", "다섯"])
def test_what_is_no_amount_of_dollars_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        dollars_of(text)


@pytest.mark.parametrize("text", ["", "h", "0", "-3", "nan", "inf", "2d", "1h30m", "두 시간", "1e99"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        seconds_of(text)


def test_only_the_time_in_which_something_works_counts() -> None:
    times = iter([0.0, 10.0, 11.0, 13.0, 14.0, 20.0, 30.0])
    keeper = Timekeeper(60, clock=lambda: next(times))  # at 0
    with keeper.working(), keeper.working():  # from 10, and beside it from 11
        pass  # to 13, and to 14
    assert keeper.worked == 4  # asked at 20
    assert keeper.left == 56  # and at 30


def test_a_retry_waits_only_as_long_as_the_time_that_was_asked_for_lasts() -> None:
    def still() -> float:
        return 0.0

    asyncio.run(Timekeeper(0, clock=still).pause(0.001, "plan.1"))  # a default: the step fails by itself
    asyncio.run(Timekeeper(0.001, clock=still, asked=True).pause(0.001, "plan.1"))
    with pytest.raises(TimeReached):
        asyncio.run(Timekeeper(0.001, clock=still, asked=True).pause(60, "plan.1"))


class Kept:
    """The readings that a clock leaves, in seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._came = asyncio.Event()

    def __call__(self, reading: ClockReading) -> None:
        self.seconds.append(reading.ms / 1000)
        self._came.set()

    async def until(self, enough: Callable[[], bool]) -> None:
        while not enough():
            self._came.clear()
            await self._came.wait()


def test_while_something_works_the_clock_leaves_readings_and_while_a_person_thinks_it_leaves_none() -> None:
    kept = Kept()

    async def scenario() -> None:
        keeper = Timekeeper(60, keep=kept)
        with keeper.working():
            await kept.until(lambda: len(kept.seconds) == 2)
            await asyncio.sleep(0.02)  # so that there is more to keep
        await kept.until(lambda: kept.seconds[-1] == round(keeper.worked, 3))  # the last one has all of it
        count = len(kept.seconds)
        await asyncio.sleep(0.3)
        assert len(kept.seconds) == count
        keeper.stop()
        assert len(kept.seconds) == count  # there is nothing more to tell

    asyncio.run(scenario())
    assert kept.seconds == sorted(kept.seconds) and len(set(kept.seconds)) == len(kept.seconds)


def test_many_short_steps_leave_no_reading_each_and_the_end_of_the_drive_leaves_one() -> None:
    kept = Kept()

    async def scenario() -> None:
        keeper = Timekeeper(60, keep=kept, clock=iter(range(10_000)).__next__)
        for _ in range(1000):
            with keeper.working():
                pass
        assert kept.seconds == []
        keeper.stop()
        assert kept.seconds == [1000]
        with keeper.working():
            pass
        keeper.stop()
        assert kept.seconds == [1000]  # the claim of the run was given up

    asyncio.run(scenario())


def test_a_clock_goes_on_from_the_reading_it_finds_and_leaves_none_until_something_works() -> None:
    kept_readings = Kept()
    keeper = Timekeeper(60, found=kept("01:00:00", 50), keep=kept_readings, clock=lambda: 0.0)
    assert keeper.left == 10
    keeper.stop()
    assert kept_readings.seconds == []


def test_the_limit_that_is_offered_is_more_than_what_was_used() -> None:
    limited = Timekeeper(10, found=kept("01:00:00", 100), run_id="R", asked=True, clock=lambda: 0.0)
    assert "orchestra resume R --max-time 160s" in str(limited.over("plan.1"))


class Door:
    """A handler that may refuse a step before it begins; here it refuses none."""

    def __init__(self) -> None:
        self.came: list[str] = []

    async def guard(self, effect: Any, key: str, *, redo: bool) -> Mapping[str, Any] | None:
        self.came.append(key)
        return {}

    async def __call__(self, effect: Any, step: Any) -> str:
        return "done"


@pytest.mark.parametrize(("total", "asked", "begun"), [(1, True, True), (0, True, False), (0, False, True)])
def test_no_step_is_begun_when_the_time_that_was_asked_for_is_used_up(total: float, asked: bool, begun: bool) -> None:
    door = Door()
    keeper = Timekeeper(total, clock=lambda: 0.0, asked=asked, run_id="r")
    guarded = InTime(door, keeper).guard(Sleep(1.0), "plan.1", redo=False)
    if begun:
        assert asyncio.run(guarded) == {} and door.came == ["plan.1"]
    else:
        with pytest.raises(TimeReached, match="step plan"):
            asyncio.run(guarded)
        assert door.came == []
