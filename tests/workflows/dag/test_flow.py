"""The task graph's flow: order, limits, retries, failures, resuming. The executor is the test's, all else is real."""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestra.core.command import CommandOutcome, RunCommand
from orchestra.core.disk import Disk
from orchestra.core.errors import ContractError, DiskFull, DurabilityError, PolicyError, StepFailed
from orchestra.core.files import MIB
from orchestra.core.lines import objects
from orchestra.core.records import Event, EventType, Phase
from orchestra.core.run import RunFolder
from orchestra.policy.policy import Layer, Policy, Rule
from orchestra.workflows.dag.files import TaskFiles
from orchestra.workflows.dag.flow import Done, asked_commands, describe
from orchestra.workflows.dag.plan import MOST_PLAN, read_plan, task_uuid
from orchestra.workflows.dag.report import report
from orchestra.workflows.dag.shapes import Plan
from orchestra.workflows.dag.workflow import DAG
from orchestra.workflows.report import Reported
from tests.support.graph import POLICY, Graph, job, passed, task
from tests.support.runs import paces, read_events


async def fail(command: RunCommand, attempt: int) -> CommandOutcome:
    raise StepFailed("", "EXIT", "exit code 1", retriable=True)


@pytest.mark.spec("S2-08", "S2-129", "S2-120", "S2-121", "S2-122", "S2-123", "S2-125", "S2-126", "S2-127")
def test_a_task_begins_the_moment_its_last_dependency_is_done(tmp_path: Path) -> None:
    order: list[str] = []

    async def run(command: RunCommand, attempt: int) -> CommandOutcome:
        order.append(f"+{command.task}")
        await asyncio.sleep({"slow": 0.2}.get(command.task, 0.01))
        order.append(f"-{command.task}")
        return passed(command)

    plan = [task("slow"), task("fast"), task("after-fast", "fast"), task("after-both", "fast", "slow")]
    graph = Graph(tmp_path / "r", job(plan), run)
    assert graph.live().status == "completed"
    assert order.index("+after-fast") < order.index("-slow"), "no barrier between batches"
    assert order.index("+after-both") > order.index("-slow")
    states: dict[str, list[str]] = {}
    for line in graph.lines():
        if line["level"] == 3 and (line["label"] not in states or states[line["label"]][-1] != line["state"]):
            states.setdefault(line["label"], []).append(line["state"])
    assert states["fast"] == ["planned", "running", "done"]
    assert states["after-both"] == ["planned", "blocked", "running", "done"]
    assert paces(DAG, graph.path / "events.ndjson") == [(number, 4) for number in range(5)]


@pytest.mark.spec("S2-68")
def test_no_more_than_max_workers_run_at_once(tmp_path: Path) -> None:
    async def run(command: RunCommand, attempt: int) -> CommandOutcome:
        await asyncio.sleep(0.01)
        return passed(command)

    graph = Graph(tmp_path / "r", job([task(f"t{n}") for n in range(20)], maxWorkers=4), run)
    graph.live()
    assert graph.most == 4


@pytest.mark.spec("S2-124", "S2-128", "S2-130", "G2-1")
def test_a_failing_branch_stops_only_what_depends_on_it(tmp_path: Path) -> None:
    async def run(command: RunCommand, attempt: int) -> CommandOutcome:
        return await fail(command, attempt) if command.task == "bad" else passed(command)

    plan = [task("bad"), task("child", "bad"), task("grandchild", "child"), task("other"), task("next", "other")]
    graph = Graph(tmp_path / "r", job(plan, retries=0, policy=_retries(0)), run)
    verdict = graph.live()
    assert (verdict.status, verdict.exit_code) == ("failed", 1)
    assert verdict.result == {"done": 2, "failed": 1, "not run": 2}
    assert graph.final() == {
        "bad": "failed",
        "child": "blocked",
        "grandchild": "blocked",
        "other": "done",
        "next": "done",
    }


@pytest.mark.spec("S2-13", "S2-65", "S2-67", "S2-131", "S2-29")
def test_a_task_that_always_fails_runs_three_times(tmp_path: Path) -> None:
    graph = Graph(tmp_path / "r", job([task("bad")]), fail)
    assert graph.live().status == "failed"
    assert graph.began == ["bad"] * 3
    states = [(line["state"], line["retries"]) for line in graph.lines() if line["level"] == 3]
    assert ("failed", 0) not in states and ("failed", 1) not in states
    assert states[-1] == ("failed", 2)


