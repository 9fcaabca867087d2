"""`orchestra agent ls` and `agent inspect`: the three levels and the roles, on the real program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestra.providers.choose import ROLES
from orchestra.schemas import RECORDS
from orchestra.workflows.all import ALL
from orchestra.workflows.dag.agents import CAST, LEVELS, MESSAGES
from tests.support.project import Project, records

BARE = "/usr/bin:/bin"  # a PATH without the claude CLI
CONFIG = """\
whitelist_tools: [echo, python]
providers:
  default: openai_compat:작은모델
roles:
  evaluator: anthropic:claude-haiku-4-5
retries: {max: 5}
llm:
  prompts:
    planner: |
      계획을 세워줘: {intent}
rules:
  - {prefix: [git, push], decision: forbid, reason: 원격이 없다}
"""

AGENTS = tuple(agent for workflow in ALL for agent in workflow.agents or () if agent not in ROLES)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "프로젝트")
    (project.path / "orchestra.config.yaml").write_text(CONFIG, encoding="utf-8")
    return project


def listed(project: Project, *words: str, **env: str) -> dict[str, dict[str, Any]]:
    done = project.run("agent", "ls", "--json", *words, env={"PATH": BARE, **env})
    assert done.returncode == 0, done.stderr
    return {record["name"]: record for record in records(done.stdout)}


def inspected(project: Project, level: str, *words: str) -> dict[str, Any]:
    done = project.run("agent", "inspect", level, "--json", *words, env={"PATH": BARE})
    assert done.returncode == 0, done.stderr
    [record] = records(done.stdout)
    return record


def test_everybody_the_routing_knows_is_listed() -> None:
    assert set(CAST) == {*ROLES, *AGENTS}
    assert all(level.agent in ("", *CAST) for level in LEVELS.values())
    assert all(RECORDS[record][0] is kind for _, _, record, kind in MESSAGES)


@pytest.mark.spec("S2-17")
def test_the_levels_come_first_then_the_roles_each_with_who_answers(project: Project) -> None:
    found = listed(project)
    assert list(found) == ["L1", "L2", "L3", *ROLES, *AGENTS]
    assert found["L3"]["answers"] is None and found["L3"]["tools"] == ["echo", "python"]
    who = {name: (record["answers"] or {}).get("provider") for name, record in found.items()}
    assert who["L2"] == who["planner"] == "openai_compat:작은모델"
    assert who["evaluator"] == "anthropic:claude-haiku-4-5"
    assert found["L1"]["answers"]["agent"] == "summarizer"


def test_the_reason_is_the_flag_the_variable_the_line_or_the_default(project: Project) -> None:
    why = {name: record["answers"]["why"] for name, record in listed(project).items() if record["answers"]}
    assert why["L2"] == "providers.default, orchestra.config.yaml:3"
    assert why["evaluator"] == "roles.evaluator, orchestra.config.yaml:5"
    flagged = listed(project, "--role", "planner=openai_compat:x", "--provider", "anthropic", "--model", "m")
    assert flagged["L2"]["answers"]["why"] == "--role planner"
    assert flagged["L1"]["answers"]["why"] == "--role planner"  # the summarizer's role
    assert flagged["developer"]["answers"]["why"] == "--provider, --model"
    assert flagged["evaluator"]["answers"]["why"] == "roles.evaluator, orchestra.config.yaml:5"
    by_variable = listed(project, ORCHESTRA_PROVIDER="local")
    assert by_variable["L2"]["answers"]["why"] == "ORCHESTRA_PROVIDER"
    (project.path / "orchestra.config.yaml").unlink()
    offered = listed(project, ANTHROPIC_API_KEY="sk-ant-0123456789")
    assert offered["L2"]["answers"]["why"] == "default: ANTHROPIC_API_KEY is set"


def test_who_cannot_answer_is_said_without_an_error(project: Project) -> None:
    (project.path / "orchestra.config.yaml").unlink()
    done = project.run("agent", "ls", env={"PATH": BARE})
    assert done.returncode == 0
    assert "answers: nobody (default: none is configured" in done.stdout
    assert done.stderr.splitlines() == ["no model is configured; see: orchestra models"]
    (project.path / "orchestra.config.yaml").write_text(CONFIG)
    missing = project.run("agent", "ls", env={"PATH": BARE})
    assert missing.returncode == 0 and "set OPENAI_BASE_URL or OPENAI_API_KEY" in missing.stderr


def test_the_list_for_people_has_two_lines_for_each(project: Project) -> None:
    lines = project.run("agent", "ls", env={"PATH": BARE}).stdout.splitlines()
    assert lines[0].startswith("L1 orchestrator  takes the intent")
    assert lines[3].split("answers: ")[1] == (
        "openai_compat:작은모델 (providers.default, orchestra.config.yaml:3), as planner"
    )
    assert lines[5].strip() == "tools: echo, python (whitelist_tools, orchestra.config.yaml:1)"


@pytest.mark.spec("S2-55", "S2-90", "S2-95")
def test_a_level_is_told_in_full(project: Project) -> None:
    level = inspected(project, "L2")
    assert (level["name"], level["title"]) == ("L2", "coordinator")
    assert level["prompt"]["text"] == "계획을 세워줘: {intent}\n" and level["prompt"]["key"] == "llm.prompts.planner"
    assert level["prompt"]["where"] == "orchestra.config.yaml:9"
    assert [(told["from"], told["record"]) for told in level["hears"]] == [
        ("L1", "plan-request"),
        ("L3", "task-result"),
    ]
    assert [(told["to"], told["record"]) for told in level["says"]] == [("L1", "plan"), ("L3", "assignment")]
    assert "intent, constraints {max_duration_sec, whitelist_tools}, config" in level["hears"][0]["fields"]
    assert {"retries.max": (5, "orchestra.config.yaml:6")}.items() <= {
        limit["key"]: (limit["value"], limit["where"]) for limit in level["limits"]
    }.items()


def test_a_worker_has_no_model_but_tools_and_a_sandbox(project: Project) -> None:
    level = inspected(project, "L3")
    assert level["answers"] is None and level["prompt"] is None
    assert level["tools"]["echo"].endswith("/echo")
    assert (level["sandbox"]["tier"], level["sandbox"]["fs"], level["sandbox"]["net"]) == (
        "strict",
        "read-only",
        "deny",
    )
    shown = project.run("agent", "inspect", "L3").stdout
    assert "tier strict" in shown and "network none" in shown and "forbid git push (orchestra.config.yaml:12)" in shown


@pytest.mark.parametrize("name", ["L1", "l2", "Worker"])
def test_a_level_for_people_names_duty_messages_and_limits(project: Project, name: str) -> None:
    done = project.run("agent", "inspect", name)
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("duty", "is told", "says", "model", "limit", "orchestra schema "))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("L4", "there is no agent 'L4'; did you mean L3?"),
        ("coordinater", "did you mean coordinator?"),
        ("planner", "planner is a role, no level; it speaks for L2: orchestra agent inspect L2"),
        ("fixer", "it is a role of the loop"),
        ("한글", "there are L1, L2, L3"),
        ("", "there is no agent ''"),
    ],
)
def test_an_unknown_agent_is_one_clear_message(project: Project, name: str, said: str) -> None:
    done = project.run("agent", "inspect", name)
    assert done.returncode == 2 and done.stdout == ""
    assert said in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_role_that_nobody_is_is_refused(project: Project) -> None:
    done = project.run("agent", "ls", "--role", "plannner=local")
    assert done.returncode == 2 and "--role plannner: there is no such role or agent" in done.stderr


def test_json_of_a_project_is_valid_with_korean_text(project: Project) -> None:
    raw = project.run("agent", "inspect", "L2", "--json").stdout
    assert "계획을 세워줘" in raw and json.loads(raw)["prompt"]["text"].startswith("계획")


def test_a_role_that_leads_nowhere_is_shown_and_the_others_too(project: Project) -> None:
    """It is what one looks for here."""
    (project.path / "orchestra.config.yaml").write_text("roles: {summarizer: nobody}\n")
    done = project.run("agent", "ls")
    assert done.returncode == 0, done.stderr
    assert "there is no provider 'nobody'" in done.stderr
    assert project.run("agent", "inspect", "L2").returncode == 0
