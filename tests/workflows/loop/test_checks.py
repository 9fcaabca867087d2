"""Checks before the plan and after the patch, by the real program: what they prove, and what they cannot (G1-16)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestra.core.reading import key_of
from tests.support.project import KNOWN, NOOP, PLAN, RIGHT_PATCH, Project, new_file, reply, role
from tests.support.runs import verify

RIGHT = (role("planner", PLAN), role("developer", RIGHT_PATCH))


def conforms(project: Project) -> None:
    assert [str(finding) for finding in verify(project.folder.path, KNOWN)] == []


def evaluation(project: Project, name: str = "iter-0001") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project.folder.artifacts / "evaluate" / f"{name}.json").read_text())
    return found


def prompt(project: Project, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project.folder.artifacts / f"{name}.prompt.json").read_text())
    return found


@pytest.mark.spec("G1-16")
def test_a_check_that_was_red_before_proves_something(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *RIGHT)
    done = project.loop("--approval", "never")
    assert done.returncode == 0
    first = [event for event in project.events() if event.phase == "plan"][:2]
    assert [(event.type, key_of(event)) for event in first] == [
        ("PHASE_STARTED", "baseline-1.1"),
        ("PHASE_COMPLETED", "baseline-1.1"),
    ]
    assert first[1].payload["outcome"]["exitCode"] == 1
    said = evaluation(project)
    assert said["checks"][0]["before"] == "fail" and "red before, green after" in said["grounds"]
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["result"]["checks"][0]["before"] == "fail" and last["result"]["provesNothing"] is False
    assert "| fail | pass |" in project.run("report", "last").stdout
    assert "red before, green after" in project.run("show", "last").stdout
    conforms(project)


def test_a_check_that_was_green_before_proves_nothing_and_this_is_said(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *RIGHT)
    project.check = "true"
    done = project.run(
        *("loop", "g", "--check", "true", "--provider", f"scripted:{project.script}", "--approval", "never")
    )
    assert done.returncode == 0
    start, _, end = done.stderr.partition("patch:")
    assert "`true`: pass (exit code 0); it is green already, so it cannot show that the goal is reached" in start
    assert "every check was green before the plan too" in end
    said = evaluation(project)
    assert said["checks"] == [{"command": "true", "status": "pass", "exitCode": 0, "before": "pass"}]
    assert "green before: proves nothing" in said["grounds"]
    assert "every check was green before the plan too" in project.run("report", "last").stdout


def test_without_a_baseline_nothing_runs_before_the_plan(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *RIGHT)
    assert project.loop("--approval", "never", "--no-baseline").returncode == 0
    assert evaluation(project)["checks"][0]["before"] == "not_run"
    assert not [event for event in project.events() if key_of(event).startswith("baseline")]
    project.configure("loop: {baseline: false}\n")


def test_the_failing_output_reaches_planner_developer_and_person(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *RIGHT)
    script = "import calc\nassert calc.add(2, 3) == 5, '합이 아니다'\n"
    (project.path / "t.py").write_text(script)
    words = ("loop", "g", "--check", "python3 t.py", "--provider", f"scripted:{project.script}", "--approval", "never")
    done = project.run(*words)
    assert done.returncode == 0, done.stderr
    assert "    AssertionError: 합이 아니다" in done.stderr
    for name in ("plan/iter-0001", "execute/iter-0001"):
        notes = {part["name"]: part["content"] for part in prompt(project, name)["contextArtifacts"]}
        assert "AssertionError: 합이 아니다" in notes["the checks before any change"]
    report = project.run("report", "last").stdout
    assert "## Output of failing checks" in report and "합이 아니다" in report


def test_a_check_that_the_patch_makes_is_no_question_before_the_plan(tmp_path: Path) -> None:
    script = new_file("check.sh", "#!/bin/sh", "grep -q 'a - b' calc.py").replace("100644", "100755")
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", reply(script)))
    project.check = "./check.sh"
    assert project.loop("--approval", "never").returncode == 0
    [failed] = [event for event in project.events() if event.type == "PHASE_FAILED"]
    assert key_of(failed) == "baseline-1.1"  # it could not be run
    assert evaluation(project)["checks"][0]["before"] == "not_run"
    conforms(project)


MISSING = "no-such-runner-anywhere"


def test_what_is_missing_outside_the_project_is_asked_before_anything_is_paid(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *RIGHT)
    project.check = f"sh -c '{MISSING} && grep -q x calc.py'"
    assert project.loop("--approval", "never").returncode == 3
    assert project.types()[-1] == "QUESTION_RAISED"
    question = project.events()[-1]
    assert question.phase == "ask" and MISSING in question.payload["question"]
    assert not [event for event in project.events() if event.payload.get("effect") == "ModelCall"]
    # Answered without a cure: asked again, and still nothing is paid.
    assert project.run("answer", "last", "done", "--no-input").returncode == 3
    keys = [key_of(event) for event in project.events() if event.type == "PHASE_STARTED"]
    assert keys == ["baseline-1.1", "baseline-1.2"]
    conforms(project)


def test_an_environment_that_breaks_later_is_evaluated_again_and_never_fixed(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *RIGHT)
    # The runner is there before the patch, and gone after it: the check looks for it only when add() adds.
    project.check = f"sh -c 'grep -q \"a + b\" calc.py || exit 1; test -e cured || {MISSING}'"
    assert project.loop("--approval", "never").returncode == 3
    assert project.types()[-2:] == ["EVALUATION_FAILED_BLOCKED", "QUESTION_RAISED"]
    assert evaluation(project)["decision"] == "blocked" and MISSING in evaluation(project)["grounds"]
    conforms(project)
    (project.path / "cured").touch()
    assert project.run("answer", "last", "installed", "--no-input").returncode == 0
    assert not [event for event in project.events() if event.phase == "fix"]
    assert evaluation(project)["decision"] == "pass"
    assert evaluation(project, "iter-0001.blocked-1")["decision"] == "blocked"
    conforms(project)


def test_a_missing_module_of_the_project_is_an_ordinary_red(tmp_path: Path) -> None:
    made = reply(new_file("shop.py", "price = 3"))
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", NOOP), role("fixer", made))
    (project.path / "shop_test.py").write_text("import shop\n")
    (project.path / "lib").mkdir()
    (project.path / "lib" / "user.py").write_text("import shop\n")
    project.check = "python3 shop_test.py"
    assert project.loop("--approval", "never").returncode in (0, 3)
