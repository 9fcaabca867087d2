"""What a person types at the terminal UI: Hangul, pastes, history, commands and their completion, on any terminal."""

from __future__ import annotations

import sys
import time
import unicodedata
from pathlib import Path

import pytest

from orchestra.cli.conversation import COMMANDS as TURNS
from tests.support.evidence import main, planning, runs_of, said
from tests.support.project import Project
from tests.support.terminal import Terminal
from tests.support.tui import BACK, CTRL_C, CTRL_U, ENTER, LEFT, NEW_LINE, TAB, UP, Tui

HELLO = "안녕하세요! 무엇을 도울까요?"
CHAT = (planning("final_report"), main(HELLO, "execute"))
JAMO = unicodedata.normalize("NFD", "글")
FAMILY, FLAG = "👨\u200d👩\u200d👧", "🇰🇷"


def goals(project: Project) -> list[str]:
    return [text.partition("] ")[2] for text in said(project, "tui") if text.startswith("[AGENT_GOAL")]


def test_bytes_that_are_no_utf_8_are_shown_as_such_and_end_nothing(tmp_path: Path) -> None:
    """Hangul of a terminal that is set to EUC-KR."""
    euc_kr = "한글".encode("euc-kr").decode("utf-8", "surrogateescape")
    project = Project(tmp_path / "p", *CHAT, *CHAT)
    with Tui(project) as tui:
        for count in (1, 2):
            tui.type(f"{euc_kr}a{ENTER}")
            tui.wait(lambda count=count: "".join(tui.log).count(HELLO[:5]) == count)  # type: ignore[misc]
        assert not [line for line in tui.log if "error" in line]
        assert [goal.endswith("a") and "\ufffd" in goal for goal in goals(project)] == [True, True]
        tui.leave()


@pytest.mark.spec("S5-22", "S5-79")
def test_hangul_is_typed_at_the_real_cursor_and_taken_back_by_what_a_person_sees(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *CHAT)
    with Tui(project) as tui:
        top = tui.cursor[1]
        for typed, row, column in (
            ("한글", "> 한글", 6),
            (" 입력 abc", "> 한글 입력 abc", 15),
            (LEFT * 4, "> 한글 입력 abc", 11),
            (BACK, "> 한글 입 abc", 9),
            (CTRL_U, ">  abc", 2),
            (
                f"\x05{CTRL_U}{JAMO}",
                f"> {JAMO[0]}",
                4,
            ),  # the emulator shows the first letter, in the cells of the whole
            (BACK, ">", 2),
        ):
            tui.type(typed)
            wanted = (row, (column, top))
            tui.wait(lambda wanted=wanted: (tui.row.rstrip(), tui.cursor) == wanted, why=repr(typed))  # type: ignore[misc]
        # A flag and a family are one character: what is left of them goes with one key. They are drawn in cells that
        # every terminal counts alike.
        tui.type(f"{FAMILY}{FLAG}x")
        tui.wait(lambda: (tui.row.rstrip(), tui.cursor) == (f"> {FAMILY[0]}KRx", (7, top)))
        for left in (f"> {FAMILY[0]}KR", f"> {FAMILY[0]}", ">"):
            tui.type(BACK)
            tui.wait(lambda left=left: tui.row.rstrip() == left)  # type: ignore[misc]
        tui.type(f"가{FLAG}{BACK}나{FAMILY}{BACK}e\u0301{BACK}{ENTER}")
        tui.wait_for(HELLO)
        assert goals(project) == ["가나"]
        tui.leave()


@pytest.mark.spec("S5-79")
def test_a_paste_never_sends_and_the_history_brings_back_what_was_sent(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *CHAT)
    with Tui(project) as tui:
        tui.paste("첫째 줄\r\n둘째 줄\n")
        tui.wait_for("둘째 줄")
        tui.type(f"셋째\x1b\r넷째{NEW_LINE}다섯째")
        tui.wait_for("다섯째")
        assert [row.strip("> ") for row in tui.below[1:6]] == ["첫째 줄", "둘째 줄", "셋째", "넷째", "다섯째"]
        assert runs_of(project) == []
        tui.type(ENTER)
        tui.wait_for(HELLO)
        tui.wait(lambda: "/help" in tui.below[0])
        project.write_script(planning("final_report"), main("두 번째 답", "execute"))
        tui.type("초안")
        tui.wait(lambda: tui.row.startswith("> 초안"))
        tui.type(CTRL_C)  # discards it; Up brings it back
        tui.wait(lambda: tui.row.strip() == ">")
        tui.type(UP)
        tui.wait(lambda: tui.row.startswith("> 초안"))
        tui.type(f"{CTRL_U}{UP}")
        tui.wait(lambda: "다섯째" in "".join(tui.below))
        tui.type(f"!{ENTER}")
        tui.wait_for("두 번째 답")
        whole = "첫째 줄\n둘째 줄\n셋째\n넷째\n다섯째"
        assert goals(project) == [whole, f"{whole}!"]
        tui.leave()


