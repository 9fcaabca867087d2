"""What a workflow cannot take for itself: a person's authority, orchestra's own parameters, a stop that it catches."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import orchestra
from tests.library.support import configured
from tests.support.project import Project, role
from tests.support.runs import read_events

FIX = "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n"
FIX += "-    return a - b\n+    return a + b\n"


@orchestra.workflow
async def building(ctx: orchestra.Context) -> object:
    said = await ctx.model("writer", "which check?")
    return await ctx.call("fix", "loop", goal="make add() add", checks=[said.split()])


@orchestra.workflow
async def planning(ctx: orchestra.Context) -> object:
    return await ctx.call("plan", "dag", intent="who am I", asker="person")


def test_a_check_that_a_parent_made_up_needs_the_whitelist(tmp_path: Path) -> None:
    """The model's words become a child's check: they are not a person's."""
    project = Project(tmp_path / "p", role("planner", "whoami", match={"agent": "writer"}))
    outcome = orchestra.run(building, project=project.path, provider=f"scripted:{project.script}")
    assert outcome.exitCode == 1 and "whoami is not in whitelist_tools" in outcome.message
    assert len(project.runs) == 1  # the child never existed


def test_a_check_of_the_configuration_is_a_persons_in_a_child_too(tmp_path: Path) -> None:
    replies = (role("planner", "grep -q a calc.py", match={"agent": "writer"}), role("planner", "a plan"))
    project = Project(tmp_path / "p", *replies, role("developer", FIX))
    project.configure("loop: {checks: [grep -q a calc.py]}\n")
    outcome = orchestra.run(building, project=project.path, provider=f"scripted:{project.script}")
    assert outcome.status == "awaiting_approval", outcome  # of the patch: the check was let through


@pytest.mark.parametrize("words", [("dag", "intent=x", "asker=person"), ("loop", "goal=x", "asker=model")])
def test_who_asks_cannot_be_set_from_outside(tmp_path: Path, words: tuple[str, ...]) -> None:
    project = Project(tmp_path / "p")
    done = project.run("start", *words)
    assert done.returncode == 2 and "'asker' cannot be set from outside" in done.stderr
    assert project.runs == []


def test_a_parent_cannot_give_its_child_a_persons_authority(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    outcome = orchestra.run(planning, project=project.path, provider=f"scripted:{project.script}")
    assert outcome.exitCode == 1 and "'asker' cannot be set from outside" in outcome.message


NAMES = """
import orchestra

@orchestra.workflow
async def names(ctx: orchestra.Context, context: list[str], policy: str, dry: str, plan: int, checks: str) -> str:
    return await ctx.model("writer", "read it", files=True)
"""


def test_parameters_of_a_workflow_are_its_own_whatever_they_are_called(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", "done", match={"agent": "writer"}))
    (project.path / ".env").write_text("TOKEN=hunter2\n")
    configured(project, "names", NAMES)
    words = ('context=[".env"]', "policy=any", "dry=humour", "plan=3", "checks=none")
    done = project.run("start", "names", *words, "--provider", f"scripted:{project.script}")
    assert done.returncode == 0, done.stderr
    assert ".env" not in [line.split()[0] for line in project.run("sent", "last").stdout.splitlines() if line.strip()]
    assert "dry run" not in project.run("runs").stdout
    assert "conforms" in project.run("verify", "last").stdout


VERSION = {"now": 1}


def up(version: int) -> int:
    return version


@orchestra.workflow
async def caught_all(ctx: orchestra.Context) -> str:
    try:
        await ctx.step("up", up, VERSION["now"])
    except Exception as error:
        return f"went on in spite of {type(error).__name__}"
    return await ctx.ask("q", "go on?")


def test_a_workflow_that_catches_everything_is_stopped_by_drift_all_the_same(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    first = orchestra.run(caught_all, project=project.path)
    assert first.status == "awaiting_input"
    VERSION["now"] = 2
    try:
        again = orchestra.resume(first.runId, caught_all, project=project.path)
    finally:
        VERSION["now"] = 1
    assert again.exitCode == 1 and again.status == "awaiting_input" and "up.1" in again.message


@orchestra.workflow
async def broken(ctx: orchestra.Context, how: str) -> str:
    if how == "file":
        Path("/nonexistent/file").read_text()
    sys.exit(3)


@pytest.mark.parametrize(("how", "what"), [("file", "FileNotFoundError"), ("exit", "SystemExit")])
def test_a_workflow_whose_own_code_fails_has_failed(tmp_path: Path, how: str, what: str) -> None:
    project = Project(tmp_path / "p")
    outcome = orchestra.run(broken, project=project.path, how=how)
    assert (outcome.status, outcome.exitCode) == ("failed", 1) and what in outcome.message
    assert read_events(project.folder.events)[-1].type == "RUN_FAILED"
