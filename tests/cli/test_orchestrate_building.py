"""A phase of mode `loop`: a child run builds in a copy of the project; its result comes to the project as a patch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest

from orchestra.core.run import RunFolder
from orchestra.workflows.all import ALL
from orchestra.workflows.team.building import BUILDERS
from orchestra.workflows.team.definitions import Mode
from tests.support.contracts import CHECK, ContractsProject, script
from tests.support.project import PLAN, RIGHT_PATCH, WRONG_PATCH, Project, patch, role
from tests.support.team import TASK, TEAM, VISION, TeamProject, says, write_team

ROWS = (("planner", "project-vision.md", (), ""), ("builder", "built.md", ("project-vision.md",), ""))
PHASES = ((1, ("planner",), "solo"), (2, ("builder",), "loop"))
DRAFT, BUILT = says("planner", VISION, "execute"), says("builder", "# Built\n한 파일", "execute")
WRONG, RIGHT = says("builder", WRONG_PATCH, "execute"), says("builder", RIGHT_PATCH, "execute")
KOREAN = Path(__file__).parents[2] / "examples" / "team-ko"
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
    approved = project.run("approve", "last", "--no-input")
    assert approved.returncode == 0, approved.stderr
    [run] = project.teams
    assert f"what changed in the project: orchestra diff {run.id}" in approved.stderr
    assert calc(project) == "def add(a, b):\n    return a + b\n\n\ndef 빼기(a, b):\n    return a - b\n"
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
    failed = project.run("approve", "last", "--hunks", "calc.py:1", "--no-input", "--json")  # a part of it, in the copy
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


def test_a_phase_of_mode_contracts_builds_in_a_copy_too(tmp_path: Path) -> None:
    assert set(BUILDERS) == set(get_args(Mode)) - {"solo", "turns"} <= {workflow.name for workflow in ALL}
    project = ContractsProject(tmp_path / "프로젝트", *script(("T1", "T1-S1")), says("builder", "# Built"))
    write_team(project.path, (("builder", "built.md", (), ""),), ((1, ("builder",), "contracts"),))
    project.configure(f"version: '1.0'\nloop: {{approval: never}}\ncontracts: {{approval: never, test: '{CHECK}'}}\n")
    before = {path.name for path in (project.path / "calc").iterdir()}
    given = ("--provider", f"scripted:{project.script}", "--no-input", "--json")
    result = project.run("orchestrate", TEAM, TASK, *given, timeout=120)
    assert result.returncode == 0, result.stderr
    assert {path.name for path in (project.path / "calc").iterdir()} > before
    [run] = [RunFolder(path) for path in (project.path / "runs").glob(f"2*_{TEAM}_{TASK}")]
    assert (run.artifacts / "built.md").read_text(encoding="utf-8") == "# Built\n"
    assert project.run("requests", "--json").stdout == ""  # its R1 is the copy's, and hides no R1 of the project


@pytest.mark.spec("S4-55", "S4-57", "S4-93", "S4-94", "S4-95", "S4-97", "S4-99")
@pytest.mark.parametrize("language", ["English", "한국어"])
def test_the_sample_teams_plan_and_then_build(tmp_path: Path, language: str) -> None:
    project = Project(tmp_path / "프로젝트")
    if language == "English":
        assert project.run("init", "--team").returncode == 0
    else:
        shutil.copytree(KOREAN, project.path, dirs_exist_ok=True)
    dev = project.path / "orchestrators" / "dev-team.md"
    dev.write_text(dev.read_text(encoding="utf-8").replace("| contracts |", "| loop |"), encoding="utf-8")
    project.configure(
        "version: '1.0'\nloop: {checks: [\"grep -q 'a + b' calc.py\"], evaluator: false, approval: never}\n"
    )
    project.write_script(
        says("planner", "# 비전", "execute"),
        says("research", "# 시장", "execute"),
        says("tech-architect", "# 구조", "execute"),
        says("research", "변경 사항 없음", repeat=True),
        says("tech-architect", "변경 사항 없음", repeat=True),
        says("integrator", "=== artifacts/final-summary.md\n# 요약\n덧셈을 고친다"),
        says("task-planner", "# 구현 계획"),
        role("planner", PLAN, match={"role": "planner", "phase": "plan"}),
        says("implementer", RIGHT_PATCH, match={"agent": "implementer", "role": "developer"}),
        says("implementer", "# 구현"),
        says("qa-reviewer", "# 확인"),
    )
    given = ("--provider", f"scripted:{project.script}", "--no-input", "--json")
    planned = project.run("orchestrate", "planning-team", "blog-project", *given)
    assert planned.returncode == 0, planned.stderr
    first = project.run("runs", "--latest", "planning-team", "blog-project").stdout.strip()
    built = project.run("orchestrate", "dev-team", "blog-project", "--input-run", first, *given)
    assert built.returncode == 0, built.stderr
    assert "a + b" in calc(project)
    run = project.path / "runs" / first.replace("planning-team", "dev-team")
    assert (run / "artifacts" / "qa-report.md").read_text(encoding="utf-8") == "# 확인\n"
    assert (run / "artifacts" / "final-summary.md").read_text(encoding="utf-8") == "# 요약\n덧셈을 고친다\n"
    assert json.loads((run / "run-meta.json").read_text(encoding="utf-8"))["inputRunId"] == first


def test_a_phase_that_needs_tests_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    project = TeamProject(tmp_path / "프로젝트", rows=ROWS, phases=(PHASES[0], (2, ("builder",), "contracts")))
    result = project.orchestrate()
    assert result.returncode == 2 and not (project.path / "runs").exists()
    assert "phase 2 builds test first, and no test command was found" in result.stderr
    checked = project.run("team", "check", TEAM)
    assert checked.returncode == 0 and "no test command was found" in checked.stdout
    project.configure("version: '1.0'\ncontracts: {test: 'python3 -m unittest'}\n")
    assert "no test command was found" not in project.run("team", "check", TEAM).stdout
