"""A person at a real terminal: sees the patch in colour, approves, rejects, answers, leaves, interrupts."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.support.hunks import HUNKS, LINES
from tests.support.project import (
    FIX_PATCH,
    PLAN,
    PROGRAM,
    RIGHT,
    WRONG_PATCH,
    Project,
    ask,
    conforms,
    patch,
    reply,
    role,
    until,
)
from tests.support.terminal import Terminal

RIGHT_PATCH = patch("a - b", "a + b", summary="더하기로 고친다")
PROMPT = "apply this patch [y,n,a,d,e,?,q]? "


def start(project: Project, *more: str) -> Terminal:
    command = [PROGRAM, "loop", "더하기를 고쳐라", "--check", project.check, "--provider", f"scripted:{project.script}"]
    return Terminal([*command, *more], project.path)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))


def test_a_patch_is_shown_with_what_it_is_for_and_approved(project: Project) -> None:
    terminal = start(project)
    shown = terminal.wait_for("1 execute done", PROMPT).partition("1 execute done")[2]
    assert "1. calc.py  modify +1 -1" in shown
    assert "더하기로 고친다" in shown and f"then runs: {project.check}" in shown and PLAN in shown
    terminal.type("a\n")
    shown = terminal.wait_for("what changed:")
    assert "completed" in shown and "✓" in shown
    assert terminal.end() == 0
    assert project.calc().endswith(RIGHT)


def test_a_patch_is_rejected_with_a_reason_and_the_next_one_approved(tmp_path: Path) -> None:
    fixer = {"match": {"role": "fixer", "contains": "곱하지 마라"}, "text": RIGHT_PATCH}
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", WRONG_PATCH), fixer)
    terminal = start(project)
    terminal.wait_for(PROMPT)
    terminal.type("r\n")
    terminal.wait_for("reason (goes to the fixer) > ")
    terminal.type("곱하지 마라\n")
    assert "+    return a + b" in terminal.wait_for("1. calc.py  modify")
    terminal.type("approve\n")
    assert terminal.end() == 0


def test_wrong_keys_ask_again_and_the_diff_can_be_seen_again(project: Project) -> None:
    terminal = start(project)
    terminal.wait_for(PROMPT)
    terminal.type("what?\n")
    assert "`what?` is no answer here" in terminal.wait_for("? - this help")
    for number in ("7", "²"):
        terminal.type(f"a {number}\n")
        terminal.wait_for("give numbers from 1 to 1")
    terminal.type("p\n")
    terminal.wait_for("+    return a + b")
    terminal.type("a 1\n")
    assert terminal.end() == 0


def test_a_question_is_answered(tmp_path: Path) -> None:
    developer = {"match": {"role": "developer", "contains": "더해 주세요"}, "text": RIGHT_PATCH}
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", ask("더할까요?")), developer)
    terminal = start(project, "--approval", "never")
    assert "더할까요?" in terminal.wait_for("leave it waiting) > ")
    terminal.type("네, 더해 주세요\n")
    assert terminal.end() == 0
    answered = next(e for e in project.events() if e.type == "QUESTION_ANSWERED")
    assert answered.payload["outcome"]["text"] == "네, 더해 주세요"


def test_an_answer_from_another_terminal_takes_the_prompt_away(project: Project) -> None:
    terminal = start(project)
    terminal.wait_for(PROMPT)
    other = project.run("approve", "last")
    assert other.returncode == 0
    assert "the process driving the run goes on with it" in other.stderr
    terminal.wait_for("completed")
    assert terminal.end() == 0


@pytest.mark.parametrize("keys", ["q\n", "\x04"])
def test_a_run_can_be_left_waiting_and_taken_up_again(project: Project, keys: str) -> None:
    terminal = start(project)
    terminal.wait_for(PROMPT)
    terminal.type(keys)
    assert "orchestra approve" in terminal.wait_for("look closer:")
    assert terminal.end() == 3
    assert project.state()["status"] == "awaiting_approval"
    again = Terminal([PROGRAM, "resume", "last"], project.path)
    assert "+    return a + b" in again.wait_for(PROMPT)  # the patch is shown again
    again.type("a\n")
    assert again.end() == 0


def test_what_was_typed_before_the_question_is_no_answer(tmp_path: Path) -> None:
    slow = role("fixer", RIGHT_PATCH, delayMs=1200, chunk=40)
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", WRONG_PATCH), slow)
    terminal = start(project)
    terminal.wait_for(PROMPT)
    terminal.type("r no\n")
    terminal.wait_for("fix: fix.1")
    terminal.type("a\na\n")  # too early: the patch is not written yet
    terminal.wait_for(PROMPT)
    assert "APPROVAL_GRANTED" not in project.types()
    terminal.type("a\n")
    assert terminal.end() == 0


def test_ctrl_c_at_the_prompt_loses_nothing(project: Project) -> None:
    terminal = start(project)
    terminal.wait_for(PROMPT)
    terminal.type("\x03")
    assert "go on: orchestra resume" in terminal.wait_for("look closer:")
    assert terminal.end() == 130
    assert project.run("approve", "last", "--no-input").returncode == 0


def test_ctrl_c_in_a_model_call_loses_nothing(tmp_path: Path) -> None:
    slow = role("developer", RIGHT_PATCH, delayMs=20_000, chunk=5)
    project = Project(tmp_path / "p", role("planner", PLAN), slow, role("fixer", FIX_PATCH))
    terminal = start(project, "--approval", "never")
    terminal.wait_for("execute: execute.1")
    terminal.type("\x03")
    assert terminal.end() == 130
    project.write_script(role("planner", PLAN), role("developer", RIGHT_PATCH))
    assert project.run("resume", "last", "--no-input").returncode == 0
    assert project.types().count("RUN_COMPLETED") == 1


ASKING = """
import orchestra

