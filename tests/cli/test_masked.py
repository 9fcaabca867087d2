"""Masking hides bytes of a patch from who approves it: they are told where, how long, and how to see them (F6)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestra.core.redact import MASK
from tests.support.project import PLAN, PROGRAM, RIGHT_PATCH, Project, conforms, new_file, reply, role
from tests.support.terminal import Terminal

HIDDEN = "mysql --password 'a1;./payload.sh' db"
DEPLOY = reply(new_file("배포.sh", "#!/bin/sh", "# 배포", HIDDEN, "mysql --password a1;./payload.sh"))
TOLD = "masked here: 배포.sh line 3, 15 characters (password on a command line)"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "p", role("planner", PLAN), role("developer", DEPLOY), role("fixer", RIGHT_PATCH))


def test_who_is_asked_learns_what_is_not_shown_wherever_they_look(project: Project) -> None:
    done = project.loop()
    assert done.returncode == 3
    [request] = [event for event in project.events() if event.type == "APPROVAL_REQUESTED"]
    assert request.payload["masked"] == [
        {"path": "배포.sh", "line": 3, "characters": 15, "what": "password on a command line"}
    ]
    see = f"the exact bytes: orchestra diff {project.folder.id} --exact"
    for command in (("show", "last"), ("inbox",)):
        told = project.run(*command).stdout
        assert TOLD in told and see in told, told
    shown = project.run("diff", "last")
    assert TOLD in shown.stderr and see in shown.stderr
    assert f"+mysql --password '{MASK}' db" in shown.stdout
    assert "+mysql --password a1;./payload.sh" in shown.stdout  # an unquoted ; ends what is masked
    exact = project.run("diff", "last", "--exact")
    assert f"+{HIDDEN}\n" in exact.stdout and MASK not in exact.stdout
    assert "secrets and all" in exact.stderr and "masked here" not in exact.stderr
    conforms(project)


def test_the_exact_bytes_are_what_is_applied_and_nobody_else_can_read_them(project: Project) -> None:
    project.check = "grep -q payload 배포.sh"
    done = project.loop("--approval", "never")
    assert done.returncode == 0, done.stderr
    assert HIDDEN in (project.path / "배포.sh").read_text()
    exact = project.run("diff", "last", "--exact").stdout
    assert exact == DEPLOY.partition("[PATCH_BEGIN]\n")[2].removesuffix("[PATCH_END]\n")
    holders = [file for file in project.folder.path.rglob("*") if file.is_file() and HIDDEN in file.read_text()]
    assert holders and all(file.stat().st_mode & 0o077 == 0 and ".raw." in file.name for file in holders)


def test_exact_without_the_raw_reply_is_refused_with_a_sentence(project: Project) -> None:
    project.loop()
    (project.folder.artifacts / "execute/iter-0001.raw.txt").unlink()
    refused = project.run("diff", "last", "--exact")
    assert refused.returncode == 2 and "the exact reply" in refused.stderr and "is gone" in refused.stderr


def test_a_patch_without_a_secret_says_nothing_of_masks(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    project.loop()
    assert "masked" not in project.run("show", "last").stdout
    plain, exact = project.run("diff", "last"), project.run("diff", "last", "--exact")
    assert plain.stdout == exact.stdout and "masked" not in plain.stderr
    assert "masked" not in json.dumps([event.payload for event in project.events()])


def test_a_person_at_a_terminal_reads_it_above_the_prompt_and_again_in_a_later_life(project: Project) -> None:
    command = [PROGRAM, "loop", "배포", "--check", project.check, "--provider", f"scripted:{project.script}"]
    for arguments in (command, [PROGRAM, "resume", "last"]):
        terminal = Terminal(arguments, project.path)
        shown = terminal.wait_for("[y,n,a,d,e,?,q]? ")
        assert shown.count(TOLD) == 1 and "--exact" in shown, shown
        terminal.type("q\n")
        assert terminal.end() == 3


def test_a_secret_file_may_not_be_renamed_to_where_a_model_would_see_it(tmp_path: Path) -> None:
    move = "diff --git a/prod.env b/notes.txt\nsimilarity index 100%\nrename from prod.env\nrename to notes.txt\n"
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", reply(move)), role("fixer", RIGHT_PATCH))
    (project.path / "prod.env").write_text("NAME=canary\n")
    done = project.loop("--approval", "never")
    assert done.returncode == 0, done.stderr
    assert not (project.path / "notes.txt").exists()
    [refused] = [e.payload["outcome"]["refusal"] for e in project.events() if e.type == "PATCH_APPLY_FAILED"]
    assert refused["reason"] == "unsafe" and "prod.env is a secret by its name" in refused["message"]
