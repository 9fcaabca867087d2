"""A phase of mode `loop`: a child run builds in a copy of the project; its result comes to the project as a patch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orchestra.core.run import RunFolder
from orchestra.workflows.all import ALL
from orchestra.workflows.team.building import BUILDERS
from tests.support.project import PLAN, RIGHT_PATCH, WRONG_PATCH, Project, patch, role
from tests.support.team import TASK, TEAM, VISION, TeamProject, says

ROWS = (("planner", "project-vision.md", (), ""), ("builder", "built.md", ("project-vision.md",), ""))
PHASES = ((1, ("planner",), "solo"), (2, ("builder",), "loop"))
DRAFT, BUILT = says("planner", VISION, "execute"), says("builder", "# Built\n한 파일", "execute")
WRONG, RIGHT = says("builder", WRONG_PATCH, "execute"), says("builder", RIGHT_PATCH, "execute")
BEFORE = "def add(a, b):\n    return a - b\n"


def project_that_builds(path: Path, *replies: dict[str, Any], approval: str = "never", fixes: int = 0) -> TeamProject:
    project = TeamProject(path, DRAFT, *replies, rows=ROWS, phases=PHASES)
    loop = f"evaluator: false, approval: {approval}, max_fix_iterations: {fixes}"
    project.configure(f"version: '1.0'\nloop: {{checks: [\"grep -q 'a + b' calc.py\"], {loop}}}\n")
    return project


def copies(project: Project) -> list[Path]:
    return [path for run in project.runs if (path := run.path / "workspace").is_dir()]


def calc(project: Project) -> str:
    return (project.path / "calc.py").read_text(encoding="utf-8")


def agents(project: TeamProject, run: RunFolder) -> list[tuple[str, str]]:
    """Agent and role of the calls that this run paid for."""
    return sorted((call["agent"], call["role"]) for call in project.calls(run.id) if not call.get("kept"))


def test_the_project_changes_only_when_the_result_is_there(tmp_path: Path) -> None:
    project = project_that_builds(tmp_path / "project", role("planner", PLAN), RIGHT, BUILT, approval="always")
    for name, text in {".env": "KEY=1\n", ".gitignore": "big/\n", "big/data": "x", "노트/할 일.md": "하나\n"}.items():
        (project.path / name).parent.mkdir(exist_ok=True)
        (project.path / name).write_text(text, encoding="utf-8")
    assert project.orchestrate().returncode == 3
    [copy] = copies(project)
    assert (copy / "노트" / "할 일.md").read_text(encoding="utf-8") == "하나\n"
    assert not {".env", "big", "runs", ".runs"} & {path.name for path in copy.iterdir()}
    assert "+++ b/calc.py" in project.run("diff", "last").stdout  # what waits is named as in the project
    (project.path / "calc.py").write_text(f"{BEFORE}\n\ndef 빼기(a, b):\n    return a - b\n", encoding="utf-8")
    approved = project.run("approve", "last", "--no-input", "--json")
    assert approved.returncode == 0, approved.stderr
    assert calc(project) == "def add(a, b):\n    return a + b\n\n\ndef 빼기(a, b):\n    return a - b\n"
    [run] = project.teams
    assert project.run("diff", run.id).stdout.count("+++ b/calc.py") == 1
    assert "- `calc.py` +1 -1" in (run.path / "report.md").read_text(encoding="utf-8")
    assert ("builder", "developer") in agents(project, run)
    sent = json.loads(next(run.artifacts.glob("*/phase2~builder~draft@1~draft.1.prompt.json")).read_text())
    assert "- calc.py" in sent["prompt"]["user"]
    assert "conforms" in project.run("verify", run.id).stdout
    [child] = project.runs
    assert "conforms" in project.run("verify", child.id).stdout
    assert project.run("diff", child.id).stdout.count("+++ b/calc.py") == 1


def test_the_notes_of_the_child_are_the_planning_artifacts(tmp_path: Path) -> None:
    project = project_that_builds(tmp_path / "project", role("planner", PLAN), RIGHT, BUILT)
    assert project.orchestrate().returncode == 0
    [child] = project.runs
    created = json.loads(child.events.read_text(encoding="utf-8").splitlines()[0])["payload"]
    notes = {note["name"]: note["content"] for note in created["params"]["notes"]}
    assert notes["artifacts/project-vision.md"] == f"{VISION}\n"
    assert created["copy"] == f".runs/workflows/{child.id}/workspace"


def test_a_child_that_fails_leaves_the_project_alone_and_retry_goes_on_with_it(tmp_path: Path) -> None:
    project = project_that_builds(tmp_path / "project", role("planner", PLAN), WRONG)
    result = project.orchestrate()
    assert result.returncode == 1 and "agent builder failed in phase 2 (build)" in result.stderr
    assert calc(project) == BEFORE
    [old] = copies(project)
    assert "a * b" in (old / "calc.py").read_text()
    fix = says("builder", patch("a * b", "a + b"), "fix")
    again = project.run("retry", "last", "--provider", project.other_script(fix, BUILT), "--no-input", "--json")
    assert again.returncode == 0, again.stderr
    assert "a + b" in calc(project) and "a * b" in (old / "calc.py").read_text()  # the old run is as it was
    assert agents(project, project.teams[-1]) == [("builder", "fixer"), ("builder", "planner")]


def test_a_result_that_the_project_cannot_take_is_kept_for_a_retry(tmp_path: Path) -> None:
    project = project_that_builds(tmp_path / "project", role("planner", PLAN), RIGHT, BUILT, approval="always")
    assert project.orchestrate().returncode == 3
    (project.path / "calc.py").write_text("# 다른 것\n", encoding="utf-8")
    failed = project.run("approve", "last", "--no-input", "--json")
    assert failed.returncode == 1 and "its result is not in the project: calc.py" in failed.stderr
    assert calc(project) == "# 다른 것\n"
    (project.path / "calc.py").write_text(BEFORE, encoding="utf-8")
    again = project.run("retry", "last", "--no-input", "--json")
    assert again.returncode == 0, again.stderr
    assert "a + b" in calc(project) and len(copies(project)) == 1  # nothing was built again
    assert agents(project, project.teams[-1]) == [("builder", "planner")]


def test_a_copy_that_somebody_changed_is_not_taken(tmp_path: Path) -> None:
    project = project_that_builds(tmp_path / "project", role("planner", PLAN), RIGHT, BUILT, approval="always")
    assert project.orchestrate().returncode == 3
    [copy] = copies(project)
    (copy / "calc.py").unlink()
    result = project.run("approve", "last", "--no-input", "--json")
    assert result.returncode != 0 and "calc.py" in result.stderr
    assert calc(project) == BEFORE


def test_what_builds_is_a_workflow_and_another_mode_is_refused(tmp_path: Path) -> None:
    assert set(BUILDERS) <= {workflow.name for workflow in ALL}
    project = TeamProject(tmp_path / "project", phases=((1, ("planner",), "contracts"),), rows=ROWS[:1])
    if "contracts" not in BUILDERS:
        result = project.run("orchestrate", TEAM, TASK, "--provider", f"scripted:{project.script}")
        assert result.returncode == 2 and "`contracts`, which this version cannot run" in result.stderr
