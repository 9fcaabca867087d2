"""The engine's six rules, on small workflows of the tests' own."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Struct

from orchestra.core import inbox
from orchestra.core.context import Context, Handlers, Step, Verdict
from orchestra.core.disk import Disk
from orchestra.core.effects import ChildRun
from orchestra.core.engine import Beginning, Engine, Kind
from orchestra.core.errors import BudgetReached, Drift, RunLocked, StepFailed, UsageError
from orchestra.core.faces import Happened, News, Notice, Waiting
from orchestra.core.records import ArtifactRef, Event, WorkflowState
from orchestra.core.retry import Retry
from orchestra.core.run import RunFolder, digest
from orchestra.core.tables import Fold
from orchestra.core.tree import child_id
from orchestra.core.work import Applied, ApplyPatch, Approval, AskPerson, AutoApprove, Reply
from tests.support.core import OPEN_TABLE, REDACTOR, CountingDisk, Said, Say, new_ledger
from tests.support.runs import claimed, read_events, store_of

NOTHING = Beginning({}, {})


class Order(Struct):
    """Parameters of a test workflow."""

    text: str = ""


class Notes:
    """A face that remembers."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.notices: list[str] = []
        self.asked: asyncio.Event | None = None
        self.asleep: asyncio.Event | None = None

    def tell(self, news: News) -> None:
        match news:
            case Happened(event):
                self.event(event)
            case Waiting() if self.asked:
                self.asked.set()
            case Notice():
                self.notices.append(news.text)

    def event(self, event: Event) -> None:
        self.events.append(event)
        if self.asleep and event.payload.get("effect") == "Sleep":
            self.asleep.set()


Flow = Callable[[Context, Order], Awaitable[Verdict]]


def engine(
    root: Path, notes: Notes | None = None, *, disk: Disk | None = None, handlers: Handlers | None = None, **flows: Flow
) -> Engine:
    def admit(begun: ChildRun, parent: Event) -> Beginning:
        return Beginning(begun.params, {})

    kinds = {name: Kind(name, root / "runs", OPEN_TABLE, Order, flow, admit) for name, flow in flows.items()}
    return Engine(
        kinds.__getitem__,
        store=store_of(disk=disk),
        disk=disk or Disk(),
        redactor=REDACTOR,
        face=notes or Notes(),
        handlers_for=lambda ledger, created: handlers or {},
        before_end=lambda ledger, verdict: None,
    )


def forked(one: Engine, folder: RunFolder, at: str) -> RunFolder:
    return one.fork(folder, one.history(folder, at)[1], at, {})


def types(folder: RunFolder) -> list[str]:
    return [event.type for event in read_events(folder.events)]


async def question(ctx: Context, name: str = "q") -> str:
    asked = AskPerson(questionId=name, question="?", reason="", needed_input=(), artifact=f"ask/{name}.md")
    return (await ctx.perform(name, asked)).text


async def asks(ctx: Context, order: Order) -> Verdict:
    return Verdict(status="completed", result={"said": await question(ctx)})


async def naps(ctx: Context, order: Order) -> Verdict:
    await ctx.sleep(3600)
    return Verdict(status="completed")


async def calls_naps(ctx: Context, order: Order) -> Verdict:
    await ctx.call("child", "naps", {"text": ""})
    await ctx.now("after")
    return Verdict(status="completed")


async def calls_asks(ctx: Context, order: Order) -> Verdict:
    child = await ctx.call("child", "asks", {})
    return Verdict(status="completed", result=child.result)


def answer(folder: RunFolder, name: str, text: str) -> None:
    store_of().deliver(folder, name, inbox.message("answer", "tester", text=text))


def cancel(folder: RunFolder) -> None:
    store_of().deliver(folder, inbox.CANCEL, inbox.message("cancel", "tester", text="그만"))


def test_a_parked_run_holds_no_lock_and_goes_on_with_its_answer(tmp_path: Path) -> None:
    one = engine(tmp_path, asks=asks)
    folder = one.start("asks", "이름", NOTHING)
    assert folder.id.endswith("_001_asks_이름")
    assert asyncio.run(one.drive(folder)).exit_code == 3
    answer(folder, "q", "네")
    end = asyncio.run(engine(tmp_path, asks=asks).drive(folder))
    assert (end.status, end.exit_code) == ("completed", 0)
    assert read_events(folder.events)[-1].payload["result"] == {"said": "네"}


