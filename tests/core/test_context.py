"""What makes linear code durable: the context's eight rules, across several lives of a run."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orchestra.core.context import Context, Step
from orchestra.core.disk import Chaos, Disk
from orchestra.core.editions import Keep, keeps
from orchestra.core.effects import Sleep
from orchestra.core.errors import ContractError, DiskFull, Drift, DurabilityError, StepFailed, Suspended
from orchestra.core.records import Event
from orchestra.core.retry import Retry
from tests.support.core import CountingDisk, Doer, Said, Say, live
from tests.support.runs import read_events


def keys(path: Path) -> list[str]:
    return [e.payload["key"] for e in read_events(path / "events.ndjson") if e.type == "PHASE_COMPLETED"]


async def two_steps(ctx: Context) -> list[str]:
    return [(await ctx.perform("draft", Say(word))).text for word in ("하나", "둘")]


def test_a_finished_step_is_never_done_again_and_gives_the_same_value(tmp_path: Path) -> None:
    doer = Doer()
    first = live(tmp_path, two_steps, {Say: doer})
    second = live(tmp_path, two_steps, {Say: doer})
    assert first == second == ["하나", "둘"]
    assert doer.done == ["draft.1", "draft.2"]


def test_a_step_costs_one_sync(tmp_path: Path) -> None:
    disk = CountingDisk()

    async def ten(ctx: Context) -> None:
        for _ in range(10):
            await ctx.perform("s", Say("x"))

    live(tmp_path, ten, {Say: Doer()}, disk=disk)
    assert disk.kinds.count("sync") == 11  # ten barriers, and one on closing


def test_an_inserted_step_disturbs_nothing_that_is_recorded(tmp_path: Path) -> None:
    doer = Doer()
    live(tmp_path, two_steps, {Say: doer})

    async def newer(ctx: Context) -> list[str]:
        await ctx.perform("inserted", Say("new"))
        return await two_steps(ctx)

    assert live(tmp_path, newer, {Say: doer}) == ["하나", "둘"]
    assert doer.done == ["draft.1", "draft.2", "inserted.1"]  # D-03: keys are names, not positions


def test_a_step_that_began_and_did_not_end_is_done_again_and_marked(tmp_path: Path) -> None:
    doer = Doer()

    async def dies(effect: Say, step: Step) -> Said:
        raise Suspended("as if killed in the middle")

    with pytest.raises(Suspended):
        live(tmp_path, two_steps, {Say: dies})
    assert live(tmp_path, two_steps, {Say: doer}) == ["하나", "둘"]
    assert doer.redone == ["draft.1"]
    events = read_events(tmp_path / "events.ndjson")
    assert [e.type for e in events].count("PHASE_STARTED") == 2  # the intent stands, it is not written again
    assert [e.payload.get("redone") for e in events if e.type == "PHASE_COMPLETED"] == [True, None]


def test_another_intent_under_a_recorded_key_is_drift_named_by_its_key(tmp_path: Path) -> None:
    doer = Doer()
    live(tmp_path, two_steps, {Say: doer})

    async def changed(ctx: Context) -> str:
        return (await ctx.perform("draft", Say("다른 것"))).text

    with pytest.raises(Drift, match=r"draft\.1") as drift:
        live(tmp_path, changed, {Say: doer})
    assert "--accept-drift draft.1" in str(drift.value)
    assert "fork" in str(drift.value)
    assert 'text was "하나", and is "다른 것" now' in str(drift.value) and "sha256" not in str(drift.value)

    async def another(ctx: Context) -> str:
        return await ctx.now("draft")

    with pytest.raises(Drift, match="it was Say, and is Now now"):
        live(tmp_path, another, {Say: doer})

    async def secret(ctx: Context) -> None:
        await ctx.perform("draft", Say("s3cr3t-value-1234"))

    with pytest.raises(Drift) as hidden:
        live(tmp_path, secret, {Say: doer})
    assert "s3cr3t" not in str(hidden.value)
    assert live(tmp_path, changed, {Say: doer}, accepted_drift=frozenset({"draft.1"})) == "하나"


def test_a_broken_contract_is_a_recorded_failure_with_its_outcome_kept(tmp_path: Path) -> None:
    def refuse(said: Said) -> str:
        raise ContractError("too_short", f"{said.text!r} is too short")

    async def flow(ctx: Context) -> str:
        try:
            return await ctx.perform("draft", Say("x"), accept=refuse)
        except StepFailed as failed:
            return f"{failed.code} {failed.reason} {failed}"

    first = live(tmp_path, flow, {Say: Doer()})
    assert first == "CONTRACT too_short 'x' is too short" == live(tmp_path, flow, {})
    failed = read_events(tmp_path / "events.ndjson")[-1]
    assert failed.type == "PHASE_FAILED"
    assert failed.payload["outcome"]["text"] == "x"


def test_accept_sees_what_a_replay_will_see(tmp_path: Path) -> None:
    seen: list[str] = []

    def note(said: Said) -> str:
        seen.append(said.text)
        return said.text

    async def flow(ctx: Context) -> str:
        return await ctx.perform("draft", Say("s3cr3t-value-1234"), accept=note)

    assert live(tmp_path, flow, {Say: Doer()}) == live(tmp_path, flow, {}) == "***REDACTED***"
    assert set(seen) == {"***REDACTED***"}


class Flaky:
    """Fails a number of times, then works."""

    def __init__(self, failures: int, *, retriable: bool = True) -> None:
        self.left = failures
        self.retriable = retriable
        self.keys: list[str] = []

    async def __call__(self, effect: Say, step: Step) -> Said:
        self.keys.append(step.key)
        if self.left:
            self.left -= 1
            raise StepFailed(step.key, "RATE_LIMIT", "busy", retriable=self.retriable, retry_after=0.02)
        return Said(effect.text)


async def retried(ctx: Context) -> str:
    return (await ctx.perform("call", Say("x"), retry=Retry(times=2, base_sec=0.01))).text


def test_a_retry_is_a_step_with_a_name_and_a_journaled_deadline(tmp_path: Path) -> None:
    flaky = Flaky(2)
    assert live(tmp_path, retried, {Say: flaky}) == "x"
    assert flaky.keys == ["call.1", "call.2", "call.3"]
    events = read_events(tmp_path / "events.ndjson")
    assert [e.payload.get("attempt") for e in events if e.type == "PHASE_STARTED"] == [None, 2, 3]
    failures = [e for e in events if e.type == "PHASE_FAILED"]
    for event in failures:
        waited = datetime.fromisoformat(event.payload["retryAt"]) - datetime.fromisoformat(event.ts)
        assert waited.total_seconds() >= 0.015  # the longer of backoff and what the other side asked for (C-10)


def test_a_kill_does_not_reset_the_count_of_retries(tmp_path: Path) -> None:
    with pytest.raises(StepFailed):
        live(tmp_path, retried, {Say: Flaky(9)})
    again = Flaky(0)
    with pytest.raises(StepFailed):
        live(tmp_path, retried, {Say: again})
    assert again.keys == []  # three attempts are recorded; there is no fourth


def test_the_intent_of_a_next_try_says_how_long_the_process_waited_that_went_on(tmp_path: Path) -> None:
    """What the process waited that recorded the failure is in its reading of the clock (core/worked.py)."""

    async def killed(ctx: Context) -> str:
        async with asyncio.timeout(0.05):
            return (await ctx.perform("call", Say("x"), retry=Retry(times=2, base_sec=0.4))).text

    async def on(ctx: Context) -> str:
        return (await ctx.perform("call", Say("x"), retry=Retry(times=2, base_sec=0.4))).text

    with pytest.raises(TimeoutError):
        live(tmp_path, killed, {Say: Flaky(1)})
    assert live(tmp_path, on, {Say: Flaky(1)}) == "x"
    events = read_events(tmp_path / "events.ndjson")
    _, second, third = (e.payload for e in events if e.type == "PHASE_STARTED")
    assert 0 < second["waitedMs"] <= 350  # not what the first process waited
    assert 400 < third["waitedMs"] <= 800
    [first, _] = [e for e in events if e.type == "PHASE_FAILED"]
    waited = datetime.fromisoformat(first.payload["retryAt"]) - datetime.fromisoformat(first.ts)
    assert waited.total_seconds() >= second["waitedMs"] / 1000


def test_what_is_not_retriable_is_not_retried(tmp_path: Path) -> None:
    flaky = Flaky(1, retriable=False)
    with pytest.raises(StepFailed):
        live(tmp_path, retried, {Say: flaky})
    assert flaky.keys == ["call.1"]


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 2.0), (2, 4.0), (3, 8.0)])
def test_waits_double(attempt: int, seconds: float) -> None:
    assert Retry(times=3, base_sec=2).wait(attempt) == seconds
    assert Retry(times=3, base_sec=2).wait(attempt, at_least=30) == 30


def test_time_and_chance_are_the_same_on_every_replay(tmp_path: Path) -> None:
    async def flow(ctx: Context) -> tuple[str, str, str]:
        return await ctx.now(), await ctx.new_id(), await ctx.new_id()

    first = live(tmp_path, flow, {})
    assert first == live(tmp_path, flow, {})
    assert first[1] != first[2]


def test_a_sleep_keeps_its_deadline_across_lives(tmp_path: Path) -> None:
    async def flow(ctx: Context) -> str:
        await ctx.sleep(3600, "nap")
        return "awake"

    async def killed(ctx: Context) -> str:
        async with asyncio.timeout(0.05):
            return await flow(ctx)

    with pytest.raises(TimeoutError):
        live(tmp_path, killed, {})
    [started] = [e for e in read_events(tmp_path / "events.ndjson") if e.type == "PHASE_STARTED"]
    left = datetime.fromisoformat(started.payload["deadline"]) - datetime.now(UTC)
    assert 3500 < left.total_seconds() <= 3600
    with pytest.raises(TimeoutError):
        live(tmp_path, killed, {})
    assert [e.type for e in read_events(tmp_path / "events.ndjson")].count("PHASE_STARTED") == 1


def test_a_sleep_ends_at_its_deadline_and_is_not_slept_again(tmp_path: Path) -> None:
    async def flow(ctx: Context) -> str:
        return (await ctx.perform("nap", Sleep(0.05))).at

    woke = live(tmp_path, flow, {})
    [started, ended] = read_events(tmp_path / "events.ndjson")[1:]
    assert (started.type, ended.type) == ("PHASE_STARTED", "PHASE_COMPLETED")
    deadline = datetime.fromisoformat(started.payload["deadline"])
    rounded = timedelta(milliseconds=5)  # moments are written to the millisecond
    assert deadline <= datetime.fromisoformat(started.ts) + timedelta(seconds=0.05) + rounded
    assert datetime.fromisoformat(woke) >= deadline - rounded and ended.payload["outcome"]["at"] == woke
    assert live(tmp_path, flow, {}) == woke


def test_a_sleep_says_how_long_the_process_waited_that_found_it_begun(tmp_path: Path) -> None:
    async def flow(ctx: Context) -> str:
        return (await ctx.perform("nap", Sleep(0.4))).at

    async def killed(ctx: Context) -> str:
        async with asyncio.timeout(0.05):
            return await flow(ctx)

    with pytest.raises(TimeoutError):
        live(tmp_path, killed, {})
    live(tmp_path, flow, {})
    ended = read_events(tmp_path / "events.ndjson")[-1]
    assert 0 < ended.payload["outcome"]["waitedMs"] <= 350  # not what the first process waited


# -- concurrency ------------------------------------------------------------------------------------------------------


def test_branches_have_scopes_of_their_own_and_replay_in_any_order(tmp_path: Path) -> None:
    doer = Doer()

    def branch(word: str):  # type: ignore[no-untyped-def]  # the flow's own small closure
        async def run(ctx: Context) -> str:
            await ctx.perform("draft", Say(word))
            return (await ctx.perform("draft", Say(word + "!"))).text

        return run

    async def forward(ctx: Context) -> dict[str, str]:
        return await ctx.fan_out({name: branch(name) for name in ("a", "b", "c")})

    async def backward(ctx: Context) -> dict[str, str]:
        return await ctx.fan_out({name: branch(name) for name in ("c", "b", "a")})

    assert live(tmp_path, forward, {Say: doer}) == {"a": "a!", "b": "b!", "c": "c!"}
    assert live(tmp_path, backward, {Say: doer}) == {"a": "a!", "b": "b!", "c": "c!"}
    assert sorted(doer.done) == ["a/draft.1", "a/draft.2", "b/draft.1", "b/draft.2", "c/draft.1", "c/draft.2"]


def test_the_same_branches_again_are_other_steps(tmp_path: Path) -> None:
    doer = Doer()

    async def branch(ctx: Context) -> str:
        return (await ctx.perform("draft", Say("x"))).text

    async def flow(ctx: Context) -> None:
        for _ in range(2):
            await ctx.fan_out({"a": branch, "b": branch})

    live(tmp_path, flow, {Say: doer})
    live(tmp_path, flow, {Say: doer})
    assert sorted(doer.done) == ["a.2/draft.1", "a/draft.1", "b.2/draft.1", "b/draft.1"]


@pytest.mark.parametrize("name", ["a/b", "draft.2"])
def test_a_branch_whose_name_could_be_another_place_is_refused(tmp_path: Path, name: str) -> None:
    async def branch(ctx: Context) -> str:
        return "x"

    async def flow(ctx: Context) -> None:
        await ctx.fan_out({name: branch})

    with pytest.raises(DurabilityError, match="may not contain"):
        live(tmp_path, flow, {})


def test_a_hundred_branches_share_their_syncs(tmp_path: Path) -> None:
    disk = CountingDisk()

    async def one(ctx: Context) -> None:
        await ctx.perform("s", Say("x"))

    async def flow(ctx: Context) -> None:
        await ctx.fan_out({f"b{n}": one for n in range(100)})

    live(tmp_path, flow, {Say: Doer()}, disk=disk)
    assert disk.kinds.count("append") >= 200
    assert disk.kinds.count("sync") <= 5


def test_a_failed_branch_lets_the_others_finish(tmp_path: Path) -> None:
    doer = Doer()

    async def good(ctx: Context) -> str:
        await asyncio.sleep(0.02)
        return (await ctx.perform("s", Say("good"))).text

    async def bad(ctx: Context) -> str:
        raise ContractError("bad", "bad branch")

    async def flow(ctx: Context) -> dict[str, str]:
        return await ctx.fan_out({"bad": bad, "good": good})

    with pytest.raises(ContractError, match="bad branch"):
        live(tmp_path, flow, {Say: doer})
    assert doer.done == ["good/s.1"]


def test_a_parked_branch_lets_the_others_finish(tmp_path: Path) -> None:
    doer = Doer()

    async def good(ctx: Context) -> str:
        return (await ctx.perform("s", Say("good"))).text

    async def parks(ctx: Context) -> str:
        raise Suspended("waits")

    async def flow(ctx: Context) -> dict[str, str]:
        return await ctx.fan_out({"parks": parks, "good": good})

    with pytest.raises(Suspended):
        live(tmp_path, flow, {Say: doer})
    assert doer.done == ["good/s.1"]


def test_at_most_limit_branches_run_at_once(tmp_path: Path) -> None:
    running, most = 0, 0

    async def branch(ctx: Context) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1

    async def flow(ctx: Context) -> None:
        await ctx.fan_out({f"b{n}": branch for n in range(10)}, limit=3)

    live(tmp_path, flow, {})
    assert most == 3


def test_a_limit_below_0_is_a_mistake_and_not_no_branch_at_all(tmp_path: Path) -> None:
    async def flow(ctx: Context) -> object:
        return await ctx.fan_out({"a": lambda c: c.perform("s", Say("x"))}, limit=-1)

    with pytest.raises(DurabilityError, match="the limit of branches is -1: give 1 or more"):
        live(tmp_path, flow, {})


def test_a_branch_after_one_that_does_not_exist_is_a_mistake(tmp_path: Path) -> None:
    async def flow(ctx: Context) -> None:
        async def branch(ctx: Context) -> None: ...

        await ctx.graph({"a": branch, "b": branch}, {"b": ["typo"]})

    with pytest.raises(DurabilityError, match="comes after 'typo', which is no branch"):
        live(tmp_path, flow, {})


def test_a_long_replay_lets_others_have_their_turn(tmp_path: Path) -> None:
    """Or a Ctrl-C would wait for the end of it."""
    turns = 0

    async def flow(ctx: Context) -> None:
        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.ensure_future(others())
        await ctx.fan_out({f"b{n}": lambda c: c.perform("s", Say("x")) for n in range(1000)}, limit=4)
        beside.cancel()

    live(tmp_path, flow, {Say: Doer()})
    turns, doer = 0, Doer()
    live(tmp_path, flow, {Say: doer})
    assert doer.done == [] and turns >= 10


def test_a_parent_scope_performs_nothing_while_its_branches_run(tmp_path: Path) -> None:
    async def flow(ctx: Context) -> None:
        async def meddles(branch: Context) -> None:
            await ctx.perform("s", Say("in the parent's scope"))

        await ctx.fan_out({"meddles": meddles})

    with pytest.raises(DurabilityError, match="while its branches run"):
        live(tmp_path, flow, {Say: Doer()})


def test_suspension_cannot_be_swallowed_by_except_exception(tmp_path: Path) -> None:
    async def waits(effect: Say, step: Step) -> Said:
        raise Suspended("waits")

    async def greedy(ctx: Context) -> str:
        try:
            await ctx.perform("s", Say("x"))
        except Exception:
            return "swallowed"
        return "done"

    with pytest.raises(Suspended):
        live(tmp_path, greedy, {Say: waits})


class Pausing(Doer):
    """A handler that fails twice, and waits for the next try itself."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[tuple[str, bool]] = []

    async def __call__(self, effect: Say, step: Step) -> Said:
        said = await super().__call__(effect, step)
        if len(self.done) < 3:
            raise StepFailed("s", "BUSY", "잠시 뒤에", retriable=True)
        return said

    async def pause(self, seconds: float, key: str) -> None:
        self.waited.append((key, 0 < seconds <= 4))


