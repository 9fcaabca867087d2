"""`orchestra trust` and `orchestra schema` where there is nothing to ask."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from orchestra.schemas import RECORDS
from tests.support.inside import said
from tests.support.project import PROGRAM, Project
from tests.support.terminal import Terminal


def test_a_project_that_asks_for_nothing_needs_no_consent(tmp_path: Path) -> None:
    for words in (("trust",), ("trust", "--yes"), ("trust", "--show")):
        told = said(tmp_path, *words)
        assert told.code == 0 and "nothing to agree to" in told.out, told.err
    gone = said(tmp_path, "trust", "--revoke")
    assert gone.code == 0 and "there was no consent to take back" in gone.out
    assert said(tmp_path, "trust", "--yes", "--show").code == 2


def test_what_a_configuration_asks_for_is_listed_until_a_person_agrees(tmp_path: Path) -> None:
    (tmp_path / "orchestra.config.yaml").write_text("version: '1.0'\nloop: {approval: never}\n", encoding="utf-8")
    asked = said(tmp_path, "trust", "--show")
    assert asked.code == 0 and "approval" in asked.out and "digest: sha256:" in asked.out, asked
    assert asked.out.endswith("not agreed to: 1\n")
    assert said(tmp_path, "trust", "--yes").code == 0
    for words in (("trust",), ("trust", "--show")):
        agreed = said(tmp_path, *words)
        assert agreed.code == 0 and agreed.out.endswith("you agreed to all of it\n")
    taken = said(tmp_path, "trust", "--revoke")
    assert taken.code == 0 and "your consent is taken back" in taken.out
    assert said(tmp_path, "trust", "--show").out == asked.out


def test_what_was_typed_before_the_question_is_no_consent(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    (project.path / "orchestra.config.yaml").write_text("loop: {approval: never}\n", encoding="utf-8")
    for typed, code in (("", 5), ("y", 0)):
        terminal = Terminal([PROGRAM, "trust"], project.path)
        terminal.type("y")  # while the program begins
        terminal.wait_for("Do you agree")
        terminal.type(f"{typed}\n")
        assert terminal.end() == code


def test_where_nobody_can_be_asked_the_lines_are_told_and_how_to_agree(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    (project.path / "orchestra.config.yaml").write_text("loop: {approval: never}\n", encoding="utf-8")
    command = [PROGRAM, "tui", "--provider", f"scripted:{project.script}"]
    piped = subprocess.run(command, input="y\ngoal\n", capture_output=True, text=True, cwd=project.path)
    assert piped.returncode == 5 and project.runs == []
    assert "loop.approval: never" in piped.stderr and "orchestra trust --yes" in piped.stderr
    assert "you did not agree" not in piped.stderr


def test_the_schema_of_every_record_is_listed_and_printed(tmp_path: Path) -> None:
    listed = said(tmp_path, "schema", "--list")
    assert listed.code == 0 and [line.split()[0] for line in listed.out.splitlines()] == list(RECORDS)
    every = said(tmp_path, "schema")
    assert every.code == 0 and list(json.loads(every.out)) == list(RECORDS)
    assert json.loads(said(tmp_path, "schema", "Event").out) == json.loads(every.out)["event"]