def test_what_is_durable_and_in_which_order(tmp_path: Path) -> None:
    """What a power cut could take away: only the order of operations can show that it cannot (rule 1, core/disk.py)."""
    disk = CountingDisk()

    def done() -> list[str]:
        found = [f"{kind} {name.replace(f'.{os.getpid()}', '')}" for kind, name in disk.operations]
        disk.operations.clear()
        return found

    one = engine(tmp_path, disk=disk, asks=asks)
    folder = one.start("asks", "x", Beginning({}, {}, {"plan.txt": b"what the run begins with"}))
    state, event = ["append state.json.tmp", "replace state.json"], ["append events.ndjson"]
    assert done() == [
        *("append plan.txt.tmp", "sync plan.txt.tmp", "replace plan.txt", f"sync {folder.id}"),
        *(*event, "append run.log", f"sync {folder.id}", "sync runs", "sync events.ndjson"),
        *state,
    ]
    asyncio.run(one.drive(folder))
    ask = ["append q.md.tmp", "replace q.md"]
    assert done() == [*state, *event, *state, "append run.log", "sync events.ndjson", *ask]
    answer(folder, "q", "네")
    asyncio.run(one.drive(folder))
    told = [*event, *state, "append run.log"]
    assert done() == [*state, "sync events.ndjson", *ask, *ask, *told, *told, "sync events.ndjson"]
    new = forked(one, folder, "00000003")
    assert done() == [
        *event,
        "append run.log",
        *told,
        *told,
        "sync events.ndjson",
        f"sync .{new.id}.fork",
        f"replace {new.id}",
        "sync runs",
    ]


@pytest.mark.spec("S1-113")
def test_the_state_file_says_at_every_event_what_the_journal_says(tmp_path: Path) -> None:
    class Reader(Notes):
        """Reads it as another process would, whenever something has happened."""

        def event(self, event: Event) -> None:
            super().event(event)
            path = tmp_path / "runs" / event.runId / "state.json"
            if event.type != "RUN_CREATED":
                shown.append(msgspec.json.decode(path.read_bytes(), type=WorkflowState))

    async def flow(ctx: Context, order: Order) -> Verdict:
        await ctx.at("plan", 1).now()
        await ctx.at("plan", 1).now()
        await ctx.at("fix", 2).now()
        return await asks(ctx.at("evaluate", 2), order)

    shown: list[WorkflowState] = []
    one = engine(tmp_path, Reader(), flow=flow)
    folder = one.start("flow", "x", NOTHING)
    asyncio.run(one.drive(folder))
    answer(folder, "q", "네")
    assert asyncio.run(one.drive(folder)).status == "completed"
    said = [Fold.of(read_events(folder.events)[: n + 2]).state for n in range(len(shown))]
    seen = [(s.status, s.currentPhase, s.iteration, s.pendingQuestionId) for s in shown]
    assert seen == [(s.status, s.currentPhase, s.iteration, s.pendingQuestionId) for s in said]
    assert seen[0] == ("running", "plan", 1, UNSET) and seen[-3] == ("awaiting_input", "evaluate", 2, "q")


def test_an_answer_that_comes_while_the_run_parks_is_not_left_lying(tmp_path: Path) -> None:
    class Late(Notes):
        """Answers at the last moment: when the question is recorded, before the driver lets go of the lock."""

        def event(self, event: Event) -> None:
            if event.type == "QUESTION_RAISED":
                answer(RunFolder(tmp_path / "runs" / event.runId), "q", "just in time")

    one = engine(tmp_path, Late(), asks=asks)
    folder = one.start("asks", "late", NOTHING)
    assert asyncio.run(one.drive(folder)).status == "completed"