def test_a_handler_that_can_pause_waits_for_its_next_try_itself(tmp_path: Path) -> None:
    doer = Pausing()

    async def flow(ctx: Context) -> str:
        return (await ctx.perform("s", Say("끝"), retry=Retry(times=2, base_sec=2.0))).text

    assert live(tmp_path, flow, {Say: doer}) == "끝"
    assert doer.waited == [("s.1", True), ("s.2", True)]


class Preparing(Doer):
    """Prepares a step, and then the disk is full."""

    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self.dropped: list[str] = []
        self._disk = disk

    async def prepare(self, effect: Say, key: str, left: Event | None) -> Mapping[str, object]:
        self._disk.chaos = Chaos(1, "enospc")
        return {}

    async def drop(self, key: str) -> None:
        self.dropped.append(key)


def test_what_was_prepared_for_a_step_whose_intent_cannot_be_written_is_dropped(tmp_path: Path) -> None:
    """Otherwise the blocked process of a command would wait for ever."""
    doer = Preparing(disk := Disk())

    async def flow(ctx: Context) -> None:
        await ctx.perform("s", Say("x"))

    with pytest.raises(DiskFull):
        live(tmp_path, flow, {Say: doer}, disk=disk)
    assert doer.dropped == ["s.1"] and doer.redone == []


