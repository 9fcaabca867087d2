"""What the terminal UI shows while models write: every line once, the cursor in its cell, few rows that change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.evidence import ANSWER, ask_agent, finalize, main, planning, tool
from tests.support.project import Project
from tests.support.tui import CTRL_U, ENTER, Tui

NUMBERED = "".join(f"행 {number:04d}\n" for number in range(2000))
MOST_LIVE = 12


def numbers(tui: Tui) -> list[int]:
    """The numbered lines in scrollback and screen, in order."""
    found = (re.fullmatch(r"행 (\d{4})", row) for row in tui.log)
    return [int(one[1]) for one in found if one]


@pytest.mark.spec("S5-79", "S5-84")
def test_two_thousand_lines_are_in_the_scrollback_once_and_the_cursor_stays_where_hangul_is_typed(
    tmp_path: Path,
) -> None:
    reply = main(f"{NUMBERED}끝줄", "execute", chunk=9, delayMs=4000)  # 500 pieces a second
    project = Project(tmp_path / "p", planning("final_report"), reply)
    with Tui(project) as tui:
        tui.say("모두")
        tui.wait(lambda: tui.scrolled > 20)  # the screen is full: from now on the live rows stay where they are
        tui.type("한글입력")
        tui.wait(lambda: tui.row.startswith("> 한글입력"))
        cell, first = tui.cursor, len(tui.frames)
        assert cell == (10, 23)
        tui.wait(lambda: numbers(tui)[-1] > 1500)  # well before the end, when the live rows become fewer
        samples = tui.frames[first:]
        assert len(samples) >= 20 and set(samples) == {cell}
        tui.wait(lambda: any(row == "끝줄" for row in tui.rows))
        tui.type(f"{CTRL_U}")
        tui.wait(lambda: "/help" in tui.below[0])
        assert numbers(tui) == list(range(2000))
        assert sum("끝줄" in row for row in tui.log) == 1
        assert tui.most_live <= MOST_LIVE
        tui.leave()
        assert b"\x1b[?1049" not in tui.raw  # no alternate screen
        assert not re.search(rb"\x1b\[[\d;]*[rST]", tui.raw)  # lines are printed, not scrolled


@pytest.mark.spec("S5-80", "S5-81", "S5-82", "S5-83", "S5-84")
def test_what_worker_and_main_write_is_live_in_colours_of_their_own_and_thoughts_are_folded(tmp_path: Path) -> None:
    looks = [tool(f"grep -n return calc.py | head -{number}", chunk=6, delayMs=600) for number in range(3, 7)]
    thought = "<think>" + "숨은 생각이다 " * 20 + "</think>"
    answered = main({"decision": "finalize", "answer": ANSWER}, "evaluate", chunk=6, delayMs=1500)
    answered["text"] = thought + answered["text"]
    project = Project(tmp_path / "p", planning(chunk=10, delayMs=500), *looks, finalize(), answered)
    with Tui(project, rows=40) as tui:
        tui.say("add()는 무엇을 하나?")
        tui.wait(lambda: any("planning" in row for row in tui.rows))
        tui.wait(lambda: tui.colours("action: call_tool"))
        of_worker = tui.colours("action: call_tool")
        tui.wait_for("thinking…")
        tui.wait(lambda: tui.colours("decision: finalize"))
        of_main = tui.colours("decision: finalize")
        assert len(of_worker) == len(of_main) == 1 and of_worker != of_main
        assert "default" not in of_worker | of_main
        tui.wait_for(ANSWER)
        tui.wait(lambda: "/help" in tui.below[0])
        log = "\n".join(tui.log)
        for native in ("planning-result", "worker-action", "tool-start", "tool-result", "main-decision"):
            assert f"{native}:" in log
        assert "숨은 생각" not in log and log.count(ANSWER) == 1
        assert "$ grep -n return calc.py | head -3" in log
        tui.leave()


@pytest.mark.spec("S5-81")
def test_a_compaction_is_shown_when_it_happens(tmp_path: Path) -> None:
    long = main("아주 긴 답 " * 1000, "execute", repeat=True)
    project = Project(tmp_path / "p", {**planning("final_report"), "repeat": True}, long)
    for goal in ("하나", "둘"):
        assert ask_agent(project, goal=goal, session="tui").returncode == 0
    project.write_script(planning("final_report"), main("짧은 답", "execute"))
    with Tui(project) as tui:
        tui.say("셋")
        tui.wait_for("짧은 답")
        assert any("compaction-complete: about" in row for row in tui.log)
        tui.leave()


@pytest.mark.spec("S5-79", "S5-83")
def test_a_resize_while_text_streams_loses_no_line_and_at_most_twelve_rows_are_live(tmp_path: Path) -> None:
    reply = main(f"{NUMBERED}끝줄", "execute", chunk=9, delayMs=4000)
    project = Project(tmp_path / "p", planning("final_report"), reply)
    with Tui(project, columns=100, rows=30) as tui:
        tui.say("모두")
        for columns in (60, 40, 100, 72, 80):
            seen = tui.scrolled
            tui.resize(columns, 30)
            tui.wait(lambda seen=seen: tui.scrolled > seen + 40)  # type: ignore[misc]
            statuses = [row for row in tui.rows if row.startswith(" run ")]
            assert len(statuses) == 1 and len(statuses[0]) < columns
        tui.paste("\n".join(f"줄 {number}" for number in range(12)) + " @c")
        tui.wait(lambda: any("@calc.py" in row for row in tui.below))
        tui.wait(lambda: any(row == "끝줄" for row in tui.rows))
        found, printed = numbers(tui), iter(numbers(tui))
        assert all(number in printed for number in range(2000))  # each, in order
        assert len(found) <= 2000 + 5  # a row that is alive while the terminal resizes may stay (docs/design/0015)
        assert tui.most_live <= MOST_LIVE
        tui.type(f"\x03/exit{ENTER}")
        assert tui.end() == 0
