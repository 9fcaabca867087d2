"""`orchestra init --team` and `orchestra team check` on the real program."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.project import Project, records

KOREAN = Path(__file__).parents[2] / "examples" / "team-ko"
PRICED = ("--provider", "anthropic:claude-sonnet-4-5")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "프로젝트")
    assert project.run("init", "--team").returncode == 0
    return project


def files(project: Project) -> set[str]:
    return {str(path.relative_to(project.path)) for path in project.path.rglob("*") if path.is_file()}


@pytest.mark.spec("S4-93", "S4-94", "S4-95", "S4-97", "S4-99")
def test_init_team_writes_a_sample_that_the_check_finds_right(project: Project) -> None:
    agents = ("planner", "research", "tech-architect", "integrator", "task-planner", "implementer", "qa-reviewer")
    assert files(project) == {
        *("calc.py", "orchestrator.md", "orchestrators/planning-team.md", "orchestrators/dev-team.md"),
        *(f"agents/{name}.md" for name in agents),
        "tasks/blog-project.md",
    }
    (project.path / "agents" / "planner.md").write_text("mine")
    again = project.run("init", "--team")
    assert again.returncode == 0 and "kept agents/planner.md: it was there already" in again.stdout
    assert (project.path / "agents" / "planner.md").read_text() == "mine"


def test_the_check_tells_what_a_team_will_do_before_anything_is_paid(project: Project) -> None:
    before = files(project)
    told = project.run("team", "check", "planning-team", "blog-project", *PRICED)
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    assert lines[:-2] == [
        "planning-team on blog-project",
        "phase 1: solo (one agent alone)",
        "  planner  makes project-vision.md",
        "phase 2: turns (drafts, reviews, revisions; at most 2 rounds)",
        "  research        makes market-analysis.md    from project-vision.md",
        "  tech-architect  makes tech-architecture.md  from project-vision.md",
        "  research reviews tech-architecture.md: reviews/phase2-research-reviews-tech-architecture.md",
        "  tech-architect reviews market-analysis.md: reviews/phase2-tech-architect-reviews-market-analysis.md",
        "phase 3: solo (one agent alone)",
        "  integrator  makes final-summary.md, decisions.json"
        "  from project-vision.md, market-analysis.md, tech-architecture.md",
    ]
    assert lines[-2].startswith("8 to 12 calls without retries; at most $")
    assert lines[-1] == "next: orchestra orchestrate planning-team blog-project"
    assert files(project) == before


def test_all_teams_are_checked_as_json_in_korean_too(project: Project) -> None:
    for folder in ("orchestrators", "agents", "tasks"):
        shutil.rmtree(project.path / folder)
    shutil.copytree(KOREAN, project.path, dirs_exist_ok=True)
    told = project.run("team", "check", "--json", *PRICED)
    assert told.returncode == 0, told.stderr
    dev, planning = records(told.stdout)
    assert (dev["type"], dev["team"], dev["childRuns"]) == ("team", "dev-team", ["contracts"])
    assert "give --input-run RUN" in dev["notes"][0]
    assert (planning["callsLeast"], planning["callsMost"], planning["notes"]) == (8, 12, [])
    assert 0 < planning["costUsdMost"] < 20
    assert planning["phases"][1]["reviews"][0] == {
        "reviewer": "research",
        "author": "tech-architect",
        "target": "artifacts/tech-architecture.md",
        "file": "reviews/phase2-research-reviews-tech-architecture.md",
    }


@pytest.mark.spec("S4-06")
def test_faults_and_missing_files_are_told_and_the_exit_code_is_2(project: Project) -> None:
    team = project.path / "orchestrators" / "planning-team.md"
    team.write_text(team.read_text().replace("| 3 | `integrator` |", "| 3 | `integrater` |"))
    told = project.run("team", "check")
    assert told.returncode == 2
    assert told.stderr.splitlines() == [
        "orchestrators/planning-team.md:20: `integrater` is no member of the team;"
        " expected `integrator`, or a row for it under `## Team` (or `## 팀 구성`)"
    ]
    assert told.stdout.startswith("dev-team\n")  # the other team is checked all the same
    (project.path / "agents" / "implementer.md").unlink()
    broken = project.run("team", "check", "--json")
    assert broken.returncode == 2
    assert [(one["type"], one["path"]) for one in records(broken.stdout)] == [
        ("missing", "agents/implementer.md or .claude/agents/implementer.md"),
        ("fault", "orchestrators/planning-team.md"),
    ]
    assert records(broken.stdout)[1]["line"] == 20


def test_a_project_without_teams_is_told_how_to_get_one(tmp_path: Path) -> None:
    told = Project(tmp_path / "p").run("team", "check")
    assert told.returncode == 2 and "orchestra init --team" in told.stderr


def test_the_folders_of_teams_are_configured_and_lie_inside_the_project(project: Project) -> None:
    (project.path / "orchestrators").rename(project.path / "teams")
    project.configure("team: {orchestrators: ./teams}\n")
    assert project.run("team", "check", "planning-team").returncode == 0
    project.configure("team:\n  agents: ../agents\n  orchestrater: x\n")
    told = project.run("team", "check")
    assert told.returncode == 2
    assert "orchestra.config.yaml:2: `team.agents`: '../agents': name a place inside the project" in told.stderr
    assert "unknown key `team.orchestrater`; did you mean `orchestrators`?" in told.stderr
