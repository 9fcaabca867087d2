"""A tree of runs has one budget and one clock, however many runs it is made of."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import orchestra
from orchestra.app import App
from orchestra.core.calls import calls_in
from orchestra.core.disk import Disk
from orchestra.core.effects import ChildResult
from orchestra.core.errors import DiskFull
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.policy.policy import Layer, Policy
from orchestra.providers.choose import Models
from tests.library.support import configured, conforms
from tests.support import children
from tests.support.project import PLAN, PROGRAM, RIGHT_PATCH, Project, records, role, until
from tests.support.runs import read_events, use_disk
from tests.support.tasks import step

CODE = """
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
EDITED = """
import orchestra

@orchestra.workflow
async def one(ctx: orchestra.Context, word: str) -> str:
    return await ctx.model("writer", word)

@orchestra.workflow
async def edited(ctx: orchestra.Context) -> str:
    text = await ctx.look("text", "계약.md", "첫 글")
    return await (await ctx.edition("made", text=text)).call("child", one, word="x")
"""
# Each reply costs $0.60, of which the budget learns afterwards.
PRICES = "budget: {prices: {m: {input: 1000, output: 1000}}}"
REPLY = {"text": "한 마디", "usage": {"inputTokens": 300, "outputTokens": 300}, "repeat": True}


@pytest.mark.spec("S2-50")
@pytest.mark.parametrize("together", [False, True])
def test_children_spend_the_budget_of_their_root(tmp_path: Path, together: bool) -> None:
    project = Project(tmp_path / "p")
    configured(project, "parent", CODE, PRICES)
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


def killed(project: Project, *arguments: str, when: Callable[[], object]) -> None:
    """Start the program, and kill it as soon as something is so."""
    nothing = subprocess.DEVNULL
    driver = subprocess.Popen([PROGRAM, *arguments], cwd=project.path, stdin=nothing, stdout=nothing, stderr=nothing)
    try:
        until(when)
    finally:
        driver.kill()
        driver.wait()


def beginning(project: Project, workflow: str, *more: str) -> tuple[str, ...]:
    """The arguments that start a workflow."""
    return ("start", workflow, *more, "--provider", f"scripted:{project.script}", "--model", "m", "--no-input")


def reserved(project: Project) -> list[float]:
    """The amounts that were reserved for the calls of all runs of a project."""
    journals = (project.events_of(run.id) for run in project.runs if run.events.exists())
    return [event.payload["mostUsd"] for events in journals for event in events if "mostUsd" in event.payload]


