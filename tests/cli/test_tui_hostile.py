"""The terminal UI where text is hostile, and where a terminal is not what it seems: plain lines, and what is loaded."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.evidence import ask, decision, finalize, main, planning, tool
from tests.support.project import PLAN, PROGRAM, RIGHT, Project, new_file, patch, reply, role
from tests.support.terminal import Terminal
from tests.support.tui import ENTER, Tui

# Title, clipboard, alternate screen, mouse, colours, cursor, report, reset, a device string, C1, and bidi.
EVIL = (
    "\x1b]0;빼앗긴 제목\x07\x1b]52;c;cHduZWQ=\x07\x1b[?1049h\x1b[?1000h\x1b[48;5;201m\x1b[2J\x1b[1;1H\x1b[6n\x1b[?25l"
    "\x1bc\x1bP1$r\x1b\\\x9b31m\x9d0;C1\x9c\x0e\x08\r\u202e"
)
FORBIDDEN: tuple[bytes, ...] = (
    *(
        b"\x1b]",
        b"\x1bP",
        b"\x1b[?1049",
        b"\x1b[?1000",
        b"\x1b[48;5;201",
        b"\x1b[2J",
        b"\x1b[1;1H",
        b"\x1b[6n",
        b"\x1bc",
    ),
    *(b"\x0e", b"\xc2\x9b", b"\xc2\x9d", "\u202e".encode()),
)
# What prompt_toolkit and our colours need: colours, the cursor up, down, left and right, erase, a few modes.
OURS = re.compile(rb"\x1b\[(?:[\d;]*m|\d*[ABCDK]|J|0J|0K|\?(?:25|12|7|1|2004)[hl]|\?12l\x1b\[\?25h)")


def evil(text: str) -> str:
    return f"{EVIL}{text}"


def unharmed(tui: Tui, modes: frozenset[int]) -> None:
    """Nothing but text of ours and theirs came to the terminal."""
    raw = bytes(tui.raw)
    assert [found for found in FORBIDDEN if found in raw] == []
    assert b"\x1b" not in OURS.sub(b"", raw)
    assert not re.search(rb"[\x00-\x07\x0b-\x0c\x0e-\x1a\x1c-\x1f\x7f]", raw.replace(b"\x08", b""))
    assert tui.title == "" and tui.modes == modes


@pytest.mark.spec("S5-79", "S5-80", "S5-82", "S5-84")
def test_a_hostile_run_changes_nothing_on_the_screen_but_text(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *answers())
    (project.path / "나쁜\x1b[2J이름.txt").write_text(evil("파일 속 글\n"))
    with Tui(project, rows=40) as tui:
        modes = tui.modes
        tui.paste(evil("나쁜 목표"))
        tui.wait_for("나쁜 목표")
        tui.type(f" @나쁜{ENTER}")
        tui.wait_for("정말 할까요?")
        tui.wait(lambda: not tui.row.startswith("> "))
        tui.type(f"예{ENTER}")
        tui.wait_for("마지막 답")
        tui.wait(lambda: "/help" in tui.below[0])
        tui.say("/show last")
        tui.say("/runs --all")
        tui.say("/context 나쁜 파일을 보라")
        tui.say("/nonsense")
        tui.wait_for("there is no command /nonsense")
        unharmed(tui, modes)
        tui.leave()


def answers() -> list[dict[str, object]]:
    """An evidence run whose every text is hostile: reasons, a command and its output, a question, an answer."""
    return [
        planning(reason=evil("이유"), evidence_goals=[evil("목표")]),
        tool("cat *이름.txt"),
        ask(evil("정말 할까요?")),
        finalize(),
        decision("continue", guidance=evil("더 보라"), needed_evidence=[evil("하나")]),
        finalize(),
        decision(answer=evil("# 제목\n") + evil("`코드`\n") + "```\n" + evil("안쪽\n") + "```\n마지막 답"),
        main(evil("마지막 답"), "execute", repeat=True),
    ]


@pytest.mark.spec("S5-79", "S5-85")
def test_a_hostile_run_of_another_process_is_shown_as_text(tmp_path: Path) -> None:
    diff = (
        new_file("새 파일.txt", evil("줄").replace("\r", "")) + patch("a - b", "a + b").partition("[PATCH_BEGIN]\n")[2]
    )
    made = reply(diff.removesuffix("[PATCH_END]\n"), summary=evil("요약").replace("\r", ""))
    project = Project(tmp_path / "p", role("planner", evil(PLAN)), role("developer", made))
    words = ["loop", evil("고쳐라"), "--check", f"printf '{EVIL}'; {project.check}", "--check", project.check]
    ran = project.run(*words, "--provider", f"scripted:{project.script}", "--no-input")
    assert ran.returncode == 3, ran.stderr
    with Tui(project, rows=40) as tui:
        modes = tui.modes
        tui.wait(lambda: "1 waiting" in tui.below[0])
        for line in ("/inbox", "/diff last", "/watch last"):
            tui.say(line)
        tui.wait(lambda: "(1/2)" in tui.row)
        tui.type(f"A{ENTER}")
        tui.wait_for("✓")
        tui.wait(lambda: "/help" in tui.below[0])
        unharmed(tui, modes)
        tui.leave()
    assert project.calc().endswith(RIGHT)


# -- plain lines ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S5-79", "S5-85")
@pytest.mark.parametrize(
    ("flag", "env", "why"),
    [
        ("--screen-reader", {}, "--screen-reader"),
        ("", {"ACCESSIBLE": "1"}, "ACCESSIBLE=1"),
        ("", {"TERM": "dumb"}, "TERM=dumb"),
    ],
)
def test_plain_lines_are_only_appended_and_the_first_says_why(
    tmp_path: Path, flag: str, env: dict[str, str], why: str
) -> None:
    table = "| 이름 | 값 |\n|---|---|\n| 가 | 1 |\n| 나 | 2 |"
    turn = (planning(reason=evil("이유")), ask("더할까요?"), finalize(), decision(answer=f"하나\n둘\n{table}"))
    project = Project(tmp_path / "p", *turn, role("planner", PLAN), role("developer", patch("a - b", "a + b")))
    command = [PROGRAM, "tui", *filter(None, [flag]), "--provider", f"scripted:{project.script}"]
    terminal = Terminal(command, project.path, env=env, size=(80, 24))
    shown = terminal.wait_for("> ")
    assert shown.splitlines()[0].startswith(f"plain lines ({why})")
    terminal.type("더하기?\n")
    assert "더할까요?" in terminal.wait_for("answer(YES/NO)> ")
    terminal.type("예\n")
    terminal.wait_for("하나\r\n둘\r\n이름: 가; 값: 1\r\n이름: 나; 값: 2\r\n")
    if why == "--screen-reader":
        terminal.type(f'/loop 고쳐라 --check "{project.check}"\n')
        terminal.wait_for("apply this patch")
        terminal.type("y\n")
        terminal.wait_for("completed")
    terminal.type("/exit\n")
    assert terminal.end() == 0
    assert b"\x1b" not in terminal.raw and b"\x08" not in terminal.raw
    assert b"\r" not in terminal.raw.replace(b"\r\n", b"")


# -- what is loaded ---------------------------------------------------------------------------------------------------

LOADED = """
import sys
from orchestra.cli.program import program
import click
for name in program.list_commands(click.Context(program)):
    if name not in ("tui", "agent:tui"):
        program.get_command(click.Context(program), name)
found = sorted(name for name in sys.modules if name.startswith("orchestra.cli.tui") or name == "prompt_toolkit")
print(found)
"""


@pytest.mark.spec("S5-22")
def test_the_terminal_ui_is_loaded_by_its_own_command_only() -> None:
    ran = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
