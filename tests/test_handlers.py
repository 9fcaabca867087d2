"""A tree of runs has one budget and one clock, however many runs it is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import orchestra
from orchestra.core.calls import calls_in
from orchestra.core.effects import ChildResult
from orchestra.core.records import Event
from orchestra.policy.policy import Layer, Policy
from tests.library.support import configured, conforms
from tests.support import children
from tests.support.project import PLAN, RIGHT_PATCH, Project, records, role
from tests.support.runs import read_events
from tests.support.tasks import step

PROGRAM = """
import orchestra

@orchestra.workflow
async def one(ctx: orchestra.Context, word: str) -> str:
    return await ctx.model("writer", word)

@orchestra.workflow
async def parent(ctx: orchestra.Context, together: bool) -> int:
    if together:
        said = await ctx.fan_out({f"b{n}": (lambda c, n=n: c.call("child", one, word=str(n))) for n in range(4)})
        return len(said)
    return len([await ctx.call("child", one, word=str(n)) for n in range(4)])
"""
# Each reply costs $0.60, of which the budget learns afterwards.
PRICES = "budget: {prices: {m: {input: 1000, output: 1000}}}"
REPLY = {"text": "한 마디", "usage": {"inputTokens": 300, "outputTokens": 300}, "repeat": True}


@pytest.mark.spec("S2-50")
@pytest.mark.parametrize("together", [False, True])
def test_children_spend_the_budget_of_their_root(tmp_path: Path, together: bool) -> None:
    project = Project(tmp_path / "p")
    configured(project, "parent", PROGRAM, PRICES)
    project.write_script(REPLY)
    done = project.run(
        *("start", "parent", f"together={str(together).lower()}", "--provider", f"scripted:{project.script}"),
        *("--model", "m", "--max-budget-usd", "1.0", "--json"),
    )
    assert done.returncode == 4, done.stderr
    root = records(done.stdout)[0]["runId"]
    assert "of $1.0000 spent" in done.stderr and f"resume {root} --max-budget-usd" in done.stderr
    events = (line for line in records(done.stdout) if line["type"] == "PHASE_COMPLETED")
    paid = [event for event in events if event["payload"]["effect"] == "ModelCall"]
    assert 0 < len(paid) < 4
    again = project.run("resume", root, "--max-budget-usd", "10", "--json")
    assert again.returncode == 0, again.stderr
    assert orchestra.resume(root, project=project.path).result == 4


def started(project: Project, *more: str, chaos: str = "", workflow: str = "parent") -> Any:
    arguments = ("start", workflow, *more, "--provider", f"scripted:{project.script}", "--model", "m", "--json")
    return project.run(*arguments, env={"ORCHESTRA_CHAOS": chaos} if chaos else None)


def spent(project: Project) -> float:
    """What all runs of a project have paid for replies, by their journals."""
    begun = [run for run in project.runs if run.events.exists()]
    calls = [call for run in begun for call in calls_in(run, read_events(run.events))]
    return sum(call.costUsd or 0.0 for call in calls)


def outcomes(events: list[Event]) -> list[ChildResult]:
    ends = [event for event in events if event.type == "PHASE_COMPLETED" and event.payload["effect"] == "ChildRun"]
    return [msgspec.convert(event.payload["outcome"], ChildResult) for event in ends]


def slow(project: Project, milliseconds: int) -> None:
    configured(project, "parent", PROGRAM, PRICES)
    project.write_script({**REPLY, "delayMs": milliseconds})


@pytest.mark.spec("S2-50")
@pytest.mark.parametrize("together", ["true", "false"])
def test_the_time_of_a_tree_is_limited_if_asked_and_can_be_raised(tmp_path: Path, together: str) -> None:
    project = Project(tmp_path / "p")
    slow(project, 400)
    done = started(project, f"together={together}", "--max-time", "0.2s")
    assert done.returncode == 4, done.stderr
    root = records(done.stdout)[0]["runId"]
    assert f"orchestra resume {root} --max-time 0.4s" in done.stderr
    again = project.run("resume", root, "--json")
    assert again.returncode == 4, again.stderr  # the limit is recorded
    child = next(run.id for run in project.runs if run.id != root)
    by_child = project.run("resume", child, "--max-time", "1h", "--json")  # by its id the whole tree is driven
    assert by_child.returncode == 0, by_child.stderr
    assert orchestra.resume(root, project=project.path).result == 4
    conforms(project)


def test_the_file_limits_the_time_and_a_person_may_widen_it(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    configured(project, "parent", PROGRAM, "budget: {max_sec: 0.2}")
    project.write_script({**REPLY, "delayMs": 400})
    done = started(project, "together=false")
    assert done.returncode == 4 and "--max-time" in done.stderr
    assert started(project, "together=true", "--max-time", "1h").returncode == 0


@pytest.mark.parametrize("text", ["0", "two", "1d", "-5s"])
def test_a_wrong_duration_is_refused_before_anything_is_started(tmp_path: Path, text: str) -> None:
    project = Project(tmp_path / "p")
    done = project.loop(f"--max-time={text}")
    assert done.returncode == 2 and "90s, 15m, 2h" in done.stderr
    assert project.runs == []


@pytest.mark.spec("S2-50")
def test_the_default_time_of_a_graph_does_not_bind_a_graph_below_another_run(tmp_path: Path) -> None:
    """The clock is the tree's: a root that is no graph has no limit, unless one was asked for."""
    short = Policy(layers=(Layer(whitelist=("python",)),), reads=("/",), max_total_sec=1)
    plan = step("nap", tool="python", inputs={"args": ["-c", "import time; time.sleep(1.3)"]})
    child = children.run(tmp_path / "p", short, short, plan)
    assert read_events(child.events)[-1].type == "RUN_COMPLETED"