def test_an_error_of_the_disk_in_a_step_stops_the_run_and_names_the_file_and_the_cure(tmp_path: Path) -> None:
    async def broken(effect: Say, step: Step) -> Said:
        raise OSError(errno.EIO, "Input/output error", "/tmp/파일")

    async def flow(ctx: Context) -> None:
        try:
            await ctx.perform("s", Say("x"))
        except DurabilityError as stopped:
            assert f"Input/output error (/tmp/파일). When that is cured: orchestra resume {ctx.run_id}" in str(stopped)
        ctx.raise_stopped()  # as the engine does, for a flow that catches too much

    with pytest.raises(DurabilityError, match="Input/output error"):
        live(tmp_path, flow, {Say: broken})


def test_a_value_is_kept_when_it_is_another_one_and_the_newest_holds_in_every_drive(tmp_path: Path) -> None:
    async def flow(ctx: Context) -> list[object]:
        found = [ctx.kept("reasons", "none")]
        for reasons in (["하나"], ["하나"], ["하나", "둘"]):
            await ctx.keep("reasons", reasons)
            found.append(ctx.again().kept("reasons", "none"))
        return found

    assert live(tmp_path, flow, {Keep: keeps}) == ["none", ["하나"], ["하나"], ["하나", "둘"]]
    assert keys(tmp_path) == ["reasons@1.1", "reasons@2.1"]
