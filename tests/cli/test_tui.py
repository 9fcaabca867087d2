"""The terminal UI at a real terminal, and the parts of it that need none."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.cli.tui.hosted import words_of
from orchestra.cli.tui.prose import Prose
from orchestra.cli.tui.tail import Tail, rows_of
from orchestra.core.errors import UsageError
from tests.support.evidence import main, planning, runs_of
from tests.support.project import PROGRAM, Project
from tests.support.terminal import Terminal

HELLO = "안녕하세요! 무엇을 도울까요?"
HOSTILE = "\x1b[2J\x1b]0;제목\x07\x9b31m본문"


@pytest.mark.spec("S5-22", "S5-23", "S5-79", "S5-80", "S5-84")
def test_a_goal_is_answered_once_and_a_paste_never_sends(tmp_path: Path) -> None:
    reply = main(f"{HELLO}\n{HOSTILE}\n끝줄", "execute", chunk=3, delayMs=5)
    project = Project(tmp_path / "p", planning("final_report"), reply)
    terminal = Terminal([PROGRAM, "agent:tui", "--provider", f"scripted:{project.script}"], project.path)
    terminal.wait_for("session tui: new")
    terminal.type("\x1b[200~첫째 줄\n둘째 줄\x1b[201~")
    terminal.wait_for("둘째 줄")
    assert runs_of(project) == []
    terminal.type("\r")
    shown = terminal.wait_for("끝줄\r\n")
    assert "planning-result" in shown
    assert "\x1b[2J" not in shown and "\x1b]0;" not in shown and "\x9b" not in shown
    terminal.type("/agent nobody\r")
    terminal.wait_for("nobody")
    terminal.type("/runs\r")
    terminal.wait_for("completed")
    terminal.type("/exit\r")
    assert terminal.end() == 0
    assert len(runs_of(project)) == 1


def test_the_goal_of_a_command_needs_no_quotes() -> None:
    rest = 'don\'t fail on é --check "pytest -q"'
    assert words_of("loop", rest, goal=True) == ["don't fail on é", "--check", "pytest -q"]
    assert words_of("loop", '"two words" --check x', goal=True) == ["two words", "--check", "x"]
    assert words_of("show", "'a b' c", goal=False) == ["a b", "c"]
    with pytest.raises(UsageError, match="quote"):
        words_of("show", "'a", goal=False)


def test_the_live_rows_are_of_a_fixed_number_and_width() -> None:
    tail = Tail()
    assert rows_of("한글입력", 5, 9) == ["한글", "입력"]
    for steps in range(9):
        text = "".join(part for _, part in tail.rows(5, 20, 1.0))
        assert text.count("\n") == 4, steps
        tail.begin("r", f"k.{steps}", "이름", 0.0)
        tail.more("r", f"k.{steps}", 0.0, agent="main", text="\x1b[2J한글" * 50, arrived=2)
        assert "\x1b" not in text
    tail.end_run("r")
    assert tail.names == []


def test_a_line_of_markdown_stays_one_line_and_its_text() -> None:
    import click

    prose = Prose()
    lines = ["# 제목", "```python", "x = 1", "```", "`코드`와 **굵게** 그리고 끝"]
    painted = [prose.line(line) for line in lines]
    assert [click.unstyle(line) for line in painted] == lines
    assert all("\x1b[" in line for line in painted)