def test_a_parent_keeps_what_a_child_cost_used_and_changed(tmp_path: Path) -> None:
    code = """
import orchestra

@orchestra.workflow
async def parent(ctx: orchestra.Context) -> str:
    done = await ctx.call("고침", "loop", goal="make add() add", checks=[["cat", "calc.py"]],
                          evaluator=False)
    return "끝"
"""
    usage = {"inputTokens": 100, "outputTokens": 20}
    project = Project(tmp_path / "p", role("planner", PLAN, usage=usage), role("developer", RIGHT_PATCH, usage=usage))
    configured(project, "parent", code, PRICES)
    done = started(project)
    assert done.returncode == 3, done.stderr
    [child] = [run.id for run in project.runs if "_loop_" in run.id]
    assert project.run("approve", child).returncode == 0
    root = records(done.stdout)[0]["runId"]
    [told] = outcomes(project.events_of(root))
    assert told.paths == ("calc.py",) and told.calls == 2
    assert (told.tokens.input, told.tokens.output) == (200, 40)
    assert told.costUsd == pytest.approx(0.24) == pytest.approx(spent(project))
    report = next(run for run in project.runs if run.id == root).report.read_text()
    assert "2 model calls (2 in child runs), 240 tokens, $0.2400" in report
    assert f"| completed | 2 calls, $0.2400 | 1 | ../{told.childRunId}/report.md |" in report
    assert "- `calc.py` (child run" in report


def test_a_tree_of_an_older_version_is_summed_by_reading_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their steps have no sums; the budget counts them all the same."""
    project = Project(tmp_path / "p")
    configured(project, "parent", PROGRAM, PRICES)
    project.write_script(REPLY)
    with monkeypatch.context() as older:
        older.setattr("orchestra.core.engine.summed", lambda result, *rest, **more: result)
        begun = orchestra.run(
            "parent",
            project=project.path,
            provider=f"scripted:{project.script}",
            model="m",
            max_budget_usd=1.0,
            together=False,
        )
    assert begun.exitCode == 4 and "$0.6000 of $1.0000 spent" in begun.message
    assert [told.costUsd for told in outcomes(project.events_of(begun.runId))] == [None]
    again = orchestra.resume(begun.runId, project=project.path)
    assert again.exitCode == 4 and "$0.6000 of $1.0000 spent" in again.message
    assert spent(project) == pytest.approx(0.6), "the resume paid for nothing more"


@pytest.mark.parametrize("point", ["", "12:after", "16:after", "20:torn", "24:after"])
def test_a_child_that_cannot_be_admitted_fails_its_step_and_does_not_exist(tmp_path: Path, point: str) -> None:
    code = """
import orchestra

@orchestra.workflow
async def parent(ctx: orchestra.Context) -> str:
    try:
        await ctx.call("work", "loop", goal="고치기", checks=[], evaluator=False)
    except orchestra.StepFailed as failed:
        return str(failed)
    return "it began"
"""
    project = Project(tmp_path / "p")
    configured(project, "parent", code)
    done = started(project, chaos=point)
    assert done.returncode in (0, -9), done.stderr
    root = project.folder  # the only run there is
    outcome = orchestra.resume(root.id, project=project.path)
    assert outcome.exitCode == 0 and str(outcome.result).startswith("loop: ")
    assert [run.id for run in project.runs] == [root.id]
