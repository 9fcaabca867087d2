"""Definitions by their names, from a project's files: what is missing, wrong or not a plain file is told at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestra.config.sections import TeamSection
from orchestra.core.errors import UsageError
from orchestra.workflows.team.definitions import Definition
from orchestra.workflows.team.load import MOST_BYTES, Loaded, load_team, team_names
from orchestra.workflows.team.samples import write_sample
from tests.workflows.team.test_readers import CLAUDE

SECTION = TeamSection()
KOREAN = Path(__file__).parents[3] / "examples" / "team-ko"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_sample(tmp_path, SECTION)
    return tmp_path


def load(project: Path, team: str = "planning-team", task: str = "blog-project") -> Loaded:
    return load_team(project, SECTION, team, task)


@pytest.mark.spec("S4-01", "S4-03", "S4-04", "S4-05", "S4-11", "S4-99")
@pytest.mark.parametrize("korean", [False, True])
def test_the_sample_is_loaded_by_names(project: Path, korean: bool) -> None:
    found = load(KOREAN if korean else project).required()
    assert [agent.name for agent in found.agents] == ["planner", "research", "tech-architect", "integrator"]
    assert [(phase.number, phase.agents, phase.mode) for phase in found.team.phases] == [
        (1, ("planner",), "solo"),
        (2, ("research", "tech-architect"), "turns"),
        (3, ("integrator",), "solo"),
    ]
    assert [one.file for one in found.reviews(found.team.phases[1])] == [
        "reviews/phase2-research-reviews-tech-architecture.md",
        "reviews/phase2-tech-architect-reviews-market-analysis.md",
    ]
    assert found.artifacts_of("integrator") == ("artifacts/final-summary.md", "artifacts/decisions.json")
    assert found.rules.startswith("# ") and found.task.direction
    assert all(found.agent(name).outputs == found.artifacts_of(name) for name in ("planner", "research", "integrator"))
    dev = load(KOREAN if korean else project, "dev-team").required()
    assert [phase.mode for phase in dev.team.phases] == ["solo", "contracts", "solo"]


@pytest.mark.spec("S4-06")
def test_all_missing_files_are_named_in_one_message_with_what_to_do(project: Path) -> None:
    for name in ("research", "integrator"):
        (project / "agents" / f"{name}.md").unlink()
    found = load(project, task="blog-projct")
    with pytest.raises(UsageError) as missing:
        found.required()
    assert str(missing.value).splitlines() == [
        "files are missing:",
        "  tasks/blog-projct.md: the task; did you mean `blog-project`?",
        "  agents/research.md or .claude/agents/research.md: an agent of the team; choose one of: implementer, planner,"
        " qa-reviewer, task-planner, tech-architect",
        "  agents/integrator.md or .claude/agents/integrator.md: an agent of the team; choose one of: implementer,"
        " planner, qa-reviewer, task-planner, tech-architect",
        "For a working sample: orchestra init --team. The format is in docs/teams.md",
    ]
    assert missing.value.exit_code == 2
    assert "orchestrators/plan.md: the team; " in str(load(project, "plan").told())


def test_a_team_that_the_task_does_not_list_is_refused(project: Path) -> None:
    task = project / "tasks" / "blog-project.md"
    task.write_text(task.read_text().replace("| 2 | `dev-team` | Build the first version of the plan |\n", ""))
    with pytest.raises(UsageError, match=r"tasks/blog-project\.md:5: the task does not list the team `dev-team`"):
        load(project, "dev-team").required()
    assert load(project).definition


@pytest.mark.parametrize("name", ["../x", "a/b", "Team", "팀", "my_team", "-x", "", "a" * 61, "x\0"])
def test_a_name_that_is_no_name_reaches_no_file(project: Path, name: str) -> None:  # G4-2
    with pytest.raises(UsageError, match="is no name of the team"):
        load(project, name)
    if name:
        with pytest.raises(UsageError, match="is no name of the task"):
            load(project, task=name)


@pytest.mark.spec("S4-96")
def test_an_agent_is_added_by_a_file_also_one_of_claude(project: Path) -> None:
    team = project / "orchestrators" / "planning-team.md"
    text = team.read_text().replace(
        "| `integrator` | One plan", "| `code-reviewer` | Code |\n| `integrator` | One plan"
    )
    team.write_text(text.replace("| 3 | `integrator` | solo |", "| 3 | `integrator`, `code-reviewer` | turns |"))
    claude = project / ".claude" / "agents"
    claude.mkdir(parents=True)
    (claude / "code-reviewer.md").write_text(CLAUDE)
    (claude / "planner.md").write_text(CLAUDE)  # agents/planner.md comes first
    found = load(project).required()
    assert found.agent("code-reviewer").form == "claude" and found.agent("planner").form == "team"
    assert [(one.reviewer, one.target) for one in found.reviews(found.team.phases[2])] == [
        ("code-reviewer", "artifacts/final-summary.md")
    ]


def spoil_by_link(file: Path) -> None:
    outside = file.parents[2] / "secret.md"
    outside.write_text("# secret")
    file.unlink()
    file.symlink_to(outside)


def spoil_by_folder_link(file: Path) -> None:
    moved = file.parents[2] / "moved"
    file.parent.rename(moved)
    file.parent.symlink_to(moved)


def spoil_by_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def spoil_by_size(file: Path) -> None:
    file.write_bytes(b"x" * (MOST_BYTES + 1))


def spoil_by_bytes(file: Path) -> None:
    file.write_bytes(b"# a\n\n\xff\xfe")


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (spoil_by_link, "agents/planner.md:1: it is a link, not a file; expected a plain file inside the project"),
        (spoil_by_folder_link, "a link, or no folder, is on the way"),
        (spoil_by_pipe, "agents/planner.md:1: it is a named pipe, not a file"),
        (spoil_by_size, "agents/planner.md:1: it has 256 KiB; no such file has more than 256 KiB"),
        (spoil_by_bytes, "agents/planner.md:3: bytes that are no text; expected UTF-8"),
    ],
)
def test_only_plain_text_files_inside_the_project_are_read(tmp_path: Path, spoil: object, fault: str) -> None:
    project = tmp_path / "p"
    project.mkdir()
    write_sample(project, SECTION)
    assert callable(spoil)
    spoil(project / "agents" / "planner.md")
    told = "\n".join(load(project).told())
    assert fault in told and "secret" not in told


def test_faults_of_several_files_are_told_together(project: Path) -> None:
    for name in ("planner", "research"):
        file = project / "agents" / f"{name}.md"
        file.write_text(file.read_text().replace("## Prompt", "## Promt"))
    assert [one.path for one in load(project).faults] == ["agents/planner.md", "agents/research.md"]


@pytest.mark.spec("S4-93", "S4-94", "S4-95", "S4-97")
def test_the_sample_goes_where_the_configuration_has_it_and_overwrites_nothing(tmp_path: Path) -> None:
    section = TeamSection(orchestrators="./teams", agents="who/agents/", rules="rules.md")
    (tmp_path / "rules.md").write_text("mine")
    written = write_sample(tmp_path, section)
    assert written.there == ("rules.md",) and (tmp_path / "rules.md").read_text() == "mine"
    assert {"teams/planning-team.md", "teams/dev-team.md", "who/agents/planner.md", "tasks/blog-project.md"} < set(
        written.new
    )
    assert team_names(tmp_path, section) == ["dev-team", "planning-team"]
    found = load_team(tmp_path, section, "planning-team", "blog-project").required()
    assert isinstance(found, Definition) and found.rules == "mine"
    again = write_sample(tmp_path, section)
    assert not again.new and len(again.there) == len(written.new) + 1


def test_the_sample_is_not_written_through_a_link_or_over_a_file(tmp_path: Path) -> None:
    project, outside = tmp_path / "p", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (project / "agents").symlink_to(outside)
    with pytest.raises(UsageError, match="leads out of the project"):
        write_sample(project, SECTION)
    assert list(outside.iterdir()) == []
    (project / "agents").unlink()
    (project / "agents").write_text("")
    with pytest.raises(UsageError, match="is no folder"):
        write_sample(project, SECTION)