def test_a_second_driver_is_refused(tmp_path: Path) -> None:
    one = engine(tmp_path, asks=asks)
    folder = one.start("asks", "x", NOTHING)
    with claimed(folder), pytest.raises(RunLocked, match="being driven by another process"):
        asyncio.run(one.drive(folder))


async def cancel_when_asleep(one: Engine, notes: Notes, folder: RunFolder, who: str) -> Any:
    """Drive a run until it, or a child of its, naps; then cancel it, or its only child."""
    notes.asleep = asyncio.Event()
    driving = asyncio.ensure_future(one.drive(folder))
    await notes.asleep.wait()
    if who == "child":
        [child] = [RunFolder(path) for path in folder.path.parent.iterdir() if path.name != folder.id]
    cancel(child if who == "child" else folder)
    return await driving


@pytest.mark.parametrize("workflow", ["naps", "calls_naps"])
def test_a_cancel_reaches_the_whole_tree_and_nothing_goes_on_after_it(tmp_path: Path, workflow: str) -> None:
    notes = Notes()
    one = engine(tmp_path, notes, naps=naps, calls_naps=calls_naps)
    folder = one.start(workflow, "x", NOTHING)

    assert asyncio.run(cancel_when_asleep(one, notes, folder, "parent")).status == "canceled"
    runs = [RunFolder(path) for path in (tmp_path / "runs").iterdir()]
    assert [types(run)[-1] for run in runs] == ["RUN_CANCELED"] * len(runs)
    assert "after" not in folder.events.read_text()


def test_canceling_a_parked_parent_ends_its_parked_child_too(tmp_path: Path) -> None:
    one = engine(tmp_path, asks=asks, parent=calls_asks)
    folder = one.start("parent", "x", NOTHING)
    assert asyncio.run(one.drive(folder)).exit_code == 3
    cancel(folder)
    assert asyncio.run(one.drive(folder)).status == "canceled"
    runs = [RunFolder(path) for path in (tmp_path / "runs").iterdir()]
    assert len(runs) == 2 and {types(run)[-1] for run in runs} == {"RUN_CANCELED"}


def test_a_cancel_is_not_lost_among_branches(tmp_path: Path) -> None:
    async def parent(ctx: Context, order: Order) -> Verdict:
        async def quick(branch: Context) -> str:
            return await branch.new_id()

        async def slow(branch: Context) -> str:
            return (await branch.call("child", "naps", {})).childRunId

        await ctx.fan_out({"quick": quick, "slow": slow})
        return Verdict(status="completed")

    notes = Notes()
    one = engine(tmp_path, notes, naps=naps, parent=parent)
    folder = one.start("parent", "x", NOTHING)

    assert asyncio.run(cancel_when_asleep(one, notes, folder, "child")).status == "canceled"
    assert read_events(folder.events)[-1].payload["result"] == {"reason": "그만"}


@pytest.mark.parametrize(("limit", "who"), [(1, "parent"), (2, "parent"), (1, "child")])
def test_after_a_cancel_no_branch_begins_any_more(tmp_path: Path, limit: int, who: str) -> None:
    async def parent(ctx: Context, order: Order) -> Verdict:
        async def one(branch: Context) -> str:
            return (await branch.call("child", "naps", {})).childRunId

        await ctx.fan_out({f"b{n}": one for n in range(5)}, limit=limit)
        return Verdict(status="completed")

    notes = Notes()
    one = engine(tmp_path, notes, naps=naps, parent=parent)
    folder = one.start("parent", "x", NOTHING)

    assert asyncio.run(cancel_when_asleep(one, notes, folder, who)).status == "canceled"
    assert len(list((tmp_path / "runs").iterdir())) <= 1 + limit


