"""orchestra.run and orchestra.resume: outcomes, not exceptions; in an event loop, interrupted, killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

import orchestra
from orchestra.core.errors import NoConsent, UsageError
from tests.library.support import configured, conforms
from tests.support.project import Project, role, until
from tests.support.runs import claimed


class Page(msgspec.Struct, frozen=True):
    text: str
    size: int = 1


def shout(text: str) -> Page:
    return Page(text.upper(), len(text))


def broken() -> str:
    raise ValueError("없음")


@orchestra.workflow
async def written(ctx: orchestra.Context, topic: str) -> Page:
    draft = await ctx.model("writer", f"Write about {topic}.")
    return await ctx.step("shout", shout, draft)


@orchestra.workflow
async def asked(ctx: orchestra.Context) -> str:
    return await ctx.ask("colour", "어떤 색?", options=("빨강", "blue"))


@orchestra.workflow
async def asks_below(ctx: orchestra.Context) -> str:
    return "child: " + await ctx.call("below", asked)


@orchestra.workflow
async def breaks(ctx: orchestra.Context) -> str:
    return await ctx.step("broken", broken)


@orchestra.workflow
async def raises(ctx: orchestra.Context) -> str:
    raise RuntimeError("in the workflow itself")


@orchestra.workflow
async def wants_model(ctx: orchestra.Context, model: str = "x") -> str:
    return model


@orchestra.workflow
async def pushes(ctx: orchestra.Context) -> int | None:
    return (await ctx.command("git", "push")).exitCode


def project_of(path: Path) -> Project:
    return Project(path / "p", role("planner", "rain falls", match={"agent": "writer"}, repeat=True))


def test_a_run_by_its_function_returns_the_result_with_its_type(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    outcome = orchestra.run(written, project=project.path, provider=f"scripted:{project.script}", topic="비")
    assert outcome.status == "completed" and outcome.exitCode == 0
    assert outcome.result == Page("RAIN FALLS", 10)
    assert outcome.runId == project.folder.id
    assert (project.path / ".runs" / ".gitignore").read_text() == "*\n"
    conforms(project)


def test_a_run_by_its_name_is_the_same(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    outcome = orchestra.run("written", project=project.path, provider=f"scripted:{project.script}", topic="비")
    assert outcome.result == Page("RAIN FALLS", 10)


def test_a_workflow_that_comes_with_orchestra_runs_by_its_name(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    checks = [["grep", "-q", "a + b", "calc.py"]]
    provider = f"scripted:{project.script}"
    outcome = orchestra.run("loop", project=project.path, provider=provider, goal="add", checks=checks)
    assert (outcome.status, outcome.exitCode) == ("awaiting_approval", 3)
    assert "orchestra approve" in outcome.message


def test_the_file_of_a_provider_is_named_from_where_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = project_of(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert orchestra.run(written, project="p", provider="scripted:p.replies.json", topic="a").status == "completed"
    roles = {"writer": "scripted:p.replies.json"}
    assert orchestra.run(written, project=project.path, roles=roles, topic="a").status == "completed"


def test_a_waiting_run_is_an_outcome_that_names_the_question_and_the_command(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    outcome = orchestra.run(asked, project=project.path)
    assert (outcome.status, outcome.exitCode, outcome.result) == ("awaiting_input", 3, None)
    assert outcome.message == f"어떤 색? (orchestra answer {outcome.runId} TEXT)"
    assert project.run("answer", "last", "빨강", "--no-drive").returncode == 0
    assert orchestra.resume("last", asked, project=project.path).result == "빨강"


def test_a_parent_whose_child_waits_has_the_status_of_its_tree(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    outcome = orchestra.run(asks_below, project=project.path)
    assert (outcome.status, outcome.exitCode) == ("awaiting_input", 3)
    assert outcome.message == f"어떤 색? (orchestra answer {outcome.runId} TEXT)"
    assert project.run("answer", outcome.runId, "blue", "--no-drive").returncode == 0
    assert orchestra.resume(outcome.runId, project=project.path).result == "child: blue"


def test_a_failed_run_is_an_outcome_with_the_line_that_raised(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    outcome = orchestra.run(breaks, project=project.path)
    assert (outcome.status, outcome.exitCode) == ("failed", 1)
    assert outcome.message.startswith("broken: ValueError: 없음 (test_library.py:")
    outcome = orchestra.run(raises, project=project.path)
    assert (outcome.status, outcome.exitCode) == ("failed", 1)
    assert "RuntimeError: in the workflow itself" in outcome.message


def test_a_provider_that_does_not_answer_is_exit_code_6(tmp_path: Path) -> None:
    error = {"code": "AUTH", "message": "no key", "retriable": False}
    project = Project(tmp_path / "p", {"error": error})
    outcome = orchestra.run(written, project=project.path, provider=f"scripted:{project.script}", topic="x")
    assert (outcome.status, outcome.exitCode) == ("failed", 6)


def test_a_forbidden_command_that_nobody_catches_is_exit_code_5(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    project.configure("rules: [{prefix: [git, push], decision: forbid, reason: never}]\n")
    outcome = orchestra.run(pushes, project=project.path)
    assert (outcome.status, outcome.exitCode) == ("failed", 5)
    assert "never" in outcome.message


async def undecorated(ctx: orchestra.Context) -> int:
    return 1


def test_what_is_wrong_before_there_is_a_run_is_raised_and_leaves_no_folder(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    for params in ({}, {"topic": 3}, {"topic": "x", "more": 1}):
        with pytest.raises(UsageError, match="topic: str"):
            orchestra.run(written, project=project.path, **params)
    with pytest.raises(UsageError, match="there is no workflow 'nothing'"):
        orchestra.run("nothing", project=project.path)
    with pytest.raises(UsageError, match="is an option of"):
        orchestra.run(wants_model, project=project.path, model="y")
    for wrong in (float("nan"), 0, -1, True, "viel"):
        with pytest.raises(UsageError, match="want an amount of dollars above 0"):
            orchestra.run(written, project=project.path, topic="x", max_budget_usd=wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="on_ask='never': want one of park, default"):
        orchestra.run(written, project=project.path, topic="x", on_ask="never")  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="on_ask='never': want one of park, default"):
        orchestra.resume("last", project=project.path, on_ask="never")  # type: ignore[call-overload]
    for missing in (project.path / "none", 3):
        with pytest.raises(UsageError, match=r"^project=") as refused:
            orchestra.run(written, project=missing, topic="x")  # type: ignore[arg-type]
        assert "-C" not in str(refused.value)
    for plain in (undecorated, object()):
        with pytest.raises(UsageError, match=r"is no workflow: write @orchestra\.workflow above its `async def`"):
            orchestra.run(plain, project=project.path)  # type: ignore[call-overload]
        with pytest.raises(UsageError, match="is no workflow"):
            orchestra.resume("last", plain, project=project.path)  # type: ignore[call-overload]
    with pytest.raises(UsageError):
        orchestra.resume("last", project=project.path)
    (project.path / "orchestra.config.yaml").write_text("loop: {approval: never}\n")
    with pytest.raises(NoConsent):
        orchestra.run(asked, project=project.path)
    assert project.runs == []


def test_resuming_a_run_of_another_workflow_is_refused(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    run = orchestra.run(asked, project=project.path)
    with pytest.raises(UsageError, match="is of workflow asked, not of written"):
        orchestra.resume(run.runId, written, project=project.path)


def test_resuming_a_completed_run_returns_its_result_again(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    first = orchestra.run(written, project=project.path, provider=f"scripted:{project.script}", topic="x")
    assert orchestra.resume(first.runId, project=project.path) == first


def test_run_may_be_called_where_an_event_loop_runs(tmp_path: Path) -> None:
    project = project_of(tmp_path)

    async def inside() -> orchestra.Outcome[str]:
        return orchestra.run(asked, project=project.path)

    assert asyncio.run(inside()).status == "awaiting_input"


SLEEPER = """\
import asyncio, sys, time
from pathlib import Path
import orchestra