@pytest.mark.spec("S2-66", "S2-67", "G2-4")
@pytest.mark.parametrize(("base", "waits"), [(2.0, [2.0, 4.0]), (3.0, [3.0, 6.0])])
def test_the_waits_between_tries_double(tmp_path: Path, base: float, waits: list[float]) -> None:
    from datetime import datetime

    graph = Graph(tmp_path / "r", job([task("bad")], backoffSec=base / 1000), fail)  # the same rule, a thousandth
    graph.live()
    failed = [e for e in read_events(tmp_path / "r" / "events.ndjson") if "retryAt" in e.payload]
    gaps = [datetime.fromisoformat(e.payload["retryAt"]) - datetime.fromisoformat(e.ts) for e in failed]
    assert [round(gap.total_seconds() * 1000) for gap in gaps] == pytest.approx(waits, abs=1.5)


@pytest.mark.spec("S2-58", "S2-59", "S2-105", "S2-106", "S2-61")
@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ([task("a", "b"), task("b", "a")], "circle"),
        ([task("a", "a")], "circle"),
        ([task("a", "ghost")], "'ghost', which is not in the plan"),
        ([task("a"), task("a")], "used twice"),
        ([], "no task"),
        ("not json at all [", "no JSON array"),
        ("{}", "no JSON array"),
        ('{"tasks": 3}', "no task"),
        ([{"task_id": "a", "intent": "x"}], "tools"),
        ([{"task_id": "a", "intent": "", "tools": ["echo"]}], "intent is empty"),
        ([{"task_id": 7, "intent": "x", "tools": ["echo"]}], "task_id"),
    ],
)
def test_a_plan_that_is_none_is_refused_whole(tmp_path: Path, plan: Any, says: str) -> None:
    graph = Graph(tmp_path / "r", job(plan))
    with pytest.raises(ContractError, match=says):
        graph.live()
    assert graph.began == []


@pytest.mark.spec("S2-11", "S2-52", "S2-59")
@pytest.mark.parametrize("tool", ["bash", "rm", "python3", "./echo", "/bin/echo", "Echo", "ｅcho", ""])
def test_a_tool_that_is_not_whitelisted_is_refused_at_plan_time(tmp_path: Path, tool: str) -> None:
    graph = Graph(tmp_path / "r", job([task("fine"), task("a", tool=tool)]))
    with pytest.raises(PolicyError):
        graph.live()
    assert graph.began == []


@pytest.mark.spec("S2-61", "S2-07", "S2-57")
def test_a_bad_plan_goes_back_to_the_planner_with_the_reasons(tmp_path: Path) -> None:
    good = json.dumps([task("a")])
    graph = Graph(tmp_path / "r", job(""), replies=("I think we should…", json.dumps([task("a", "b")]), good))
    assert graph.live().status == "completed"
    notes = [note.content for call in graph.asked for note in call.notes]
    assert any("no JSON array" in text for text in notes)
    assert any("'b', which is not in the plan" in text for text in notes)


@pytest.mark.spec("S2-61")
def test_a_planner_that_never_gets_it_right_ends_the_run(tmp_path: Path) -> None:
    graph = Graph(tmp_path / "r", job(""), replies=("no",) * 10)
    with pytest.raises(ContractError):
        graph.live()
    assert len(graph.asked) == 4  # the first and three repairs


@pytest.mark.spec("S2-61")
@pytest.mark.parametrize(
    "reply",
    [
        "Here is the plan:\n```json\n{}\n```\nDone.",
        "{}",
        "Sure! {} I hope [this] helps.",
        "Steps [1, 2] of [] give {}",
        '\ufeff{"tasks": {}}',
        '{"plan_id": "x", "tasks": {}, "dag": {"nodes": [], "edges": []}}',
    ],
)
def test_a_plan_is_found_wherever_it_stands(tmp_path: Path, reply: str) -> None:
    text = reply.replace("{}", json.dumps([task("a"), task("b", "a")]), 1)
    assert Graph(tmp_path / "r", job(""), replies=(text,)).live().status == "completed"


