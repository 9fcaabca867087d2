"""The planner asks to see more before it plans, and a fixer once: answered from the workspace, journaled like all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestra.core.reading import key_of
from tests.support.project import FIX_PATCH, KNOWN, PLAN, RIGHT_PATCH, WRONG_PATCH, Project, role
from tests.support.runs import verify

NEED = "NEED\n- file: deep/hidden.py\n- search: unusual_name"


def conforms(project: Project) -> None:
    assert [str(finding) for finding in verify(project.folder.path, KNOWN)] == []


def prompt(project: Project, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project.folder.artifacts / f"{name}.prompt.json").read_text())
    return found


def planned(project: Project) -> list[str]:
    calls = [event for event in project.events() if event.type == "PHASE_COMPLETED" and event.phase == "plan"]
    return [key_of(event) for event in calls if event.payload["effect"] == "ModelCall"]


def text_of(project: Project, name: str) -> str:
    said = prompt(project, name)
    return "".join((said["prompt"]["user"], *(part["content"] for part in said["contextArtifacts"])))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "p", role("planner", NEED), role("planner", PLAN), role("developer", RIGHT_PATCH))
    (project.path / "deep").mkdir()
    (project.path / "deep" / "hidden.py").write_text("unusual_name = '보이나요'\n")
    return project


def test_a_planner_that_asks_is_shown_it_and_asked_again(project: Project) -> None:
    assert project.loop("--approval", "never").returncode == 0
    assert planned(project) == ["plan.1", "plan.2"]
    told = project.run("report", "last").stdout
    assert "the planner asks to see deep/hidden.py, unusual_name (plan.1)" in told
    assert "plan done (plan.2)" in told and "plan done (plan.1)" not in told
    asked = prompt(project, "plan/iter-0001")
    assert "You asked to see:\n\n- file: deep/hidden.py\n- search: unusual_name" in asked["prompt"]["user"]
    assert "You may ask 2 more times" in asked["prompt"]["user"]
    assert "보이나요" in text_of(project, "plan/iter-0001")
    assert "보이나요" in text_of(project, "execute/iter-0001")  # who carries the plan out sees it too
    # The request is no plan: the document is the plan's (S1-103), and the request's raw reply is kept.
    assert (project.folder.artifacts / "plan" / "iter-0001.md").read_text() == PLAN
    assert (project.folder.artifacts / "plan" / "iter-0001.attempt-1.raw.txt").read_text() == NEED
    first, second = (project.run("show", "last", "--prompt", key).stdout for key in ("plan.1", "plan.2"))
    assert "You asked to see" not in first and "You asked to see" in second
    conforms(project)


def test_a_planner_that_plans_at_once_costs_one_call(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    assert project.loop("--approval", "never").returncode == 0
    assert planned(project) == ["plan.1"]


def test_three_rounds_are_the_most_and_then_it_must_plan(project: Project) -> None:
    needs = [role("planner", f"NEED\n- search: word{number}") for number in range(1, 5)]
    project.write_script(*needs, role("planner", PLAN), role("developer", RIGHT_PATCH))
    assert project.loop("--approval", "never").returncode == 0
    assert planned(project) == ["plan.1", "plan.2", "plan.3", "plan.5"]
    [failed] = [event for event in project.events() if event.type == "PHASE_FAILED"]
    assert "must plan now" in failed.payload["error"]["message"]
    assert "You cannot ask again" in prompt(project, "plan/iter-0001")["prompt"]["user"]
    conforms(project)


def test_a_planner_that_only_ever_asks_ends_the_run(project: Project) -> None:
    project.write_script(role("planner", "NEED\n- search: more", repeat=True))
    done = project.loop()
    assert done.returncode == 1 and "must plan now" in done.stderr
    assert planned(project) == ["plan.1", "plan.2", "plan.3"]
    conforms(project)


def test_a_request_for_nothing_is_told_and_the_planner_is_asked_once_more(project: Project) -> None:
    project.write_script(role("planner", "NEED\nmore!"), role("planner", PLAN), role("developer", RIGHT_PATCH))
    assert project.loop("--approval", "never").returncode == 0
    assert "no line has the form" in text_of(project, "plan/iter-0001")
    conforms(project)


def ask_to_see(*items: str) -> str:
    listed = "".join(f"- {item}\n" for item in items)
    head = "<<<AIO_RESULT_START>>>\ntype: ASK\nquestion: What is in these?\nreason: they are not shown\n"
    return f"{head}needed_input:\n{listed}<<<AIO_RESULT_END>>>\n"


LOOK = ask_to_see("file: deep/hidden.py:1-1", "search: unusual_name")


def test_a_fixer_may_ask_once_and_the_workspace_answers(project: Project) -> None:
    project.write_script(
        role("planner", PLAN), role("developer", WRONG_PATCH), role("fixer", LOOK), role("fixer", FIX_PATCH)
    )
    assert project.loop("--approval", "never").returncode == 0
    [raised] = [event for event in project.events() if event.type == "QUESTION_RAISED"]
    [answered] = [event for event in project.events() if event.type == "QUESTION_ANSWERED"]
    assert answered.payload["outcome"]["by"] == "workspace"
    assert answered.payload["questionId"] == raised.payload["questionId"]
    assert "보이나요" in text_of(project, "fix/iter-0002")
    conforms(project)


def test_a_fixer_that_asks_again_asks_a_person(project: Project) -> None:
    project.write_script(
        role("planner", PLAN), role("developer", WRONG_PATCH), role("fixer", LOOK), role("fixer", LOOK)
    )
    assert project.loop("--approval", "never").returncode == 3
    assert project.types()[-1] == "QUESTION_RAISED" and project.types().count("QUESTION_ANSWERED") == 1
    conforms(project)


def test_a_question_that_only_a_person_can_answer_stays_one(project: Project) -> None:
    mixed = ask_to_see("file: deep/hidden.py", "which of the two ways")
    project.write_script(role("planner", PLAN), role("developer", WRONG_PATCH), role("fixer", mixed))
    assert project.loop("--approval", "never").returncode == 3
    assert "QUESTION_ANSWERED" not in project.types()