def slow() -> str:
    if not Path("again").exists():
        Path("began").touch()
        time.sleep(600)
    return "slept"

async def slow_too() -> str:
    if not Path("again").exists():
        Path("began").touch()
        await asyncio.sleep(600)
    return "slept"

@orchestra.workflow
async def sleeper(ctx: orchestra.Context, kind: str) -> str:
    return await ctx.step("slow", slow if kind == "thread" else slow_too)

async def inside(kind: str) -> orchestra.Outcome[str]:
    return orchestra.run(sleeper, kind=kind)

if __name__ == "__main__":
    if sys.argv[1] == "resume":
        print(orchestra.resume("last").result)
    elif sys.argv[2:]:
        print(asyncio.run(inside(sys.argv[1])))
    else:
        print(orchestra.run(sleeper, kind=sys.argv[1]))
"""


@pytest.mark.parametrize("words", [("thread",), ("async",), ("thread", "inside"), ("async", "inside")])
def test_ctrl_c_in_the_middle_leaves_a_run_that_can_be_resumed(tmp_path: Path, words: tuple[str, ...]) -> None:
    project = project_of(tmp_path)
    configured(project, "sleeper", SLEEPER)
    command = [sys.executable, "sleeper.py"]
    began = project.path / "began"
    with subprocess.Popen([*command, *words], cwd=project.path, stderr=subprocess.PIPE) as process:
        until(began.exists)
        process.send_signal(signal.SIGINT)
        since = time.monotonic()
        _, said = process.communicate(timeout=60)
        assert time.monotonic() - since < 30  # and not the ten minutes that the function takes
    assert b"KeyboardInterrupt" in said
    assert process.returncode in (1, 130, -signal.SIGINT)
    (project.path / "again").touch()
    again = subprocess.run(
        [*command, "resume"], cwd=project.path, env=dict(os.environ), capture_output=True, text=True, check=True
    )
    assert again.stdout == "slept\n"
    conforms(project)


def test_a_second_driver_is_told_so(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    run = orchestra.run(asked, project=project.path)
    with claimed(project.folder):
        outcome = orchestra.resume(run.runId, project=project.path)
    assert outcome.exitCode == 7
    assert outcome.status == "awaiting_input"


TWICE = """\
import orchestra
import helper

@orchestra.workflow
async def twice(ctx: orchestra.Context, deep: bool = False) -> str:
    return "deep" if deep else await ctx.call("below", twice, deep=True)

if __name__ == "__main__":
    import twice as again  # the same file, loaded as a module
    print(orchestra.run(twice).result, orchestra.run(again.twice).result)
"""


def test_a_file_that_is_loaded_as_the_program_and_as_a_module_is_no_second_workflow(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    (project.path / "twice.py").write_text(TWICE)
    (project.path / "helper.py").write_text("")
    command = [sys.executable, "twice.py"]
    done = subprocess.run(command, cwd=project.path, capture_output=True, text=True, check=False)
    assert done.stdout == "deep deep\n", done.stderr