def test_a_cancel_finishes_a_granted_patch_and_waits_for_no_retry(tmp_path: Path) -> None:
    """D-12: the patch of one branch is granted and cut short; another branch waits for a try that is an hour away."""
    patched = digest(b"patch")
    both: list[str] = []
    applied: list[str] = []

    async def busy(effect: Say, step: Step) -> Said:
        both.append(step.key)
        raise StepFailed(step.key, "RATE_LIMIT", "busy", retriable=True)

    async def grant(effect: AutoApprove, step: Step) -> Approval:
        return Approval(granted=True, by=effect.policy, digest=effect.digest)

    async def cut_short(effect: ApplyPatch, step: Step) -> Applied:
        both.append(step.key)
        await asyncio.Event().wait()  # until this life ends
        raise AssertionError

    async def apply(effect: ApplyPatch, step: Step) -> Applied:
        applied.append(step.key)
        return Applied((), (), effect.digest)

    async def flow(ctx: Context, order: Order) -> Verdict:
        async def patient(branch: Context) -> str:
            return (await branch.perform("call", Say("x"), retry=Retry(times=1, base_sec=3600))).text

        async def patching(branch: Context) -> str:
            await branch.perform("granted", AutoApprove(patched, "규칙"))
            await branch.perform("apply", ApplyPatch(Reply("", ArtifactRef("r.txt", 0, "")), patched, ()))
            return (await branch.perform("after", Say("y"))).text

        await ctx.fan_out({"patient": patient, "patching": patching})
        return Verdict(status="completed")

    async def interrupted(one: Engine, folder: RunFolder) -> None:
        driving = asyncio.ensure_future(one.drive(folder))
        while len(both) < 2 and not driving.done():  # noqa: ASYNC110  # the two are the handlers' to note
            await asyncio.sleep(0)
        driving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await driving

    one = engine(tmp_path, handlers={Say: busy, AutoApprove: grant, ApplyPatch: cut_short}, flow=flow)
    folder = one.start("flow", "x", NOTHING)
    asyncio.run(interrupted(one, folder))
    assert sorted(both) == ["patching/apply.1", "patient/call.1"] and "PATCH_APPLIED" not in types(folder)
    cancel(folder)
    end = asyncio.run(
        engine(tmp_path, handlers={Say: busy, AutoApprove: grant, ApplyPatch: apply}, flow=flow).drive(folder)
    )
    assert end.status == "canceled" and applied == ["patching/apply.1"]
    assert types(folder)[-2:] == ["PATCH_APPLIED", "RUN_CANCELED"]
    assert len(both) == 2  # nothing else was begun any more


def test_an_answer_to_a_child_wakes_its_parent(tmp_path: Path) -> None:
    one = engine(tmp_path, asks=asks, parent=calls_asks)
    folder = one.start("parent", "x", NOTHING)
    asyncio.run(one.drive(folder))
    [child] = [RunFolder(path) for path in (tmp_path / "runs").iterdir() if path.name != folder.id]
    answer(child, "q", "from the child's inbox")
    assert asyncio.run(one.drive(folder)).status == "completed"
    assert read_events(folder.events)[-1].payload["result"] == {"said": "from the child's inbox"}


def test_a_drifted_run_can_still_be_canceled(tmp_path: Path) -> None:
    one = engine(tmp_path, asks=asks)
    folder = one.start("asks", "x", NOTHING)
    asyncio.run(one.drive(folder))

    async def changed(ctx: Context, order: Order) -> Verdict:
        asked = AskPerson(questionId="q", question="!", reason="", needed_input=(), artifact="ask/q.md")
        await ctx.perform("q", asked)
        return Verdict(status="completed")

    newer = engine(tmp_path, asks=changed)
    with pytest.raises(Drift):
        asyncio.run(newer.drive(folder))
    cancel(folder)
    assert asyncio.run(newer.drive(folder)).status == "canceled"


@pytest.mark.spec("S1-118", "S1-119")
def test_an_error_nobody_foresaw_is_recorded_with_its_stack(tmp_path: Path) -> None:
    async def breaks(ctx: Context, order: Order) -> Verdict:
        raise ZeroDivisionError("나눗셈")

    one = engine(tmp_path, breaks=breaks)
    folder = one.start("breaks", "x", NOTHING)
    assert asyncio.run(one.drive(folder)).exit_code == 1
    error = read_events(folder.events)[-1].payload["error"]
    assert error["code"] == "INTERNAL" and "ZeroDivisionError: 나눗셈" in error["stack"]
    assert "ZeroDivisionError" in (folder.logs / "run.log").read_text()