@pytest.mark.spec("S2-50")
def test_what_is_reserved_for_calls_in_flight_in_children_is_spent_when_a_kill_cuts_them_off(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    slow(project, 60_000)
    start = beginning(project, "parent", "together=true", "--max-budget-usd", "9000")
    killed(project, *start, when=lambda: len(reserved(project)) == 4)
    lost = f"${sum(reserved(project)):.4f}"
    stopped = project.run("resume", "last", "--no-input", "--max-budget-usd", "0.0001")  # before any is made again
    assert stopped.returncode == 4, stopped.stderr
    assert f"{lost} of $0.0001 spent ({lost} of it at most, for a call cut off by a kill)" in stopped.stderr
    assert requests(project) == 4


def test_a_call_that_a_kill_cut_off_stays_spent_when_its_run_is_replaced_and_never_makes_it_again(
    tmp_path: Path,
) -> None:
    project = Project(tmp_path / "p")
    configured(project, "edited", EDITED, PRICES)
    project.write_script({**REPLY, "delayMs": 60_000})
    start = beginning(project, "edited", "--max-budget-usd", "9000")
    killed(project, *start, when=lambda: reserved(project))
    lost = f"${reserved(project)[0]:.4f}"
    (project.path / "계약.md").write_text("고친 글\n", encoding="utf-8")
    for _ in range(2):  # the first of these ends the child of the old edition
        stopped = project.run("resume", "last", "--no-input", "--max-budget-usd", "0.0001")
        assert stopped.returncode == 4, stopped.stderr
        assert f"{lost} of $0.0001 spent ({lost} of it at most, for a call cut off by a kill)" in stopped.stderr
    last = [project.events_of(run.id)[-1].type for run in project.runs if "_one_" in run.id]
    assert "RUN_CANCELED" in last


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
    configured(project, "parent", CODE, PRICES)
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
    configured(project, "parent", CODE, "budget: {max_sec: 0.2}")
    project.write_script({**REPLY, "delayMs": 400})
    done = started(project, "together=false")
    assert done.returncode == 4 and "--max-time" in done.stderr
    shown = project.run("show", "last").stdout
    assert "of its time is used; more: resume with --max-time TIME" in shown
    assert started(project, "together=true", "--max-time", "1h").returncode == 0


@pytest.mark.parametrize("text", ["0", "two", "1d", "-5s"])
def test_a_wrong_duration_is_refused_before_anything_is_started(tmp_path: Path, text: str) -> None:
    project = Project(tmp_path / "p")
    done = project.loop(f"--max-time={text}")
    assert done.returncode == 2 and "90s, 15m, 2h" in done.stderr
    assert project.runs == []


def worked(run: RunFolder) -> int:
    """How many milliseconds a tree had worked, by the reading beside its root's journal; 0 if there is none."""
    try:
        reading: int = json.loads(run.clock.read_bytes())["ms"]
    except FileNotFoundError:
        return 0
    return reading


def requests(project: Project) -> int:
    """How many requests were made, also those that were cut off."""
    return sum(call.asked for run in project.runs for call in calls_in(run, project.events_of(run.id)))


@pytest.mark.spec("S2-50")
def test_a_time_limit_holds_although_every_process_is_killed_in_the_middle_of_the_same_call(tmp_path: Path) -> None:
    """No outcome of the call is ever recorded: the reading that each process left is all there is."""
    project = Project(tmp_path / "p")
    slow(project, 60_000)
    killed(project, *beginning(project, "parent", "together=false"), when=lambda: any(map(worked, project.runs)))
    [root] = [run for run in project.runs if worked(run)]
    first, [child] = worked(root), [run for run in project.runs if run.id != root.id]
    # By the child's id the whole tree is driven, and its clock is the root's.
    killed(project, "resume", child.id, "--no-input", when=lambda: worked(root) >= first + 250)
    both = worked(root)
    assert both >= first + 250 and not child.clock.exists() and requests(project) == 2
    stopped = project.run("resume", root.id, "--max-time", f"{both / 1000}s", "--json")
    assert stopped.returncode == 4 and "its time is used up" in stopped.stderr, stopped.stderr
    assert requests(project) == 2 and worked(root) == both  # nothing was begun
    stopped = project.run("resume", child.id, "--max-time", f"{both / 1000 + 0.2}s", "--json")
    assert stopped.returncode == 4 and requests(project) == 3, stopped.stderr
    assert both + 200 <= worked(root) < 60_000  # what a limit cuts off counts, too
    slow(project, 0)
    assert project.run("resume", "last", "--no-input", "--max-time", "1h").returncode == 0
    conforms(project)
    assert not root.clock.exists()  # it has ended


def test_a_library_program_counts_the_work_that_its_limit_cut_off(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    slow(project, 60_000)
    given: dict[str, Any] = {"provider": f"scripted:{project.script}", "model": "m", "together": True}
    begun = orchestra.run("parent", project=project.path, max_time=0.1, **given)
    made = requests(project)
    assert begun.exitCode == 4 and 1 <= made <= 4  # on a busy machine the time may be over before the last is begun
    assert orchestra.resume(begun.runId, project=project.path).exitCode == 4
    assert requests(project) == made  # nothing was left for another one


@pytest.mark.parametrize("place", ["garbage", "a folder", "of another run"])
def test_a_run_goes_on_whatever_is_in_the_place_of_the_reading(tmp_path: Path, place: str) -> None:
    project = Project(tmp_path / "p")
    slow(project, 300)
    assert started(project, "together=false", "--max-time", "0.1s").returncode == 4
    [root] = [run for run in project.runs if worked(run)]
    assert 100 <= worked(root) < 60_000
    limited = ("resume", root.id, "--max-time", "0.05s", "--json")
    assert project.run(*limited).returncode == 4 and requests(project) == 1  # nothing is left
    if place == "of another run":
        assert started(project, "together=false", "--max-time", "0.1s").returncode == 4
        [other] = [run for run in project.runs if worked(run) and run.id != root.id]
        root.clock.write_bytes(other.clock.read_bytes())
    else:
        root.clock.unlink()
        root.clock.mkdir() if place == "a folder" else root.clock.write_bytes(b"\xff{")
    begun = requests(project)
    assert project.run(*limited).returncode == 4 and requests(project) == begun + 1  # as without a reading
    assert (App(project.path).project.store.kept_reading(root) is None) == (place == "a folder")  # the rest is replaced
    done = project.run("resume", root.id, "--max-time", "1h", "--json")  # each of the calls is long enough for one
    assert done.returncode == 0, done.stderr
    assert project.run("verify", root.id).returncode == 0


class FullForReadings(Disk):
    """A disk that is full whenever a reading is to be written, and never else."""

    def __init__(self) -> None:
        self.refused = 0

    def uncounted(self) -> Disk:
        self.refused += 1
        return self

    def overwrite(self, path: Path, data: bytes) -> None:
        raise DiskFull("the disk is full")


def test_a_reading_that_the_disk_refuses_stops_no_run(tmp_path: Path) -> None:
    project, disk = Project(tmp_path / "p"), FullForReadings()
    configured(project, "parent", CODE, PRICES)
    project.write_script({**REPLY, "delayMs": 150})
    app = App(project.path)
    use_disk(app, disk)
    models = Models(default=f"scripted:{project.script}", model="m")
    run = app.start("parent", app.job("parent", {"together": False}), models)
    assert asyncio.run(app.drive(run)).exit_code == 0
    assert disk.refused and not run.clock.exists()


def test_a_run_that_waits_keeps_its_reading_and_a_fork_of_it_begins_without(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    assert project.loop("--approval", "always").returncode == 3
    run = project.folder
    assert worked(run) > 0
    assert project.run("fork", run.id, "--no-drive").returncode == 0
    [fork] = [one for one in project.runs if one.id != run.id]
    assert not fork.clock.exists()
    assert project.run("approve", run.id, "--no-input").returncode in (0, 3)
    assert project.run("verify", run.id).returncode == 0


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
    configured(project, "parent", CODE, PRICES)
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
