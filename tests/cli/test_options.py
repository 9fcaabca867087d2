"""`--context FILE[:LINES]` and `--no-context GLOB`, with the real program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import PLAN, RIGHT_PATCH, Project, records, role

GRAPH = {"tasks": [{"task_id": "a", "intent": "say", "tools": ["echo"], "inputs": {"args": ["hi"]}, "depends_on": []}]}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    (project.path / "prod.env").write_text("".join(f"NAME{number}=canary{number}\n" for number in range(1, 10)))
    (project.path / "data").mkdir()
    (project.path / "data" / "numbers.csv").write_text("1,2,3\n")
    return project


def requests(project: Project) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in project.path.glob("**/*.prompt.json")]


def test_lines_of_a_file_are_opened_for_the_whole_run(project: Project) -> None:
    done = project.loop("--context", "prod.env:3-4", "--context", "prod.env:7")
    assert done.returncode == 3, done.stderr
    assert project.events()[0].payload["params"]["context"] == ["prod.env:3-4", "prod.env:7-7"]
    assert len(requests(project)) == 2
    for request in requests(project):
        text = json.dumps(request["contextArtifacts"])
        assert "canary3" in text and "canary4" in text and "canary7" in text
        assert [number for number in (1, 2, 5, 6, 8, 9) if f"canary{number}" in text] == []
    parts = [p for p in records(project.run("sent", "last", "--json").stdout) if p.get("name") == "prod.env"]
    assert [p["lines"] for p in parts if p["type"] == "part"] == [[[3, 4], [7, 7]]] * 2
    assert "lines 3-4, 7" in project.run("sent", "last").stdout


def test_hidden_files_are_neither_shown_nor_listed_also_after_a_resume(project: Project) -> None:
    done = project.loop("--no-context", "data/", "--no-context", "*.env", goal="calc.py, see data/numbers.csv")
    assert done.returncode == 3, done.stderr
    assert project.events()[0].payload["params"]["hidden"] == ["data/", "*.env"]
    project.write_script(role("planner", PLAN), role("developer", RIGHT_PATCH), role("fixer", RIGHT_PATCH))
    assert project.run("reject", "last", "--reason", "no", "--no-input").returncode == 3
    assert len(requests(project)) == 3
    for request in requests(project):
        listing = next(a["content"] for a in request["contextArtifacts"] if a["path"] == ".")
        assert "calc.py" in listing and "data" not in listing and "prod.env" not in listing
        assert "1,2,3" not in json.dumps(request["contextArtifacts"])


def test_a_graph_takes_both_flags(project: Project) -> None:
    project.configure("whitelist_tools: [echo]\n")
    project.write_script(role("planner", json.dumps(GRAPH)))
    flags = ("--context", "prod.env:2", "--no-context", "data", "--plan-only", "--no-input")
    done = project.run("dag", "say hi", "--provider", f"scripted:{project.script}", *flags)
    assert done.returncode == 0, done.stderr
    [request] = requests(project)
    text = json.dumps(request["contextArtifacts"])
    assert "canary2" in text and "canary3" not in text and "numbers.csv" not in text


@pytest.mark.parametrize(
    ("flag", "why"),
    [
        (("--context", "calc.py:9-3"), "--context calc.py:9-3: there are no lines 9-3"),
        (("--context", "calc.py:0-2"), "--context calc.py:0-2: there are no lines 0-2"),
        (("--context", "calc.py:1-9"), "--context calc.py:1-9: calc.py has only 2 lines"),
        (("--context", "none.py:1-2"), "there is no such file"),
        (("--no-context", ""), "--no-context : it names no file"),
        (("--no-context", "a*b*c*d*e"), "--no-context a*b*c*d*e: it is too long, or has more than 3 stars"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_a_run_exists(project: Project, flag: tuple[str, ...], why: str) -> None:
    done = project.loop(*flag)
    assert (done.returncode, done.stdout, project.runs) == (2, "", [])
    assert done.stderr.count("\n") == 1 and why in done.stderr


@pytest.mark.parametrize("verb", ["loop", "dag", "contracts"])
def test_a_file_of_the_folder_that_the_person_is_in_is_meant(tmp_path: Path, verb: str) -> None:
    inner = Project(tmp_path / "p" / "안")
    (tmp_path / "p" / ".runs").mkdir()
    check = () if verb == "dag" else ("--check", "true")
    models = ("--provider", f"scripted:{inner.script}")
    done = inner.run(verb, "x", *check, *models, "--context", "calc.py:9", "--no-input")
    assert done.returncode == 2 and "calc.py has only 2 lines" in done.stderr
