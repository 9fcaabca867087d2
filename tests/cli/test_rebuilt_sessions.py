"""`sessions rebuild`: a session is made again from its own runs, and from no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.evidence import ask, ask_agent, decision, finalize, main, planning, runs_of, said, session
from tests.support.project import Project

CHAT = (planning("final_report"), main("안녕하세요", "execute"))
QUESTION = (planning(), ask("지워도 되나요?"), finalize(), decision(answer="됐다"))


def talk(project: Project, name: str, *goals: str) -> None:
    for goal in goals:
        assert ask_agent(project, goal=goal, session=name).returncode == 0


def rebuilt(project: Project, name: str) -> list[str]:
    """The goals of a session that was made again; its memory is the same as before."""
    before = session(project, name)["messages"]
    ran = project.run("sessions", "rebuild", name)
    assert ran.returncode == 0, ran.stderr
    assert session(project, name)["messages"] == before
    exported = json.loads(project.run("sessions", "export", name, "--format", "json").stdout)
    return [turn["goal"] for turn in exported["turns"]]


@pytest.mark.spec("S5-15", "S5-16", "S5-17")
def test_a_rebuilt_session_has_nothing_of_an_earlier_one_of_its_name(tmp_path: Path) -> None:
    """One was deleted and one renamed, then both names are used again."""
    project = Project(tmp_path / "p", *CHAT)
    talk(project, "s1", "하나", "둘", "셋")
    assert project.run("sessions", "delete", "s1").returncode == 0
    talk(project, "s2", "가", "나")
    assert project.run("sessions", "rename", "s2", "s3").returncode == 0
    talk(project, "s1", "새로")
    talk(project, "s2", "다시")
    goals = [rebuilt(project, name) for name in ("s1", "s2", "s3")]
    assert goals == [["새로"], ["다시"], ["가", "나"]]
    folder = project.path / ".orchestra" / "sessions"
    (folder / "s1.turn").unlink()
    assert rebuilt(project, "s1") == ["새로"]  # without its note, from the newest run that names it


@pytest.mark.spec("S5-16", "S5-17")
def test_a_stopped_turn_that_was_retried_is_in_its_session_and_in_no_later_one(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *CHAT)
    talk(project, "s1", "하나")
    project.write_script(*QUESTION)
    assert ask_agent(project, goal="둘").returncode == 3
    stopped = runs_of(project)[-1].name
    assert project.run("cancel", stopped).returncode == 0
    assert project.run("retry", stopped, "--no-input").returncode == 3
    assert project.run("answer", "last", "예").stdout == "됐다\n"
    assert rebuilt(project, "s1") == ["하나", "둘"]
    assert project.run("sessions", "delete", "s1").returncode == 0
    project.write_script(*CHAT)
    talk(project, "s1", "새로")
    project.write_script(*QUESTION)
    assert project.run("retry", stopped, "--no-input").returncode == 3
    ran = project.run("answer", "last", "예")
    assert ran.stdout == "됐다\n" and "session s1 was not changed" in ran.stderr
    assert said(project)[0] == "[AGENT_GOAL:default] 새로" and rebuilt(project, "s1") == ["새로"]
