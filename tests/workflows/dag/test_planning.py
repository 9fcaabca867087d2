"""The planner of a task graph asks to see more before it plans: answered from the workspace, journaled like all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestra.core.errors import ContractError
from orchestra.core.reading import key_of
from orchestra.core.shown import Wanted
from orchestra.workflows.dag.planning import asked_to_see
from orchestra.workflows.dag.shapes import EDITION
from orchestra.workflows.need import ROUNDS
from tests.support.graph import Graph, job, task
from tests.support.project import conforms
from tests.support.tasks import SUMMARY, Tasks, step

NEED = '{"need": [{"file": "deep/hidden.py"}, {"search": "unusual_name"}]}'
PLAN = json.dumps([step("look", tool="echo")])
ASKED = (Wanted(file="deep/hidden.py"), Wanted(search="unusual_name"))


def planner(text: str, **more: Any) -> dict[str, Any]:
    return {"match": {"phase": "plan"}, "text": text, **more}


@pytest.fixture
def project(tmp_path: Path) -> Tasks:
    project = Tasks(tmp_path / "p", config={"whitelist_tools": ["echo"]})
    (project.path / "deep").mkdir()
    (project.path / "deep" / "hidden.py").write_text("unusual_name = '보이나요'\n")
    (project.path / "long.py").write_text("".join(f"def word{number}(): pass\n" for number in range(20_000)))
    return project


def replies(project: Tasks, *texts: str) -> None:
    project.write_script(*map(planner, texts), {"match": {"agent": "summarizer"}, "text": SUMMARY})


def prompt(project: Tasks, name: str) -> dict[str, Any]:
    return project.json(f"artifacts/{name}.prompt.json")


def text_of(project: Tasks, name: str) -> str:
    said = prompt(project, name)
    return "".join((said["prompt"]["user"], *(part["content"] for part in said["contextArtifacts"])))


def planned(project: Tasks) -> list[str]:
    calls = [event for event in project.events() if event.type == "PHASE_COMPLETED" and event.phase == "plan"]
    return [key_of(event) for event in calls if event.payload["effect"] == "ModelCall"]


@pytest.mark.parametrize("need", [NEED, "NEED\n- file: deep/hidden.py\n- search: unusual_name"])
def test_a_planner_that_asks_is_shown_it_and_asked_again(project: Tasks, need: str) -> None:
    replies(project, need, PLAN)
    assert project.dag().returncode == 0
    assert {line["component"]: line["state"] for line in project.lines()} == dict.fromkeys(("L1", "L2", "L3"), "done")
    assert planned(project) == ["plan.1", "plan.2"]
    assert "보이나요" not in text_of(project, "plan/iter-0001")
    shown = text_of(project, "plan/iter-0002")
    assert "보이나요" in shown
    assert "You asked to see:\n\n- file: deep/hidden.py\n- search: unusual_name" in shown
    assert "You may ask 2 more times" in shown
    assert "You asked for file: deep/hidden.py: shown." in shown
    assert project.read("artifacts/plan/iter-0001.raw.txt") == need
    assert "the planner asks to see deep/hidden.py, unusual_name (plan.1)" in project.run("watch", "last").stdout
    assert "the planner asks to see deep/hidden.py, unusual_name" in project.run("trace", "last").stdout
    assert len(project.messages("L2", "L1")) == 1, "a request is no plan"
    conforms(project)


def test_the_note_on_the_files_describes_how_to_ask(project: Tasks) -> None:
    replies(project, PLAN)
    assert project.dag().returncode == 0
    assert planned(project) == ["plan.1"], "a planner that plans at once costs one call"
    assert "reply with the JSON object that the note describes" in prompt(project, "plan/iter-0001")["prompt"]["system"]
    shown = text_of(project, "plan/iter-0001")
    assert "Reply first with `need` and English search terms." in shown and '{"need": [{"file": "PATH"}' in shown
    assert "NEED" not in shown, "one form is enough"


def test_where_the_whole_project_is_shown_no_request_is_offered(tmp_path: Path) -> None:
    small = Tasks(tmp_path / "p", step("look", tool="echo"), config={"whitelist_tools": ["echo"]})
    assert small.dag().returncode == 0
    assert "def add" in text_of(small, "plan/iter-0001") and '"need"' not in text_of(small, "plan/iter-0001")
    assert prompt(small, "plan/iter-0001")["constraints"]["schema"]["type"] == "array", "and the schema has only plans"


def test_three_rounds_are_the_most_and_then_it_must_plan(project: Tasks) -> None:
    replies(project, *(f"NEED\n- search: word{number}" for number in range(1, 5)), PLAN)
    assert project.dag().returncode == 0
    assert planned(project) == ["plan.1", "plan.2", "plan.3", "plan.5"]
    [failed] = [event for event in project.events() if event.type == "PHASE_FAILED"]
    assert "must plan now" in failed.payload["error"]["message"]
    last = text_of(project, "plan/iter-0005")
    assert "You cannot ask again" in last and "must plan now" in last
    constraints = [prompt(project, f"plan/iter-000{number}")["constraints"]["schema"] for number in (3, 4)]
    assert ["anyOf" in one for one in constraints] == [True, False], "a constrained model can then only plan"
    conforms(project)


def test_a_planner_that_only_ever_asks_ends_the_run(project: Tasks) -> None:
    project.write_script(planner(NEED, repeat=True))
    done = project.dag()
    assert done.returncode == 1 and "must plan now" in done.stderr
    assert planned(project) == ["plan.1", "plan.2", "plan.3"]
    conforms(project)


def test_a_request_for_nothing_is_told(project: Tasks) -> None:
    replies(project, '{"need": ["everything"]}', PLAN)
    assert project.dag().returncode == 0
    assert "has no item of the form" in text_of(project, "plan/iter-0002")
    conforms(project)


def test_what_is_not_for_models_is_refused_and_told(project: Tasks) -> None:
    (project.path.parent / "x").write_text("CANARY\n")
    (project.path / ".gitignore").write_text("ignored.py\n")
    (project.path / "ignored.py").write_text("CANARY = 1\n")
    (project.path / ".git").mkdir()
    (project.path / ".git" / "config").write_text("CANARY\n")
    paths = ("../x", "/etc/passwd", ".git/config", "ignored.py")
    replies(project, json.dumps({"need": [{"file": path} for path in paths]}), PLAN)
    assert project.dag().returncode == 0
    shown = text_of(project, "plan/iter-0002")
    for path in paths:
        assert f"You asked for file: {path}: refused, " in shown
    assert "CANARY" not in shown and "root:" not in shown
    conforms(project)


# -- the flow ---------------------------------------------------------------------------------------------------------

TASKS = json.dumps([task("a")])


def graph(path: Path, *texts: str, **more: Any) -> Graph:
    return Graph(path / "r", job("", edition=EDITION, **more), replies=texts)


def test_requests_of_a_run_are_counted_together_and_shown_to_the_next_plan(tmp_path: Path) -> None:
    one = graph(tmp_path, NEED, TASKS, NEED, NEED, NEED, TASKS, approval="always")
    one.decisions = [False, True]
    assert one.live().status == "completed"
    assert [call.wanted for call in one.asked[2:]] == [ASKED] * 4, "what was asked for once is shown again"
    assert [call.mayAsk is True for call in one.asked] == [True, True, True, True, False, False]
    assert len({call.artifact for call in one.asked}) == len(one.asked) == 3 + ROUNDS


def test_a_run_with_requests_is_replayed_without_drift(tmp_path: Path) -> None:
    one = graph(tmp_path, NEED, TASKS)
    assert one.live().status == "completed"
    assert one.live().status == "completed"
    assert len(one.asked) == 2, "nothing is asked a second time"


def test_a_run_of_edition_1_makes_the_calls_that_it_always_made(tmp_path: Path) -> None:
    old = Graph(tmp_path / "r", job("", intent="do it"), replies=("NEED\n- file: a.py", TASKS))
    assert old.job.edition == 1 and old.live().status == "completed"
    assert old.asked[0].identity() == "sha256:b15eae9ace8b5f2bdcbb6387cec7b2ce08cb322013a0571ea4211a14d06ff381"
    assert "no JSON array of tasks" in old.asked[1].notes[0].content, "such a run knows no requests"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (NEED, ASKED),
        (f"```json\n{NEED}\n```", ASKED),
        (f"Before I can plan:\n\n{NEED}\n", ASKED),
        (f"[{NEED}]", ASKED),
        ('{"need": {"file": "a.py:3-9"}}', (Wanted(file="a.py", lines=(3, 9)),)),
        ('{"need": ["file: a.py", 7, {"file": 3}, {"colour": "red"}]}', (Wanted(file="a.py"),)),
        (PLAN, None),
        (f"{NEED}\n{PLAN}", None),
        ('{"tasks": [], "need": []}', None),
        ('[{"task_id": "need", "need": "x"}]', None),
        ("", None),
    ],
)
def test_a_reply_is_a_request_or_a_plan(text: str, wanted: tuple[Wanted, ...] | None) -> None:
    assert asked_to_see(text) == wanted


@pytest.mark.parametrize("text", ['{"need": []}', '{"need": null}', '{"need": [{"file": ""}]}', "NEED\nmore!"])
def test_a_request_must_ask_for_something(text: str) -> None:
    with pytest.raises(ContractError, match="form"):
        asked_to_see(text)
