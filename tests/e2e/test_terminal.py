"""A person at a real terminal: sees the patch in colour, approves, rejects, answers, leaves, interrupts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.project import FIX_PATCH, PLAN, PROGRAM, RIGHT, WRONG_PATCH, Project, ask, patch, role
from tests.support.terminal import Terminal

RIGHT_PATCH = patch("a - b", "a + b", summary="더하기로 고친다")
PROMPT = "[q] leave it waiting > "


def start(project: Project, *more: str) -> Terminal:
    command = [PROGRAM, "loop", "더하기를 고쳐라", "--check", project.check, "--provider", f"scripted:{project.script}"]
    return Terminal([*command, *more], project.path)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))


def test_a_patch_is_shown_in_colour_and_approved(project: Project) -> None:
    terminal = start(project)
    terminal.wait_for("1 execute done")
    raw = terminal.seen
    while PROMPT not in raw:
        terminal._read(0.1)
        raw = terminal.seen
    assert "\x1b[32m+    return a + b" in raw and "\x1b[31m-    return a - b" in raw
    assert "1. calc.py  modify +1 -1" in terminal.wait_for(PROMPT)
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
    assert "+    return a + b" in terminal.wait_for(PROMPT)
    terminal.type("approve\n")
    assert terminal.end() == 0


def test_wrong_keys_ask_again_and_the_diff_can_be_seen_again(project: Project) -> None:
    terminal = start(project)
    terminal.wait_for(PROMPT)
    terminal.type("what?\n")
    terminal.wait_for(PROMPT)
    for number in ("7", "²"):
        terminal.type(f"a {number}\n")
        assert "give numbers from 1 to 1" in terminal.wait_for(PROMPT)
    terminal.type("d\n")
    assert "+    return a + b" in terminal.wait_for(PROMPT)
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
    assert "options: 예, 아니오" in terminal.wait_for("leave it waiting) > ")
    terminal.type("글쎄\n")
    assert "is no answer to go" in terminal.wait_for("leave it waiting) > ")
    terminal.type("예\n")
    assert terminal.end() == 0