@pytest.mark.spec("G2-2", "S2-112")
def test_one_tool_per_task_and_its_name_once(tmp_path: Path) -> None:
    commands: list[tuple[str, ...]] = []

    async def run(command: RunCommand, attempt: int) -> CommandOutcome:
        commands.append(command.argv)
        return passed(command)

    plan = [task("a", inputs={"args": ["echo", "Hello", "World"]})]
    graph = Graph(tmp_path / "r", job(plan), run)
    graph.live()
    assert commands == [("echo", "Hello", "World")]
    assert any("repeat the tool's name" in line["message"] for line in graph.lines())
    two = Graph(tmp_path / "s", job([{**task("a"), "tools": ["echo", "ls"]}]))
    with pytest.raises(ContractError, match="one tool per task"):
        two.live()


@pytest.mark.spec("G2-2")
def test_a_persons_own_command_and_a_plan_taken_over_before_are_as_they_are() -> None:
    plan = json.dumps([task("two words", inputs={"args": ["echo", "echo", "hi"]})])
    typed = read_plan(plan, "r", POLICY, asker="person")
    assert typed.tasks[0].inputs.args == ("echo", "echo", "hi")
    planned = read_plan(plan, "r", POLICY)
    assert planned.tasks[0].inputs.args == ("echo", "hi")
    again = read_plan(msgspec.json.encode(planned).decode(), "another run", POLICY)
    assert (again.tasks[0].label, again.tasks[0].inputs) == (planned.tasks[0].label, planned.tasks[0].inputs)


def test_a_hostile_reply_costs_no_more_than_its_length() -> None:
    with pytest.raises(ContractError, match="no JSON array"):
        read_plan("```x\n" * 200_000, "r", POLICY)  # minutes, if every fence looked for its end
    names = itertools.islice(itertools.product(*zip("abcdefghijklmn", "ABCDEFGHIJKLMN", strict=True)), 10_000)
    plan = read_plan(json.dumps([task("".join(name)) for name in names]), "r", POLICY)
    assert len({one.label.casefold() for one in plan.tasks}) == 10_000
    ring = [task(f"t{n}", f"t{(n + 1) % 10_000}") for n in range(10_000)]
    with pytest.raises(ContractError, match="circle") as refused:
        read_plan(json.dumps(ring), "r", POLICY)
    assert len(str(refused.value)) < 1_000, "it goes back into a prompt"


def test_half_an_emoji_in_a_plan_is_no_crash(tmp_path: Path) -> None:
    text = 'Here: [{"task_id": "a", "intent": "\\ud83d", "tools": ["echo"]}]'
    assert Graph(tmp_path / "r", job(text)).live().status == "completed"


@pytest.mark.spec("G2-3", "S2-60")
def test_a_parent_is_a_dependency_where_none_are_named(tmp_path: Path) -> None:
    plan: list[dict[str, Any]] = [
        {"task_id": "a", "intent": "x", "tools": ["echo"], "parent_id": None},
        {"task_id": "b", "intent": "x", "tools": ["echo"], "parent_id": "a"},
        {"task_id": "c", "intent": "x", "tools": ["echo"], "parent_id": "b", "depends_on": []},
    ]
    graph = Graph(tmp_path / "r", job(plan))
    graph.live()
    assert graph.began.index("a") < graph.began.index("b")
    edges = json.loads((tmp_path / "r" / "plan.json").read_text())["dag"]["edges"]
    assert len(edges) == 1


@pytest.mark.spec("S2-113", "S2-23", "S2-24")
def test_constraints_only_tighten(tmp_path: Path) -> None:
    plan = [
        task("a", constraints={"max_duration_sec": 99999, "max_retries": 50, "sandbox": {"fs": "rw", "net": "allow"}}),
        task("b", constraints={"max_duration_sec": 30, "max_retries": 1}),
        task("c", constraints={"max_duration_sec": 300, "max_retries": 2}),  # exactly the policy's: nothing is cut
    ]
    graph = Graph(tmp_path / "r", job(plan))
    graph.live()
    document = json.loads((tmp_path / "r" / "plan.json").read_text())
    tasks = {t["label"]: t["constraints"] for t in document["tasks"]}
    assert {warning.split(":")[0] for warning in document["warnings"]} == {"task 'a'"}
    assert tasks["a"]["max_duration_sec"] == 300 and tasks["a"]["max_retries"] == 2
    assert tasks["a"]["sandbox"] == {"fs": "read-only", "net": "deny"}
    assert tasks["b"]["max_duration_sec"] == 30 and tasks["b"]["max_retries"] == 1


def _retries(times: int) -> Any:
    import msgspec

    from tests.support.graph import POLICY

    return msgspec.structs.replace(POLICY, max_retries=times)


