"""`--plan FILE`: what a person wrote is carried out as it stands, or refused where it is wrong; nothing is guessed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestra.core.errors import UsageError
from orchestra.workflows.dag.planfile import check_plan_file
from orchestra.workflows.dag.shapes import Task
from tests.support.tasks import Tasks, step

GOOD = json.dumps([step("a", tool="echo")])


def refused(tmp_path: Path, text: str) -> str:
    """What is said about a plan that is refused with exit code 2, before a run exists and a model is asked."""
    project = Tasks(tmp_path / "p", step("model", tool="echo"))
    (project.path / "mine.json").write_text(text, encoding="utf-8")
    done = project.dag("--plan", "mine.json")
    assert (done.returncode, done.stdout, project.runs) == (2, "", [])
    assert "Traceback" not in done.stderr and "answer with" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("text", ["", "  \n", "\ufeff"])
def test_an_empty_plan_file_asks_no_model(tmp_path: Path, text: str) -> None:
    assert "mine.json is empty" in refused(tmp_path, text)


@pytest.mark.spec("S2-61")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{GOOD}\n{GOOD}", "mine.json:2:1: something follows after the end of the plan"),
        (GOOD[:-2], f"mine.json:1:{len(GOOD) - 1}: the file ends before the plan does"),
        (GOOD[:-1] + ",\n]", "mine.json:2:1: there is a comma before the closing ]"),
        ("here it is:\n" + GOOD, "mine.json:1:1: this is not valid JSON"),
        (f"```json\n{GOOD}\n```", "mine.json:1:1: this is not valid JSON"),
        ('{"task": []}', "mine.json is not a plan: a plan is a JSON array of tasks"),
        ("[]", "mine.json has no task"),
        ('[{"task_id": "a", "task_id": "b"}]', "mine.json: the key `task_id` stands twice"),
        ('[{"task_id": "a", "tools": ["echo"]}]', "mine.json cannot be used:\n- task 1: `intent` is missing"),
        ("[" * 100_000, "nested too deeply"),
        ('[{"constraints": {"max_duration_sec": NaN}}]', "NaN is no number"),
    ],
)
def test_a_plan_file_that_is_not_one_plan_is_refused_where_it_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(tmp_path, text)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"input": {"args": ["x"]}}, "unknown key `input` of task 'a'; did you mean `inputs`?"),
        ({"dependson": ["b"]}, "unknown key `dependson` of task 'a'; did you mean `depends_on`?"),
        ({"constraint": {}}, "did you mean `constraints`?"),
        ({"constraints": {"sandbox": {"network": "allow"}}}, "`constraints.sandbox.network`"),
        ({"inputs": {"files": [{"path": "x", "contents": "y"}]}}, "did you mean `content`?"),
    ],
)
def test_an_unknown_key_of_a_persons_plan_is_refused_with_the_one_that_is_meant(
    tmp_path: Path, more: dict[str, object], said: str
) -> None:
    assert said in refused(tmp_path, json.dumps([{**step("a", tool="echo"), **more}]))


def test_an_unknown_key_of_a_models_plan_is_a_warning_with_the_plan(tmp_path: Path) -> None:
    odd = [{**step(name, tool="echo"), "input": {"args": ["x"]}} for name in "abcde"]
    project = Tasks(tmp_path / "p", *odd)
    done = project.run("dag", "g", "--provider", f"scripted:{project.script}", "--approval", "always", "--no-input")
    said = "unknown key `input` of task 'a', 'b', 'c' and 2 more is ignored; did you mean `inputs`?"
    assert done.returncode == 3 and f"! {said}" in done.stderr
    assert project.json("plan.json")["warnings"] == [said]
    assert f"! {said}" in project.run("diff", "last").stdout


@pytest.mark.spec("S2-15")
def test_a_plan_json_and_a_task_record_hold_no_unknown_key(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo"))
    assert project.dag().returncode == 0
    record = {key: project.tasks()["a"][key] for key in Task.__struct_fields__}
    (project.path / "record.json").write_text(json.dumps([record]))
    for path in (project.folder.path / "plan.json", project.path / "record.json"):
        done = project.run("dag", "g", "--plan", str(path), "--dry-run", "--no-input")
        assert done.returncode == 0, done.stderr


@pytest.mark.spec("S2-52")
def test_a_rule_that_forbids_is_named_with_its_line(tmp_path: Path) -> None:
    rule = {"prefix": ["git", "push"], "decision": "forbid", "reason": "no remote"}
    project = Tasks(tmp_path / "p", config={"rules": [rule]})
    by = "no remote (rule `git push`, orchestra.config.yaml:"
    done = project.run("tool", "run", "--", "git", "push", "origin")
    assert done.returncode == 5 and done.stderr.startswith(f"orchestra: git push origin: {by}")
    (project.path / "mine.json").write_text(json.dumps([step("a", tool="git", inputs={"args": ["push"]})]))
    planned = project.run("dag", "g", "--plan", "mine.json")
    assert planned.returncode == 5 and f"mine.json cannot be used:\n- task 'a': {by}" in planned.stderr


def test_a_folder_given_as_a_plan_is_told_what_to_name(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p")
    done = project.run("dag", "g", "--plan", "/")
    assert done.returncode == 2 and "is a folder; name the file in it" in done.stderr


@pytest.mark.parametrize(("more", "said"), [(0, "x.json is empty"), (1, "a plan has at most 16 MiB")])
def test_a_plan_file_has_so_many_bytes_with_its_indentation(more: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_plan_file(" " * ((24 << 20) + more), "x.json")


def test_of_the_keys_of_an_object_the_one_that_stands_twice_is_named() -> None:
    with pytest.raises(UsageError, match="the key `b` stands twice"):
        check_plan_file('[{"a": 1, "b": 1, "c": 1, "b": 2}]', "x.json")