@pytest.mark.spec("S5-23", "S5-79")
def test_commands_are_completed_explained_and_refused_in_one_line(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *CHAT)
    project.configure("evidence: {agents: {quick: {mode: single-main, max_steps: 6}}}\n")
    (project.path / "한글 문서.md").write_text("x")
    with Tui(project, rows=40) as tui:
        tui.type("/ste")
        tui.wait(lambda: any("/steps" in row and TURNS["/steps"].help[:20] in row for row in tui.below[2:]))
        tui.type(TAB)
        tui.wait(lambda: tui.row.startswith("> /steps"))
        tui.type(f" 3{ENTER}")
        tui.wait_for("session tui, agent default, mode main-worker, steps 3, stream on")
        for line, shown in (
            ("/agent quick", "agent quick, mode single-main, steps 3"),
            ("/mode main-worker", "mode main-worker, steps 3"),
            ("/stream off", "stream off"),
            ("/agent nobody", "orchestra: there is no agent 'nobody'; there are default, quick"),
            ("/session s2", "session s2: new"),
            ("/session tui", "session tui: new"),
        ):
            tui.say(line)
            tui.wait_for(shown)
        tui.say("/nonsense x")
        tui.wait_for("there is no command /nonsense")
        refused = [row for row in tui.log if "/nonsense" in row]
        assert len(refused) == 2 and refused[1].startswith("orchestra: there is no command /nonsense")
        assert runs_of(project) == []
        tui.type(f"/agent q{TAB}")
        tui.wait(lambda: tui.row.startswith("> /agent quick"), why="no agent was offered")
        tui.type(f"{CTRL_U}/loop 고쳐라 --che{TAB}")
        tui.wait(lambda: tui.row.startswith("> /loop 고쳐라 --check"), why="no option was offered")
        tui.type(CTRL_U)
        tui.type("@한글")
        tui.wait(lambda: any("@한글 문서.md" in row for row in tui.below[2:]), why="no file was offered")
        tui.type(f"{CTRL_U}/help{ENTER}")
        tui.wait_for("Ctrl-C stops what runs")
        shown = "\n".join(tui.log)
        for name in ("/agent", "/mode", "/steps", "/stream", "/session", "/clear", "/exit", "/help", "/loop", "/inbox"):
            assert name in shown
        tui.say("/clear")
        tui.wait(lambda: not any("/steps" in row for row in tui.rows))
        assert any("/steps" in row for row in tui.log)  # the scrollback stays
        tui.leave()


@pytest.mark.spec("S5-79")
def test_a_line_typed_before_the_input_line_is_there_is_sent_and_several_are_not(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *CHAT)
    with Tui(project, ready="") as tui:
        tui.type(f"먼저 친 줄{ENTER}")
        tui.wait_for(HELLO)
        assert goals(project) == ["먼저 친 줄"]
        tui.leave()
    with Tui(project, ready="") as tui:
        tui.type(f"한 줄{ENTER}두 줄{ENTER}")
        tui.wait_for("session tui: ")
        tui.wait(lambda: tui.below[1:3] == ["> 한 줄", "두 줄"])
        tui.type(CTRL_C)
        tui.leave()


@pytest.mark.spec("S5-79")
def test_forty_columns_without_colours_show_all_of_it(tmp_path: Path) -> None:
    long = "좁은 화면에서도 모든 글자가 보인다. " * 5
    project = Project(tmp_path / "p", planning("final_report"), main(f"# 제목\n{long}\n`끝`", "execute", chunk=5))
    with Tui(project, columns=40, rows=20, env={"NO_COLOR": "1"}) as tui:
        tui.type("가나다라마바사아자차카타파하" * 2)
        tui.wait(lambda: tui.cursor[0] == (2 + 28 * 2) % 40 and len(tui.below) >= 3)
        tui.type(ENTER)
        tui.wait_for(f"{long}`끝`")
        tui.wait(lambda: "/help" in tui.below[0])
        assert {pair for pair in tui.painted() if pair != ("default", "default")} == set()
        assert not any(b"\x1b[3" + digit in tui.raw for digit in (b"1", b"2", b"3", b"4", b"5", b"6", b"8"))
        assert max(len(row) for row in tui.rows) <= 40
        tui.leave()


_TWO_PROMPTS = """
import asyncio
from orchestra.cli.tui.screen import Screen

async def main():
    screen = Screen(colour=False)
    shown = asyncio.ensure_future(screen.run())
    await screen.ready()
    screen.ask("what colour? ", print, "")
    while screen._buffer.text != "blue, m":
        await asyncio.sleep(0.01)
    screen.close()  # answered elsewhere
    said = asyncio.get_running_loop().create_future()
    screen.ask("apply [y,n]? ", said.set_result, "yn")
    screen.changed()
    answer = await said
    screen.end()
    await shown
    print(f"answer: {answer!r}")

asyncio.run(main())
"""


def test_a_letter_of_an_answer_that_was_being_typed_approves_nothing(tmp_path: Path) -> None:
    terminal = Terminal([sys.executable, "-c", _TWO_PROMPTS], tmp_path)
    terminal.wait_for("what colour?")
    terminal.type("blue, m")
    terminal.wait_for("apply")
    time.sleep(0.5)  # the letter comes when one alone would count
    terminal.type("y")
    terminal.wait_for("y")
    terminal.type(f" best{ENTER}")
    terminal.wait_for("answer: 'y best'")
    assert terminal.end() == 0