def test_a_masked_secret_in_a_plan_is_sent_back_not_run(tmp_path: Path) -> None:
    masked = json.dumps([task("a", inputs={"args": ["--token", "***REDACTED***"]})])
    graph = Graph(tmp_path / "r", job(""), replies=(masked, json.dumps([task("a")])))
    assert graph.live().status == "completed"
    assert any("secret" in note.content for call in graph.asked for note in call.notes)


@pytest.mark.parametrize(
    ("plan", "verdict"),
    [
        ([task(f"t{n}") for n in range(10_000)], "10,000 beside each other"),
        ([task(f"t{n}", *[f"t{n - 1}"] * (n > 0)) for n in range(1_000)], "a chain of 1,000"),
        ([task(f"t{n}", *(f"t{m}" for m in range(max(0, n - 8), n))) for n in range(1_000)], "8,000 edges"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_large_plans_are_carried_out_and_gone_through_again(tmp_path: Path, plan: Any, verdict: str) -> None:
    graph = Graph(tmp_path / "r", job(plan))
    assert graph.live().result == {"done": len(plan), "failed": 0, "not run": 0}, verdict
    done = {name: number for number, name in enumerate(graph.began)}
    assert all(done[earlier] < done[each["task_id"]] for each in plan for earlier in each["depends_on"])
    graph.live()
    assert len(graph.began) == len(plan), "a second life finds everything done"


def test_what_a_task_does_is_on_file_while_it_does_it(tmp_path: Path) -> None:
    """S2-132: lines are written many at once, but never held back while something goes on."""
    graph = Graph(tmp_path / "r", job([task(f"t{n}") for n in range(300)] + [task("slow")]))
    seen: list[str] = []

    async def run(command: RunCommand, attempt: int) -> CommandOutcome:
        if command.task == "slow":
            for _ in range(1000):
                if graph.final()["slow"] == "running":
                    break
                await asyncio.sleep(0.01)
            seen.append(graph.final()["slow"])
        return passed(command)

    graph.run = run
    assert graph.live().status == "completed"
    assert seen == ["running"]
    assert [line["state"] for line in graph.lines() if line["label"] == "t7"] == ["planned", "running", "done"]


def event(type: EventType, payload: dict[str, Any], phase: Phase = "execute") -> Event:
    return Event("00000001", "2026-01-01_001_x", "2026-01-01T00:00:00Z", type, payload, phase, 1)


def begun(folder: Path, disk: Disk) -> TaskFiles:
    """The files of a run that was just created."""
    files = TaskFiles(RunFolder(folder), disk)
    files.write(event("RUN_CREATED", {"params": msgspec.to_builtins(job([]))}, "plan"))
    return files


def adopted() -> dict[str, Any]:
    """What tells that a plan of one task was adopted."""
    plan = msgspec.to_builtins(read_plan(json.dumps([task("t")]), "r", POLICY))
    return {"effect": "AdoptPlan", "outcome": {"plan": plan}}


def test_lines_that_cannot_be_written_stop_the_run(tmp_path: Path) -> None:
    """Those of tasks are made in the loop's own time: whoever comes next is told."""

    class FullDisk(Disk):
        full = False

        def append(self, fd: int, data: bytes) -> None:
            if self.full:
                raise DiskFull("no room")
            super().append(fd, data)

    async def write() -> None:
        disk = FullDisk()
        files = begun(tmp_path, disk)
        files.write(event("PHASE_COMPLETED", adopted(), "plan"))
        disk.full = True
        with pytest.raises(DiskFull):
            for attempt in range(1, 200):  # fewer than would be written at once
                files.write(event("PHASE_STARTED", {"key": f"t/run.{attempt}", "attempt": attempt}))
                await asyncio.sleep(0.01)
        with pytest.raises(DiskFull):
            files.close()

    asyncio.run(write())


def test_an_event_that_makes_no_sense_stops_the_run_at_once(tmp_path: Path) -> None:
    files = begun(tmp_path, Disk())
    with pytest.raises(DurabilityError, match="it holds no plan"):
        files.write(event("PHASE_COMPLETED", {**adopted(), "outcome": {"plan": {"plan_id": 5}}}, "plan"))


def test_lines_do_not_wait_for_a_turn_of_the_loop_without_end(tmp_path: Path) -> None:
    async def write() -> int:
        files = begun(tmp_path, Disk())
        files.write(event("PHASE_COMPLETED", adopted(), "plan"))
        for number in range(3, 303):
            files.write(event("PHASE_STARTED", {"key": f"t/run.{number}", "attempt": number}))
        lines = (tmp_path / "tasks.jsonl").read_bytes().count(b"\n")
        files.close()
        return lines

    assert 256 <= asyncio.run(write()) < 300
    assert (tmp_path / "tasks.jsonl").read_bytes().count(b"\n") >= 303


def test_lines_of_a_busy_graph_are_written_many_at_once(tmp_path: Path) -> None:
    class CountingDisk(Disk):
        appends = 0

        def append(self, fd: int, data: bytes) -> None:
            self.appends += 1
            super().append(fd, data)

    async def write() -> int:
        disk = CountingDisk()
        files = begun(tmp_path, disk)
        files.write(event("PHASE_COMPLETED", adopted(), "plan"))
        for number in range(1600):
            files.write(event("PHASE_STARTED", {"key": f"t/run.{number}", "attempt": number}))
            if number % 8 == 0:
                await asyncio.sleep(0)  # as after the sync of a group
        files.close()
        return disk.appends

    assert asyncio.run(write()) <= 16  # and not one for each of 200 groups
    assert (tmp_path / "tasks.jsonl").read_bytes().count(b"\n") >= 1600


def test_ids_are_uuids_of_version_five() -> None:
    """C-03: whoever knows the run and the label can work out the id."""
    run = uuid.uuid5(uuid.NAMESPACE_OID, "2026-01-01_001_일")
    for label in ("t1", "라이선스-조사", *map(str, range(200))):
        assert task_uuid("2026-01-01_001_일", label) == str(uuid.uuid5(run, label))


def test_a_report_of_a_run_that_goes_on_shows_what_runs_as_running(tmp_path: Path) -> None:
    graph = Graph(tmp_path / "r", job([task("a"), task("b", "a")]))
    graph.live()
    events = read_events(tmp_path / "r" / "events.ndjson")
    begun = next(index for index, event in enumerate(events) if "task" in event.payload)
    sofar = events[: begun + 1]
    lines = report(Reported(RunFolder(tmp_path / "r"), sofar, "running", whole=sofar))
    text = "\n".join(lines)
    assert "| a | do a | echo | running |" in text and "| b | do b | echo | not run |" in text


def test_a_report_says_how_often_each_task_was_tried(tmp_path: Path) -> None:
    async def second(command: RunCommand, attempt: int) -> CommandOutcome:
        return await fail(command, attempt) if command.task == "flaky" and attempt == 1 else passed(command)

    graph = Graph(tmp_path / "r", job([task("flaky"), task("sure"), task("last", "flaky")]), second)
    assert graph.live().status == "completed"
    events = read_events(tmp_path / "r" / "events.ndjson")
    began = next(index for index, event in enumerate(events) if "task" in event.payload)

    def rows(events: list[Event]) -> dict[str, list[str]]:
        """Of each task: what it does, with what, how it is and how often it was tried."""
        lines = report(Reported(RunFolder(tmp_path / "r"), events, "running", whole=events))
        cells = [[cell.strip() for cell in line.split("|")] for line in lines]
        return {row[1]: row[2:6] for row in cells if len(row) == 9 and row[3] == "echo"}

    assert rows(events) == {
        "flaky": ["do flaky", "echo", "done", "2"],
        "sure": ["do sure", "echo", "done", "1"],
        "last": ["do last", "echo", "done", "1"],
    }
    assert rows(events[:began])["last"] == ["do last", "echo", "not run", ""]


@pytest.mark.parametrize(
    ("count", "more"), [(1, ""), (10, ""), (11, " and 1 more"), (12, " and 2 more"), (25, " and 15 more")]
)
def test_of_many_tasks_that_may_write_ten_are_named_and_the_others_counted(
    tmp_path: Path, count: int, more: str
) -> None:
    names = [f"t{n:02}" for n in range(count)]
    plan = json.dumps([task(name, constraints={"sandbox": {"fs": "rw", "net": "deny"}}) for name in names])
    policy = msgspec.structs.replace(POLICY, fs="rw")
    graph = Graph(tmp_path / "r", job("", asker="model", approval="risk", policy=policy), replies=(plan,))
    graph.decisions = [True]
    assert graph.live().status == "completed"
    [asked] = [e for e in read_events(tmp_path / "r" / "events.ndjson") if e.type == "APPROVAL_REQUESTED"]
    assert asked.payload["reasons"] == [f"may change the workspace: {', '.join(names[:10])}{more}"]


@pytest.mark.parametrize(("count", "rest"), [(10, ""), (12, "\n- and 2 more")])
def test_of_many_problems_of_a_plan_ten_are_named_and_the_others_counted(count: int, rest: str) -> None:
    plan = json.dumps([task(f"t{number}", "nobody") for number in range(count)])
    with pytest.raises(ContractError) as refused:
        read_plan(plan, "r", POLICY)
    lines = [f"- task 't{number}' depends on 'nobody', which is not in the plan" for number in range(10)]
    assert str(refused.value) == "\n".join(("the plan cannot be used:", *lines)) + rest


ONE = json.dumps([task("one")])
TWO = json.dumps([task("two")])


@pytest.mark.spec("S2-61")
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (f"{ONE}\n{TWO}", "two_plans"),
        (f"```json\n{ONE}\n```\nor\n```json\n{TWO}\n```", "two_plans"),
        (ONE[:-1], "no_json"),  # cut off
        ('{"tasks": [{"task_id": "outer", "subtasks": ' + ONE, "no_json"),  # what is inside is not the plan
        ("I plan: " + ONE.replace('"one"', "'one'"), "no_json"),
        ("no plan today", "no_json"),
    ],
)
def test_a_plan_is_used_whole_or_not_at_all(reply: str, reason: str) -> None:
    with pytest.raises(ContractError) as refused:
        read_plan(reply, "r", POLICY)
    assert refused.value.reason == reason


@pytest.mark.parametrize(("count", "last"), [(200, "- t199 [not run] do t199 (`echo`)"), (201, "- and 1 more")])
def test_a_model_is_shown_two_hundred_tasks_and_how_many_more_there_are(count: int, last: str) -> None:
    plan = read_plan(json.dumps([task(f"t{number}") for number in range(count)]), "r", POLICY)
    lines = describe(plan, {"t0": Done("done", output="가" * 500), "t1": Done("failed", message="왜", output="x")})
    rows = lines.splitlines()
    assert rows[:4] == ["- t0 [done] do t0 (`echo`)", f"  {'가' * 400}", "- t1 [failed] do t1 (`echo`)", "  왜"]
    assert rows[-1] == last and len(rows) == count + 2


@pytest.mark.spec("S2-57")
@pytest.mark.parametrize("scope", ["", "second"])
def test_a_plan_has_at_most_so_many_bytes_and_a_second_one_a_tenth_of_them(scope: str) -> None:
    most = MOST_PLAN if not scope else MOST_PLAN // 10

    def plan(size: int) -> Plan:
        text = json.dumps([task("가", intent="x" * (size + 1))], ensure_ascii=False)
        return read_plan(text, "r", POLICY, scope=scope)

    around = len(msgspec.json.encode(plan(0)))
    assert len(msgspec.json.encode(plan(most - around))) == most
    with pytest.raises(ContractError, match=r"a plan has at most (16|1\.6) MiB"):
        plan(most - around + 1)


def test_a_plan_of_very_many_small_values_has_fewer_bytes() -> None:
    """A second plan, which may take a tenth of 88 MiB of memory."""
    most = 88 * MIB // 10

    def plan(commas: int, more: int) -> int:
        text = json.dumps([task("가", intent="x" * more + "," * commas)], ensure_ascii=False)
        data = msgspec.json.encode(read_plan(text, "r", POLICY, scope="second"))
        return objects(data) + len(data)

    room = most - plan(0, 1)
    assert plan(room // 61, room % 61 + 1) == most
    with pytest.raises(ContractError, match="less if it is of very many small values"):
        plan(room // 61, room % 61 + 2)


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({"asker": "model"}, ["push"]),
        ({"asker": "person"}, []),  # a person's own plan
        ({"asker": "model", "dry": True}, []),
        ({"asker": "model", "policy": POLICY}, []),  # without rules
    ],
)
def test_a_model_s_command_is_asked_about_only_where_a_rule_says_so(more: dict[str, Any], asked: list[str]) -> None:
    rule = Rule(prefix=(("git",), ("push",)), decision="ask")
    wanted = job("", **{"policy": Policy(layers=(Layer(whitelist=("git", "echo"), rules=(rule,)),)), **more})
    entries = [task("push", tool="git", inputs={"args": ["push"]}), task("other")]
    plan = read_plan(json.dumps(entries), "r", wanted.policy)
    assert [one.label for one, _ in asked_commands(wanted, plan)] == asked
