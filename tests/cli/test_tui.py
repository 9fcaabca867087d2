"""The terminal UI at a real terminal, and the parts of it that need none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orchestra.cli.tui.hosted import words_of
from orchestra.cli.tui.prose import Prose
from orchestra.cli.tui.status import Status
from orchestra.cli.tui.tail import Tail, rows_of
from orchestra.core.errors import UsageError
from orchestra.core.records import Event
from tests.support.evidence import main, planning, runs_of
from tests.support.project import PLAN, PROGRAM, RIGHT_PATCH, Project, role
from tests.support.project import ask as asked_of
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
    assert shown.count(HELLO) == 1 and shown.count("본문") == 1
    assert "\x1b[2J" not in shown and "\x1b]0;" not in shown and "\x9b" not in shown
    terminal.type("/agent nobody\r")
    terminal.wait_for("nobody")
    assert bytes(terminal.raw).decode().count("끝줄\r\n") == 1  # not again when the turn is over
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


@pytest.mark.spec("S5-79")
def test_the_status_row_tells_all_and_leaves_out_the_least_important_where_it_is_narrow() -> None:
    status = Status(waits=1, queued=2, since=1.0)
    assert status.row(40, 7.0) == " 1 waiting: /inbox · /help"
    status.begin("@3", "loop")
    status.cap = 1.0
    call = {"effect": "ModelCall", "outcome": {"usage": {"inputTokens": 3000, "outputTokens": 114}, "costUsd": 0.009}}
    event = Event("00000002", "r", "2026-11-18T00:00:00.000Z", "PHASE_COMPLETED", call, "fix", 1)
    for _ in range(2):
        status.event(event, (2, 5))  # the second time is the same call
    status.state = "fix"
    whole = " run @3 · loop · fix · step 2/5 · context 3,000 · 3,114 tok · $0.0090 of $1 · 6 s · 1 waiting · 2 to send"
    assert status.row(120, 7.0) == whole
    assert status.row(80, 7.0) == " run @3 · loop · fix · step 2/5 · $0.0090 of $1 · 6 s · 1 waiting · 2 to send"
    assert status.row(60, 7.0) == " run @3 · fix · step 2/5 · $0.0090 of $1 · 1 waiting"
    assert status.row(40, 7.0) == " fix · $0.0090 of $1 · 1 waiting"
    assert max(len(status.row(width, 7.0)) for width in range(2, 20)) < 20


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


@pytest.mark.spec("S5-22")
def test_lines_of_a_pipe_are_taken_one_after_the_other(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "p",
        planning("final_report"),
        main("첫 답", "execute"),
        role("planner", PLAN),
        role("developer", asked_of("어느 색?")),
    )
    command = [PROGRAM, "tui", "--provider", f"scripted:{project.script}"]
    lines = "처음?\n/nosuch\n/loop 색을 정해라 --check true\n/status\n//status 색\n/inbx\n"
    done = subprocess.run(command, input=lines, capture_output=True, text=True, cwd=project.path, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout
    found = [said.index(one) for one in ("plain lines (no terminal)", "> 처음?", "첫 답", "/nosuch", "어느 색?")]
    assert found == sorted(found) and "did you mean /inbox" in said and "\x1b" not in said
    assert '"/status 색"' in "".join(path.read_text() for path in project.path.rglob("events.ndjson"))
    nothing = subprocess.run(command, input="", capture_output=True, text=True, cwd=project.path, timeout=60)
    assert nothing.returncode == 2 and "needs a terminal, or lines" in nothing.stderr


def test_a_line_of_a_pipe_that_was_cut_off_approves_nothing(tmp_path: Path) -> None:
    """`Add a test` of a writer that was killed begins with the letter that applies all of a patch."""
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    command = [PROGRAM, "tui", "--provider", f"scripted:{project.script}"]
    done = subprocess.run(command, input="/loop g --check true\nA", capture_output=True, text=True, cwd=project.path)
    assert done.returncode == 3 and "apply this" in done.stdout  # it waits for a person
    assert project.types()[-1] == "APPROVAL_REQUESTED"
