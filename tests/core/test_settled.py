"""What a run keeps that goes on from another: settled steps, without failures and what depends on them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from msgspec import Struct

from orchestra.core.calls import past_calls
from orchestra.core.context import Context, Step, Verdict
from orchestra.core.copies import Copies
from orchestra.core.disk import Disk
from orchestra.core.effects import ChildRun
from orchestra.core.engine import Beginning, Engine, Kind
from orchestra.core.errors import Drift, JournalCorrupt, StepFailed, UsageError
from orchestra.core.faces import Silent
from orchestra.core.records import ErrorInfo, Event
from orchestra.core.retry import Retry
from orchestra.core.run import RunFolder
from orchestra.core.settled import failures, open_children, settled, settled_before
from orchestra.core.tables import Table
from tests.support.core import OPEN_TABLE, REDACTOR, Said, Say
from tests.support.runs import read_events, store_of

NOTHING = Beginning({}, {})
FAILED = Verdict(status="failed", error=ErrorInfo("SAID", "the flow says so"))


class Order(Struct):
    text: str = ""


Flow = Callable[[Context, Order], Awaitable[Verdict]]


class Lab:
    """An engine whose steps fail as long as their texts are in `broken`, and which counts what is done."""

    def __init__(self, path: Path, table: Table = OPEN_TABLE, **flows: Flow) -> None:
        self.broken: set[str] = set()
        self.done: list[str] = []
        root = path / "runs"

        def admit(begun: ChildRun, parent: Event) -> Beginning:
            return Beginning(begun.params, {})

        kinds = {name: Kind(name, root, table, Order, flow, admit) for name, flow in flows.items()}
        self.engine = Engine(
            kinds.__getitem__,
            store=store_of(),
            disk=Disk(),
            redactor=REDACTOR,
            face=Silent(),
            handlers_for=lambda ledger, created: {Say: self._say},
            before_end=lambda ledger, verdict: None,
            copies=Copies(path, (root,)),
        )

    async def _say(self, effect: Say, step: Step) -> Said:
        self.done.append(step.key)
        if effect.text in self.broken:
            raise StepFailed(step.key, "BROKEN", f"{effect.text} is broken", retriable=True)
        return Said(effect.text)

    def run(self, workflow: str) -> RunFolder:
        folder = self.engine.start(workflow, "x", NOTHING)
        asyncio.run(self.engine.drive(folder))
        return folder

    def again(self, folder: RunFolder) -> tuple[RunFolder, list[str]]:
        """Go on with everything that works by now; the new run, and the steps that were done."""
        self.done.clear()
        self.broken.clear()
        new = asyncio.run(self._again(folder))
        asyncio.run(self.engine.drive(new))
        return new, self.done

    async def _again(self, folder: RunFolder) -> RunFolder:
        return await self.engine.again(folder, self.engine.history(folder)[1], {})


async def say(ctx: Context, name: str, times: int = 0) -> str:
    return (await ctx.perform(name, Say(name), retry=Retry(times, 0.001))).text


async def in_order(ctx: Context, order: Order) -> Verdict:
    for name in ("a", "b", "c"):
        await say(ctx, name, times=1)
    return Verdict(status="completed")


async def in_stages(ctx: Context, order: Order) -> Verdict:
    """Two stages of branches, without a step between them, and one step after each."""

    async def tried(name: str, here: Context) -> bool:
        try:
            await say(here, name)
            await say(here, f"{name}-more")
        except StepFailed:
            return False
        return True

    first = await ctx.fan_out({name: partial(tried, name) for name in ("a", "b", "c")}, limit=1)
    second = await ctx.fan_out({name: partial(tried, name) for name in ("d", "e")})
    await say(ctx, "sum")
    return Verdict(status="completed") if all((*first.values(), *second.values())) else FAILED


async def handles(ctx: Context, order: Order) -> Verdict:
    """What fails first has a substitute; what fails then is the end."""
    try:
        await say(ctx, "a")
    except StepFailed:
        await say(ctx, "instead")
    await say(ctx, "b")
    return Verdict(status="completed")


async def tidies(ctx: Context, order: Order) -> Verdict:
    try:
        await say(ctx, "a")
    finally:
        await say(ctx, "tidy")
    return Verdict(status="completed")


async def notes(ctx: Context, order: Order) -> Verdict:
    """One after the other, whatever comes of it; the verdict at the end."""
    wrong = 0
    for name in ("a", "b", "c"):
        try:
            await say(ctx, name)
        except StepFailed:
            wrong += 1
    return FAILED if wrong else Verdict(status="completed")


@pytest.mark.parametrize(
    ("flow", "broken", "first", "then"),
    [
        (in_order, "b", ["a.1", "b.1", "b.2"], ["b.1", "c.1"]),
        (in_stages, "b", None, ["b/b.1", "b/b-more.1", "d/d.1", "d/d-more.1", "e/e.1", "e/e-more.1", "sum.1"]),
        (in_stages, "a-more", None, ["a/a-more.1", "d/d.1", "d/d-more.1", "e/e.1", "e/e-more.1", "sum.1"]),
        (in_stages, "e", None, ["e/e.1", "e/e-more.1", "sum.1"]),
        (handles, "a b", ["a.1", "instead.1", "b.1"], ["b.1"]),
        (tidies, "a", ["a.1", "tidy.1"], ["a.1", "tidy.1"]),
        (notes, "b", ["a.1", "b.1", "c.1"], ["b.1", "c.1"]),
    ],
)
def test_what_failed_and_what_depends_on_it_is_done_again(
    tmp_path: Path, flow: Flow, broken: str, first: list[str] | None, then: list[str]
) -> None:
    lab = Lab(tmp_path, flow=flow)
    lab.broken = set(broken.split())
    folder = lab.run("flow")
    assert first is None or lab.done == first
    before = folder.events.read_bytes()
    new, done = lab.again(folder)
    assert sorted(done) == sorted(then)
    assert read_events(new.events)[-1].type == "RUN_COMPLETED"
    assert folder.events.read_bytes() == before


def test_an_error_that_nobody_foresaw_blames_no_step(tmp_path: Path) -> None:
    cured: list[bool] = []

    async def flow(ctx: Context, order: Order) -> Verdict:
        await handles(ctx, order)
        if not cured:
            raise ZeroDivisionError
        await say(ctx, "c")
        return Verdict(status="completed")

    lab = Lab(tmp_path, flow=flow)
    lab.broken = {"a"}
    folder = lab.run("flow")
    cured.append(True)
    assert lab.again(folder)[1] == ["c.1"]


def test_code_that_changed_is_drift_and_makes_no_run(tmp_path: Path) -> None:
    lab = Lab(tmp_path, flow=in_order)
    lab.broken = {"c"}
    folder = lab.run("flow")

    async def other(ctx: Context, order: Order) -> Verdict:
        await ctx.perform("a", Say("another text"))
        return Verdict(status="completed")

    with pytest.raises(Drift):
        Lab(tmp_path, flow=other).again(folder)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [folder.id]


def test_a_table_that_forbids_what_is_kept_makes_no_run(tmp_path: Path) -> None:
    strict = {"new": {"RUN_CREATED": "made"}, "made": {"PHASE_STARTED plan": "b"}, "b": {"PHASE_STARTED plan": "ab"}}
    strict |= {"ab": {"PHASE_COMPLETED plan": "done", "PHASE_FAILED plan": "done"}}
    strict |= {"done": {"PHASE_COMPLETED plan": "done", "PHASE_FAILED plan": "done", "RUN_FAILED": "end"}, "end": {}}

    async def both(ctx: Context, order: Order) -> Verdict:
        made = await ctx.fan_out({name: lambda here, name=name: say(here, name) for name in ("a", "b")})  # type: ignore[misc]
        return Verdict(status="completed", result=made)

    lab = Lab(tmp_path, Table("strict", "new", strict), flow=both)
    lab.broken = {"a"}
    folder = lab.run("flow")
    with pytest.raises(UsageError, match=r"orchestra fork .* --at EVENT"):
        lab.again(folder)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [folder.id]


def below(text: str) -> Flow:
    async def flow(ctx: Context, order: Order) -> Verdict:
        child = await ctx.call("child", "below", {"text": text})
        return Verdict(status="completed") if child.status == "completed" else FAILED

    return flow


async def child(ctx: Context, order: Order) -> Verdict:
    await say(ctx, "a")
    await say(ctx, order.text)
    return Verdict(status="completed")


def test_a_failed_child_is_gone_on_from_unless_it_gets_another_job(tmp_path: Path) -> None:
    for changed, done in (("b", ["b.1"]), ("c", ["a.1", "c.1"])):
        place = tmp_path / changed
        lab = Lab(place, top=below("b"), below=child)
        lab.broken = {"b"}
        folder = lab.run("top")
        later = Lab(place, top=below(changed), below=child)
        assert sorted(later.again(folder)[1]) == done
        children = [path for path in (place / "runs").iterdir() if "_below_" in path.name]
        assert len(children) == 2


def test_a_child_that_somebody_changed_is_not_gone_on_from(tmp_path: Path) -> None:
    lab = Lab(tmp_path, top=below("b"), below=child)
    lab.broken = {"b"}
    folder = lab.run("top")
    [old] = [path for path in (tmp_path / "runs").iterdir() if "_below_" in path.name]
    journal = old / "events.ndjson"
    journal.write_bytes(journal.read_bytes().replace(b'"text":"b"', b'"text":"c"'))
    with pytest.raises(JournalCorrupt):
        lab.again(folder)
    assert lab.done == [] and len([path for path in (tmp_path / "runs").iterdir() if "_below_" in path.name]) == 1


def test_a_removed_child_is_begun_anew(tmp_path: Path) -> None:
    lab = Lab(tmp_path, top=below("b"), below=child)
    lab.broken = {"b"}
    folder = lab.run("top")
    [old] = [path for path in (tmp_path / "runs").iterdir() if "_below_" in path.name]
    (old / "events.ndjson").unlink()
    new, done = lab.again(folder)
    assert done == ["a.1", "b.1"] and read_events(new.events)[-1].type == "RUN_COMPLETED"


def event(number: int, type: str, key: str, **payload: object) -> Event:
    ts = "2026-11-18T00:00:00Z"
    return Event(str(number).zfill(8), "r", ts, type, {"key": key, **payload} if key else payload)  # type: ignore[arg-type]


def test_a_patch_that_was_not_applied_is_written_again() -> None:
    """A task whose command made it; the one beside it was rejected, and is only asked about again."""
    events = [
        event(1, "RUN_CREATED", ""),
        event(1, "PHASE_STARTED", "t/open.1"),  # and never ended
        event(2, "PHASE_COMPLETED", "t/run.1", effect="RunCommand"),
        event(3, "PATCH_PRODUCED", "t/patch.1"),
        event(4, "APPROVAL_GRANTED", "t/approve.1"),
        event(5, "PHASE_COMPLETED", "u/run.1", effect="RunCommand"),
        event(6, "PATCH_PRODUCED", "u/patch.1"),
        event(7, "APPROVAL_REQUESTED", "u/approve.1"),
        event(8, "PATCH_APPLY_FAILED", "t/apply.1"),
        event(9, "APPROVAL_REJECTED", "u/approve.1"),
        event(10, "RUN_FAILED", "", error={"code": "TASKS_FAILED", "message": "2 of 2"}),
    ]
    assert failures(events) == {"t/run.1", "u/approve.1"}
    assert [one.id for one in settled(events[:9])] == [f"0000000{n}" for n in (1, 2, 3, 4, 5, 6, 8)]


def test_only_what_was_settled_before_a_step_began_cannot_depend_on_it() -> None:
    events = [
        event(1, "RUN_CREATED", ""),
        event(2, "PHASE_STARTED", "early.1"),
        event(3, "PHASE_STARTED", "beside.1"),
        event(4, "PHASE_COMPLETED", "early.1"),
        event(5, "PHASE_STARTED", "first.1"),
        event(6, "PHASE_FAILED", "first.1"),
        event(7, "PHASE_COMPLETED", "beside.1"),
        event(8, "PHASE_FAILED", "second.1"),
    ]
    assert settled_before(events, ("second.1", "first.1", "gone.1")) == {"early.1"}
    assert settled_before(events, ("second.1",)) == {"early.1", "first.1", "beside.1"}  # it ended as it began
    assert settled_before(events, ()) == {"early.1", "first.1", "beside.1", "second.1"}


def test_an_attempt_that_a_later_one_made_up_for_is_kept_when_only_failures_count_that_the_flow_handled() -> None:
    again = {"effect": "Say", "retryAt": "2026-11-18T00:00:01Z"}
    events = [
        event(1, "RUN_CREATED", ""),
        event(2, "PHASE_FAILED", "a.1", **again),
        event(3, "PHASE_COMPLETED", "a.2", effect="Say"),
        event(4, "PHASE_FAILED", "b.1", **again),
        event(5, "PHASE_FAILED", "b.2", effect="Say"),
        event(6, "PHASE_STARTED", "c.1", effect="Say"),
        event(7, "PHASE_COMPLETED", "c.1", effect="Say"),
        event(8, "RUN_FAILED", "", error={"code": "SAID", "message": "the flow says so"}),
    ]
    assert failures(events, handled=False) == frozenset()
    assert failures(events) == {"b.1", "b.2"}


def test_calls_that_an_older_fork_took_over_are_kept_ones() -> None:
    """Older versions copied all events up to `at`, and recorded no number."""
    call = {"effect": "ModelCall", "role": "planner"}
    events = [
        event(1, "RUN_CREATED", "", forkedFrom={"runId": "old", "at": "00000004"}),
        event(2, "PHASE_STARTED", "a.1", **call),
        event(3, "PHASE_COMPLETED", "a.1", **call),
        event(4, "PHASE_STARTED", "b.1", **call),
        event(5, "PHASE_COMPLETED", "b.1", **call),
    ]
    assert [(call.key, call.kept) for call in past_calls(events)] == [("a.1", True), ("b.1", False)]


def test_a_folder_elsewhere_is_not_copied_for_a_run_that_names_it_as_its_copy(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "p", flow=in_order)
    elsewhere = tmp_path / "2026-01-01_001_loop_남의" / "workspace"
    elsewhere.mkdir(parents=True)
    (elsewhere / "비밀.txt").touch()
    lab.broken = {"b"}
    folder = lab.engine.start("flow", "x", Beginning({}, {"copy": "../2026-01-01_001_loop_남의/workspace"}))
    asyncio.run(lab.engine.drive(folder))
    with pytest.raises(UsageError, match="that is no copy of the project"):
        lab.again(folder)
    assert not list((tmp_path / "p").rglob("비밀.txt"))


@pytest.mark.parametrize(
    ("later", "redone"),
    [
        ((), {"try.1"}),  # the run was stopped while it waited
        ((("PHASE_FAILED", "try.2"),), {"try.1", "try.2"}),  # the attempts of one step
        ((("PHASE_COMPLETED", "try.2"), ("PHASE_FAILED", "more.1")), {"more.1"}),  # it was made up for
    ],
)
def test_an_attempt_counts_with_those_after_it(later: tuple[tuple[str, str], ...], redone: set[str]) -> None:
    events = [event(1, "RUN_CREATED", ""), event(2, "PHASE_FAILED", "try.1", retryAt="2026-11-18T00:00:01Z")]
    events += [event(number, type, key) for number, (type, key) in enumerate(later, start=3)]
    assert failures([*events, event(9, "RUN_CANCELED", "")]) == redone


def test_two_steps_of_one_name_are_no_attempts_of_one_step() -> None:
    events = [
        event(1, "RUN_CREATED", ""),
        event(2, "PHASE_FAILED", "try.1", error={"code": "X", "message": "the first broke"}),
        event(3, "PHASE_COMPLETED", "try.2"),
        event(4, "RUN_FAILED", "", error={"code": "X", "message": "failed: the first broke"}),
    ]
    assert failures(events) == {"try.1"}


def test_only_a_child_run_that_has_not_ended_is_open() -> None:
    child = {"effect": "ChildRun", "workflow": "loop", "childRunId": "c"}
    events = [
        event(1, "RUN_CREATED", ""),
        event(2, "PHASE_STARTED", "call.1", effect="ModelCall"),
        event(3, "PHASE_STARTED", "done.1", **child),
        event(4, "PHASE_COMPLETED", "done.1", effect="ChildRun"),
        event(5, "PHASE_STARTED", "open.1", **child),
    ]
    assert open_children(events) == ["open.1"]