@orchestra.workflow
async def asking(ctx: orchestra.Context) -> str:
    return await ctx.ask("go", "계속할까?", options=("예", "아니오"))
"""


def test_code_is_agreed_to_before_it_is_loaded_and_an_answer_that_is_none_is_asked_for_again(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    (project.path / "asking.py").write_text(ASKING, encoding="utf-8")
    (project.path / "orchestra.config.yaml").write_text('workflows: {asking: "asking.py:asking"}\n')
    terminal = Terminal([PROGRAM, "start", "asking"], project.path)
    assert "outside the sandbox" in terminal.wait_for("[y/N]")
    terminal.type("y\n")
    assert "options: 1 예, 2 아니오" in terminal.wait_for("leave it waiting) > ")
    terminal.type("글쎄\n")
    terminal.wait_for("is no answer to go")
    terminal.type("예\n")
    assert terminal.end() == 0


# -- hunk by hunk -----------------------------------------------------------------------------------------------------


@pytest.fixture
def long(tmp_path: Path) -> Project:
    """A patch of four parts; the fixer must be told which of them a person declined, and why."""
    told = {"match": {"role": "fixer", "contains": "스물은 빼라"}, "text": RIGHT_PATCH}
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", reply(HUNKS, summary="요약")), told)
    (project.path / "글.txt").write_text("".join(f"{line}\n" for line in LINES))
    return project


def text(project: Project) -> list[str]:
    return (project.path / "글.txt").read_text().splitlines()


def with_editor(project: Project, script: str, *more: str) -> Terminal:
    """The program, with an editor that is a shell script; $1 is the file."""
    editor = project.path.parent / "editor.sh"
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(0o755)
    command = f"{PROGRAM} loop 고쳐라 --check {shlex.quote(project.check)} --provider scripted:{project.script}"
    return Terminal(["/bin/sh", "-c", f"VISUAL= EDITOR={editor} PAGER={editor} exec {command}"], project.path)


@pytest.mark.spec("D-11", "S1-75")
def test_hunks_are_decided_on_one_by_one_and_what_is_declined_goes_to_the_fixer(long: Project) -> None:
    terminal = start(long)
    assert "요약" in terminal.wait_for("(1/4) apply this hunk [y,n,a,d,e,?,q]? ")
    terminal.type("y\n")
    assert "+스물" in terminal.wait_for("(2/4) apply this hunk")
    terminal.type("n 스물은 빼라\n")
    terminal.wait_for("(3/4) apply this hunk")
    terminal.type("a\n")
    terminal.wait_for("(4/4) apply this file")
    terminal.type("d\n")
    terminal.wait_for("1. calc.py  modify")  # the fixer was told, and its patch waits
    assert text(long)[1] == "둘" and text(long)[19] == "줄 20" and text(long)[38] == "서른아홉"
    terminal.type("y\n")
    assert terminal.end() == 0
    made, granted, applied = (
        [event.payload["outcome"] for event in long.events() if event.type == kind]
        for kind in ("PATCH_PRODUCED", "APPROVAL_GRANTED", "PATCH_APPLIED")
    )
    assert [one.get("by") for one in made] == [None, "person", None]
    assert (
        [one["digest"] for one in granted] == [one["digest"] for one in applied] == [one["digest"] for one in made[1:]]
    )
    assert granted[0]["accepted"] == ["글.txt"] and "스물은 빼라" in granted[0]["reason"]
    conforms(long)


def test_a_hunk_is_edited_and_one_that_does_not_fit_is_told_and_asked_for_again(long: Project) -> None:
    spoil, mend = "s/^-줄 2/-없는 줄/; s/^+둘/+두 번째/", "s/^-없는 줄/-줄 2/"
    mend = f"if grep -q 없는 $1; then sed -i '{mend}' $1; else sed -i '{spoil}' $1; fi"
    terminal = with_editor(long, mend)
    terminal.wait_for("(1/4)")
    terminal.type("e\n")
    terminal.wait_for("this does not fit")
    terminal.type("y\n")
    terminal.wait_for("(2/4)")
    terminal.type("A\n")
    assert terminal.end() == 0
    assert text(long)[1] == "두 번째" and text(long)[19] == "스물"
    [_, own] = [event.payload["outcome"] for event in long.events() if event.type == "PATCH_PRODUCED"]
    assert own["revision"]["edited"] and own["by"] == "person"
    conforms(long)


def test_an_editor_that_fails_or_changes_nothing_decides_nothing(long: Project) -> None:
    terminal = with_editor(long, "exit $(cat ../code 2>/dev/null || echo 3)")
    terminal.wait_for("(1/4)")
    terminal.type("e\n")
    terminal.wait_for("ended with exit code 3: nothing was changed")
    (long.path.parent / "code").write_text("0")
    terminal.type("e\n")
    terminal.wait_for("nothing was changed")
    terminal.type("q\n")
    assert terminal.end() == 3
    assert text(long) == LINES and not list(long.folder.inbox.glob("*"))


def test_nothing_of_a_patch_taken_is_a_rejection_and_files_are_taken_by_number(long: Project) -> None:
    terminal = start(long)
    terminal.wait_for("(1/4)")
    terminal.type("d\nd\n")
    terminal.wait_for("reason (goes to the fixer) > ")
    terminal.type("\n")
    terminal.wait_for("(1/4)")  # no reason, no rejection
    terminal.type("a 2\n")
    assert terminal.end() == 0
    assert text(long) == LINES
    assert "APPROVAL_REJECTED" not in long.types()


def test_an_answer_from_elsewhere_counts_while_an_editor_is_open(long: Project) -> None:
    terminal = with_editor(
        long, "trap '' INT; touch ../opened; while [ ! -e ../go ]; do sleep 0.1; done; sed -i 's/^+둘/+셋/' $1"
    )
    terminal.wait_for("(1/4)")
    terminal.type("e\n")
    until((long.path.parent / "opened").exists)
    terminal.type("\x03")  # for the editor, which does not care
    assert long.run("approve", "last").returncode == 0
    until(lambda: "APPROVAL_GRANTED" in long.types())
    (long.path.parent / "go").touch()
    terminal.wait_for("completed")
    assert terminal.end() == 0
    assert text(long)[1] == "둘"  # what was edited later counts no more