def test_a_flow_that_fails_because_a_step_was_stopped_has_not_failed_and_can_go_on(tmp_path: Path) -> None:
    """A flow may catch too much. What stopped the step counts, not the error that the flow made of it."""
    full: list[str] = ["budget"]

    async def budgeted(effect: Say, step: Step) -> Said:
        if full:
            raise BudgetReached("the budget of 1 USD is used up")
        return Said(effect.text)

    async def catches_all(ctx: Context, order: Order) -> Verdict:
        try:
            said = await ctx.perform("say", Say("예"))
        except Exception as error:
            raise RuntimeError("the flow's own error") from error
        return Verdict(status="completed", result={"said": said.text})

    one = engine(tmp_path, handlers={Say: budgeted}, catches_all=catches_all)
    folder = one.start("catches_all", "x", NOTHING)
    with pytest.raises(BudgetReached, match="used up"):
        asyncio.run(one.drive(folder))
    assert "RUN_FAILED" not in types(folder)
    full.clear()
    assert asyncio.run(one.drive(folder)).status == "completed"


def test_a_fork_shares_history_up_to_its_point_and_no_further(tmp_path: Path) -> None:
    async def two(ctx: Context, order: Order) -> Verdict:
        first = await question(ctx, "first")
        return Verdict(status="completed", result={"said": [first, await question(ctx, "second")]})

    one = engine(tmp_path, two=two)
    folder = one.start("two", "x", NOTHING)
    for name in ("first", "second"):
        asyncio.run(one.drive(folder))
        answer(folder, name, f"{name} answer")
    asyncio.run(one.drive(folder))
    before = folder.events.read_bytes()
    fork = forked(one, folder, "00000003")
    assert asyncio.run(one.drive(fork)).exit_code == 3
    answer(fork, "second", "another")
    asyncio.run(one.drive(fork))
    assert read_events(fork.events)[-1].payload["result"] == {"said": ["first answer", "another"]}
    forked_from = read_events(fork.events)[0].payload["forkedFrom"]
    assert forked_from.pop("made") >= read_events(folder.events)[-1].ts
    assert forked_from == {"runId": folder.id, "at": "00000003", "origin": folder.id, "events": 3}
    assert folder.events.read_bytes() == before
    with pytest.raises(UsageError, match="nothing can follow it"):
        forked(one, folder, read_events(folder.events)[-1].id)


def test_a_fork_keeps_the_times_of_its_settled_steps_and_has_children_of_its_own(tmp_path: Path) -> None:
    async def parent(ctx: Context, order: Order) -> Verdict:
        await ctx.now("before")
        return await calls_asks(ctx, order)

    one = engine(tmp_path, asks=asks, parent=parent)
    folder = one.start("parent", "x", NOTHING)
    asyncio.run(one.drive(folder))
    fork = forked(one, folder, read_events(folder.events)[-1].id)
    assert [e.ts for e in read_events(fork.events)] == [e.ts for e in read_events(folder.events)[:-1]]
    asyncio.run(one.drive(fork))
    children = [RunFolder(p) for p in (tmp_path / "runs").iterdir() if "_asks_" in p.name]
    assert len(children) == 2
    for child in children:
        answer(child, "q", child.id)
    for run in (folder, fork):
        asyncio.run(one.drive(run))
    said = [read_events(run.events)[-1].payload["result"]["said"] for run in (folder, fork)]
    assert len(set(said)) == 2


def test_a_fork_of_an_older_version_leaves_the_children_of_the_original_alone(tmp_path: Path) -> None:
    """B1: it copied the open step of the original, which names the original's child."""
    one = engine(tmp_path, asks=asks, parent=calls_asks)
    folder = one.start("parent", "x", NOTHING)
    asyncio.run(one.drive(folder))
    old_fork = one.start("parent", "y", NOTHING)
    ledger = new_ledger(old_fork, OPEN_TABLE)
    ledger.open()
    opened = read_events(folder.events)[-1]
    told = {name: value for name, value in opened.payload.items() if name not in ("prev", "seal", "vouches")}
    ledger.record(opened.type, told, phase=opened.phase, iteration=opened.iteration)
    ledger.close()
    [(_, child)] = Fold.of(read_events(old_fork.events)).children.values()
    cancel(old_fork)
    assert asyncio.run(one.drive(old_fork)).status == "canceled"
    assert types(RunFolder(tmp_path / "runs" / child))[-1] == "QUESTION_RAISED"


