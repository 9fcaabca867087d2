"""Questions of a run whose other branches work on: an answer is taken at once, and a default only if that was asked."""

from __future__ import annotations

from pathlib import Path

import pytest

import orchestra
from orchestra.app import App
from orchestra.core.errors import UsageError
from orchestra.core.run import RunFolder
from tests.library.support import conforms
from tests.support.project import Project, until
from tests.support.runs import read_events

WORKFLOWS = ".runs/workflows"
NEW_FILE = "diff --git a/z b/z\nnew file mode 100644\n--- /dev/null\n+++ b/z\n@@ -0,0 +1 @@\n+a\n"


def _run_that_asks(project: str) -> RunFolder:
    """The run with the open question: the root, or its child."""
    for path in (Path(project) / WORKFLOWS).iterdir():
        if "QUESTION_RAISED" in _types(RunFolder(path)):
            return RunFolder(path)
    raise LookupError


def _types(folder: RunFolder) -> list[str]:
    return [event.type for event in read_events(folder.events)] if folder.events.exists() else []


def answered_meanwhile(project: str) -> bool:
    """The slow branch: a person answers while it works, and it ends only when the answer is recorded."""
    asked: list[RunFolder] = []

    def raised() -> bool:
        try:
            asked.append(_run_that_asks(project))
        except LookupError:
            return False
        return True

    until(raised)
    App(Path(project)).answers.answer(asked[0], "파랑")
    until(lambda: "QUESTION_ANSWERED" in _types(asked[0]))
    return True


@orchestra.workflow
async def colour(ctx: orchestra.Context) -> str:
    return await ctx.ask("colour", "무슨 색?", options=("빨강", "파랑"), default="빨강", impact="the whole page")


@orchestra.workflow
async def painting(ctx: orchestra.Context, where: str, child: bool) -> dict[str, object]:
    async def asking(branch: orchestra.Context) -> object:
        if child:
            return await branch.call("choose", colour)
        return await branch.ask("colour", "무슨 색?", options=("빨강", "파랑"))

    async def slow(branch: orchestra.Context) -> object:
        return await branch.step("slow", answered_meanwhile, where)

    return await ctx.fan_out({"asks": asking, "slow": slow})


@pytest.mark.parametrize("child", [False, True])
def test_an_answer_is_taken_while_another_branch_works(tmp_path: Path, child: bool) -> None:
    """B7: the run is driven without a terminal, and the answer does not wait for the slowest branch."""
    project = Project(tmp_path / "p")
    end = orchestra.run(painting, project=project.path, where=str(project.path), child=child)
    assert (end.status, end.result) == ("completed", {"asks": "파랑", "slow": True})


def test_with_on_ask_default_the_run_goes_on_and_the_answer_is_marked_as_provisional(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    end = orchestra.run(colour, project=project.path, on_ask="default")
    assert (end.status, end.result) == ("completed", "빨강")
    [answer] = [event for event in project.events() if event.type == "QUESTION_ANSWERED"]
    assert answer.payload["outcome"]["provisional"] is True
    assert answer.payload["outcome"]["by"] == "default"
    report = project.run("report", "last").stdout
    assert "answer (the default, provisional): 빨강" in report
    assert report.endswith("## Model calls\n\nnone\n")
    conforms(project)


@orchestra.workflow
async def odd_options(ctx: orchestra.Context) -> str:
    return await ctx.ask("colour", "무슨 색?", options=("\x1b[31m빨강\x1b[0m", "line\none", "bell\x07"))


@pytest.mark.parametrize(
    ("typed", "option"),
    [(r"\x1b[31m빨강\x1b[0m", "\x1b[31m빨강\x1b[0m"), ("LINE one", "line\none"), ("bell\\x07", "bell\x07")],
)
def test_an_option_with_control_characters_is_answered_as_it_is_shown(tmp_path: Path, typed: str, option: str) -> None:
    project = Project(tmp_path / "p")
    assert orchestra.run(odd_options, project=project.path).status == "awaiting_input"
    app = App(project.path)
    with pytest.raises(UsageError, match=r"the options are: \\x1b\[31m빨강\\x1b\[0m, line one, bell\\x07"):
        app.answers.answer(project.folder, "초록")
    app.answers.answer(project.folder, typed)
    assert orchestra.resume("last", odd_options, project=project.path).result == option


@orchestra.workflow
async def undecided(ctx: orchestra.Context) -> str:
    return await ctx.ask("colour", "무슨 색?")


def test_a_question_without_a_default_still_waits(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    end = orchestra.run(undecided, project=project.path, on_ask="default")
    assert (end.status, end.exitCode) == ("awaiting_input", 3)


def test_a_persons_answer_comes_before_the_default(tmp_path: Path) -> None:
    """The run parked without `--on-ask`, was answered, and is driven on with it."""
    project = Project(tmp_path / "p")
    assert orchestra.run(colour, project=project.path).status == "awaiting_input"
    App(project.path).answers.answer(project.folder, "파랑")
    end = orchestra.resume("last", colour, project=project.path, on_ask="default")
    assert end.result == "파랑"
    [answer] = [event for event in project.events() if event.type == "QUESTION_ANSWERED"]
    assert "provisional" not in answer.payload["outcome"]


def test_on_ask_default_answers_no_approval(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    done = project.loop("--on-ask", "default")
    assert done.returncode == 3
    assert project.state()["status"] == "awaiting_approval"


@orchestra.workflow
async def greedy(ctx: orchestra.Context, where: str) -> str:
    async def asks(branch: orchestra.Context) -> str:
        try:
            return await branch.ask("colour", "Which?")
        except:  # noqa: E722  # the mistake that is tested
            return "caught"

    if where == "branch":
        return (await ctx.fan_out({"one": asks, "two": asks}))["one"]
    if where == "child":
        try:
            return await ctx.call("choose", colour)
        except BaseException:
            return "caught"
    if where == "patch":
        try:
            return str(await ctx.patch(NEW_FILE))
        except BaseException:
            return "caught"
    return await ctx.step("after", str, await asks(ctx))


@pytest.mark.parametrize(
    ("where", "step"),
    [("ask", "colour.1"), ("branch", "one/colour.1"), ("child", "choose.1"), ("patch", "approve.1")],
)
def test_a_workflow_that_catches_the_exception_by_which_it_waits_fails(tmp_path: Path, where: str, step: str) -> None:
    project = Project(tmp_path / "p")
    outcome = orchestra.run(greedy, where=where, project=project.path)
    assert (outcome.status, outcome.exitCode) == ("failed", 1)
    assert f"step {step} waits, but the workflow caught the exception by which it waits" in outcome.message
    assert f"catch Exception, not BaseException. Correct that, then: orchestra retry {outcome.runId}" in outcome.message
    again = orchestra.resume(outcome.runId, greedy, project=project.path)
    assert (again.status, again.message) == (outcome.status, outcome.message)
    conforms(project)


@orchestra.workflow
async def tidy(ctx: orchestra.Context) -> str:
    try:
        return await ctx.ask("colour", "Which?")
    finally:
        await ctx.step("tidy", len, "x")


def test_a_step_in_a_finally_catches_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    assert orchestra.run(tidy, project=project.path).status == "awaiting_input"
    assert project.run("answer", "last", "blue", "--no-drive").returncode == 0
    assert orchestra.resume("last", tidy, project=project.path).result == "blue"