def test_ids_of_children_do_not_grow_and_tell_parents_and_keys_apart() -> None:
    ids = ["2026-11-15_001_my_long_flow_the-goal-of-a-person-which-is-long-too"]
    for level in range(100):
        ids.append(child_id(ids[-1], "my_long_flow", f"research/implementation-of-the-controller-{level % 2}.1"))
    assert len(set(ids)) == len(ids) and max(map(len, ids)) <= 110
    assert all(one.startswith("2026-11-15_001_my_long_flow_") for one in ids)
    assert ids[1].startswith("2026-11-15_001_my_long_flow_the-goal-of-a-person-which-is-long-too-research-")
    assert child_id("2026-11-15_001_my_flow_x", "a", "k.1").startswith("2026-11-15_001_a_x-k-1-")
    assert child_id("d_001_f_x", "a", "k.1") != child_id("d_001_g_x", "a", "k.1")
    long = "a_workflow_with_a_name_of_sixty_letters_that_is_rather_long_x"
    assert len(child_id(ids[0], long, "초안/그리고-아주-긴-한국어-이름.1").encode()) <= 120


@pytest.mark.parametrize("began", [True, False])
def test_a_child_keeps_the_name_that_was_recorded_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, began: bool
) -> None:
    """Ids were made in another way by older versions; a run that waits since then finds its child."""
    one = engine(tmp_path, asks=asks, parent=calls_asks)
    folder = one.start("parent", "x", NOTHING)
    with monkeypatch.context() as older:
        older.setattr("orchestra.core.engine.child_id", lambda parent, workflow, key: f"{parent}-{workflow}-{key}")
        asyncio.run(one.drive(folder))
    old = RunFolder(tmp_path / "runs" / f"{folder.id}-asks-child.1")
    assert old.events.is_file()
    if not began:  # a kill came between the intent and the child
        shutil.rmtree(old.path)
        assert asyncio.run(one.drive(folder)).exit_code == 3
    answer(old, "q", "yes")
    assert asyncio.run(one.drive(folder)).status == "completed"
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_a_patient_run_waits_where_it_is(tmp_path: Path) -> None:
    notes = Notes()
    one = engine(tmp_path, notes, asks=asks)
    folder = one.start("asks", "x", NOTHING)

    async def person() -> Any:
        notes.asked = asyncio.Event()
        driving = asyncio.ensure_future(one.drive(folder, patient=True))
        await notes.asked.wait()
        answer(folder, "q", "now")
        return await driving

    assert asyncio.run(person()).status == "completed"


def test_two_starts_at_once_are_two_runs(tmp_path: Path) -> None:
    one = engine(tmp_path, asks=asks)
    ids = {one.start("asks", "same name", NOTHING).id for _ in range(3)}
    assert sorted(i.split("_")[1] for i in ids) == ["001", "002", "003"]


def test_parked_branches_are_all_waited_for_and_the_state_says_so(tmp_path: Path) -> None:
    async def three(ctx: Context, order: Order) -> Verdict:
        async def one_asks(name: str, branch: Context) -> str:
            return await question(branch, name)

        async def works(branch: Context) -> str:
            return await branch.new_id()

        said = await ctx.fan_out({"a": lambda c: one_asks("qa", c), "b": lambda c: one_asks("qb", c), "c": works})
        return Verdict(status="completed", result={"said": [said["a"], said["b"]]})

    one = engine(tmp_path, three=three)
    folder = one.start("three", "x", NOTHING)
    assert asyncio.run(one.drive(folder)).status == "awaiting_input"
    answer(folder, "qb", "B")
    assert asyncio.run(one.drive(folder)).status == "awaiting_input"
    answer(folder, "qa", "A")
    assert asyncio.run(one.drive(folder)).status == "completed"
    assert read_events(folder.events)[-1].payload["result"] == {"said": ["A", "B"]}
