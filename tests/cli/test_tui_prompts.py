"""Prompts at the terminal UI, and the line that is being typed when one comes or is taken away.

Some tests show the screen alone, in a program of their own: there a prompt comes at an exact letter of a sentence.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.support.evidence import ANSWER, ask, decision, finalize, main, planning, runs_of
from tests.support.hunks import HUNKS, LINES
from tests.support.project import PLAN, PROGRAM, RIGHT, RIGHT_PATCH, Project, reply, role
from tests.support.terminal import Terminal
from tests.support.tui import CTRL_C, CTRL_D, CTRL_U, ENTER, Tui

# The screen of the terminal UI. Its prompt comes when the input line is AT.
SCREEN = """
import asyncio, sys
from orchestra.cli.tui.screen import Screen

async def main():
    screen, at = Screen(colour=False), sys.argv[1]
    shown = asyncio.ensure_future(screen.run())
    await screen.ready()
    said = asyncio.get_running_loop().create_future()
    screen.heard = lambda text: screen.line(f"heard: {text!r}")

    def come(buffer):
        if buffer.text == at and not screen._ask and not said.done():
            screen.ask(sys.argv[2], said.set_result, sys.argv[3])

    screen._buffer.on_text_changed += come
    screen.line("here")
    answer = await said
    screen.end()
    await shown
    print(f"answer: {answer!r}")

asyncio.run(main())
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))


def loop_of(project: Project) -> str:
    return f'/loop add()를 고쳐라 --check "{project.check}"'


def asked_at(tui: Tui, prompt: str = "apply this patch [y,n,a,d,e,?,q]?") -> None:
    """Wait until the cursor is at a prompt."""
    tui.wait(lambda: prompt in tui.row, why=f"{prompt!r} was not asked")


def screen_of(
    tmp_path: Path, at: str, prompt: str = "apply [y,n]? ", keys: str = "yn", *, code: str = SCREEN
) -> Terminal:
    terminal = Terminal([sys.executable, "-c", code, at, prompt, keys], tmp_path, size=(80, 24))
    terminal.wait_for("here")
    return terminal


def says_no(terminal: Terminal) -> None:
    """The prompt has the keys, and takes this answer; the program ends with it."""
    terminal.type(f"n{ENTER}")
    terminal.wait_for("answer: 'n'")
    assert terminal.end() == 0


@pytest.mark.parametrize(("prompt", "keys"), [("apply [y,n]? ", "yn"), ("answer > ", "")])
def test_the_rest_of_a_sentence_goes_on_to_the_sentence_when_a_prompt_comes(
    tmp_path: Path, prompt: str, keys: str
) -> None:
    terminal = screen_of(tmp_path, "tell me w", prompt, keys)
    terminal.type(f"tell me www y{ENTER}")
    terminal.wait_for("heard: 'tell me www y'")
    says_no(terminal)


def test_a_prompt_that_waits_for_the_line_says_so_and_takes_the_keys_when_the_line_is_emptied(tmp_path: Path) -> None:
    terminal = screen_of(tmp_path, "tell me w")
    terminal.type("tell me w")
    terminal.wait_for("Enter sends your line, Ctrl-C puts it aside; then answer: apply [y,n]?")
    terminal.type(f"{CTRL_U}n{ENTER}")
    terminal.wait_for("answer: 'n'")
    assert terminal.end() == 0


def test_a_sentence_answers_nothing_however_long_its_writer_thinks(tmp_path: Path) -> None:
    terminal = screen_of(tmp_path, "tell me w")
    terminal.type("tell me w")
    terminal.wait_for("then answer: apply [y,n]?")
    thought = time.monotonic() + 3
    while time.monotonic() < thought:
        terminal.read(0.2)
    terminal.type(f" y{ENTER}")
    terminal.wait_for("heard: 'tell me w y'")
    says_no(terminal)


def test_a_letter_alone_answers_also_when_the_line_was_put_aside_or_taken_back_a_moment_ago(tmp_path: Path) -> None:
    for taken_back in (CTRL_C, "\x7f" * len("tell me w")):
        terminal = screen_of(tmp_path, "tell me w")
        terminal.type("tell me w")
        terminal.wait_for("then answer: apply [y,n]?")
        terminal.type(taken_back)
        terminal.wait_for("apply [y,n]?")
        terminal.type("y")
        terminal.wait_for("answer: 'y'")
        assert terminal.end() == 0


# Whatever a person typed was typed just now; the first prompt's answer, or loss, leaves another one, or none.
SLOW = SCREEN.replace(
    "async def main():", "from orchestra.cli.tui import screen as made\nmade._TYPING_S = 600\n\nasync def main():"
)
LATER = "answer = await said\n    screen.end()"


def test_an_enter_behind_an_answer_does_not_send_the_line_that_came_back(tmp_path: Path) -> None:
    code = SLOW.replace(LATER, "print(f'said {await said!r}')\n    screen.idle()\n    await asyncio.sleep(600)")
    terminal = screen_of(tmp_path, "tell me w", code=code)
    terminal.type("tell me w")
    terminal.wait_for("then answer: apply [y,n]?")
    terminal.type(CTRL_C)
    terminal.wait_for("apply [y,n]?")
    terminal.type(f"n{ENTER}")
    terminal.wait_for("said 'n'", "> tell me w")
    terminal.type(f"{ENTER}at{ENTER}")
    terminal.wait_for("heard: 'tell me wat'")
    terminal.vanish()
    terminal.wait()


LOST = """
    async def lose():
        await asyncio.wait_for(gone.wait(), 120)
        screen.lose("elsewhere")
        screen.close()
        screen.line("lost")

    gone = asyncio.Event()
    losing = asyncio.ensure_future(lose())
    screen.interrupted = gone.set
    screen.line("here")
"""


def test_a_line_that_was_put_aside_is_not_refused_with_a_prompt_that_was_answered_elsewhere(tmp_path: Path) -> None:
    code = SLOW.replace('    screen.line("here")\n', LOST).replace(LATER, "await asyncio.sleep(600)")
    terminal = screen_of(tmp_path, "tell me w", code=code)
    terminal.type("tell me w")
    terminal.wait_for("then answer: apply [y,n]?")
    terminal.type(CTRL_C)
    terminal.wait_for("apply [y,n]?")
    terminal.type(CTRL_C)  # the prompt is lost, and nothing was typed at it
    terminal.wait_for("lost", "> tell me w")
    terminal.type(f"at{ENTER}")
    terminal.wait_for("heard: 'tell me wat'")
    terminal.vanish()
    terminal.wait()


def test_ctrl_c_gives_a_prompt_the_keys_also_while_only_the_rest_of_a_refused_line_may_come(tmp_path: Path) -> None:
    code = SLOW.replace('screen.line("here")', 'screen.ask("what colour? ", print, ""); screen.line("here")')
    code = code.replace("and not screen._ask and", "and").replace(
        "            screen.ask(sys", '            screen.lose("gone"); screen.close()\n            screen.ask(sys'
    )
    terminal = screen_of(tmp_path, "blue", code=code)
    terminal.type("blue")
    terminal.wait_for("not taken: 'blue'; gone", "a moment; then answer: apply [y,n]?")
    terminal.type(CTRL_C)
    terminal.wait_for("apply [y,n]?")
    says_no(terminal)


def test_a_line_that_is_put_aside_makes_way_for_the_prompt_and_comes_back(project: Project) -> None:
    with Tui(project) as tui:
        tui.say(loop_of(project))
        tui.type("tell me w")
        tui.wait_for("Ctrl-C puts it aside; then answer: apply this patch")
        tui.type(CTRL_C)
        asked_at(tui)
        tui.press("y")
        tui.wait_for("completed")
        tui.wait(lambda: tui.row.rstrip() == "> tell me w")
        tui.type(CTRL_U)
        tui.leave()
    assert project.calc().endswith(RIGHT)


# -- answers that come second -----------------------------------------------------------------------------------------


def test_an_answer_that_comes_second_is_refused_with_its_rest_and_is_no_message(project: Project) -> None:
    with Tui(project) as tui:
        tui.say(loop_of(project))
        asked_at(tui)
        tui.type("r slow: this patch is")
        tui.wait(lambda: "this patch is" in tui.row)
        assert project.run("approve", "last").returncode == 0
        tui.wait_for("not taken: 'r slow: this patch is'; the patch was answered elsewhere first")
        tui.type(f" wrong{ENTER}")
        tui.wait_for("not taken: 'wrong'; the patch was answered elsewhere first")
        tui.wait_for("completed")
        tui.wait(lambda: "/help" in tui.below[0])
        tui.leave()
    assert runs_of(project) == [] and len(project.runs) == 1


def test_hunks_that_were_decided_on_are_told_as_not_taken_if_the_patch_is_answered_elsewhere(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", reply(HUNKS)))
    (project.path / "글.txt").write_text("".join(f"{line}\n" for line in LINES))
    with Tui(project, rows=40) as tui:
        tui.say(loop_of(project))
        asked_at(tui, "(1/4) apply this hunk")
        tui.press("y")
        asked_at(tui, "(2/4) apply this hunk")
        assert project.run("approve", "last").returncode == 0
        tui.wait_for("not taken: what you decided on 1 of 4 hunks; the patch was answered elsewhere first")
        tui.wait_for("completed")
        tui.wait(lambda: "/help" in tui.below[0])
        tui.leave()


def test_the_rest_of_an_answer_that_came_second_answers_no_other_prompt(tmp_path: Path) -> None:
    code = SCREEN.replace('screen.line("here")', 'screen.ask("what colour? ", print, ""); screen.line("here")')
    code = code.replace("and not screen._ask and", "and").replace(
        "            screen.ask(sys", '            screen.lose("gone"); screen.close()\n            screen.ask(sys'
    )
    terminal = screen_of(tmp_path, "blue, m", code=code)
    terminal.type(f"blue, my{ENTER}")
    terminal.wait_for("not taken: 'y'; gone")
    says_no(terminal)


# -- commands at a prompt ---------------------------------------------------------------------------------------------

ASKING = """
import orchestra

@orchestra.workflow
async def asking(ctx: orchestra.Context) -> str:
    return await ctx.ask("name", "이름은?")
"""


@pytest.fixture
def asking(tmp_path: Path) -> Project:
    project = Project(tmp_path / "p")
    (project.path / "asking.py").write_text(ASKING, encoding="utf-8")
    project.configure('workflows: {asking: "asking.py:asking"}\n')
    return project


def test_a_line_with_one_slash_is_a_command_at_a_question_and_never_the_answer(asking: Project) -> None:
    with Tui(asking, rows=40) as tui:
        tui.say("/start asking")
        for line, told in (
            ("/runs 1", "/runs is not taken while an answer is asked for"),
            ("/steps 5", "/steps is not taken while an answer is asked for"),
            ("/undo", "/undo is not taken while an answer is asked for"),
            ("/nosuch", "there is no command /nosuch"),
            ("/clear", ""),
            ("/help runs", "Usage: /runs"),
            ("/inbox", "이름은?"),
        ):
            asked_at(tui, "leave it waiting) >")
            tui.say(line)
            tui.wait_for(told)
        assert not any("/nosuch" in row for row in tui.rows)  # the screen was cleared
        asked_at(tui, "leave it waiting) >")
        tui.say("//etc/passwd")
        tui.wait(lambda: "/etc/passwd" in tui.rows)
        tui.leave()


def test_a_line_with_one_slash_is_no_answer_to_yes_or_no(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", planning(), ask("더할까요?"), finalize(), decision(answer=ANSWER))
    with Tui(project) as tui:
        tui.say("더하기?")
        for line, told in (("/steps 5", "/steps is not taken while"), ("/nosuch", "there is no command /nosuch")):
            asked_at(tui, "answer(YES/NO)>")
            tui.say(line)
            tui.wait_for(told)
        asked_at(tui, "answer(YES/NO)>")
        tui.say("예")
        tui.wait_for(ANSWER)
        tui.leave()


def test_a_command_that_looks_is_shown_while_another_command_asks(project: Project) -> None:
    with Tui(project, rows=40) as tui:
        tui.say(loop_of(project))
        asked_at(tui)
        tui.press("y")
        tui.wait_for("completed")
        tui.wait(lambda: "/help" in tui.below[0])
        tui.say("/undo")
        asked_at(tui, "Take this back? [y/N]:")
        tui.say("/status")
        tui.wait_for("every command:")
        asked_at(tui, "Take this back? [y/N]:")
        tui.say("maybe")
        tui.wait_for("'maybe' is neither y nor n")
        asked_at(tui, "Take this back? [y/N]:")
        tui.say("n")
        tui.wait_for("not taken back")
        tui.wait(lambda: "/help" in tui.below[0] and tui.row.startswith("> "))
        tui.say("/undo")
        asked_at(tui, "Take this back? [y/N]:")
        tui.say("y")
        tui.wait_for("to have the changes again: /undo")
        tui.leave()
    assert not project.calc().endswith(RIGHT)


def test_plain_lines_ask_again_below_what_a_command_shows(asking: Project) -> None:
    terminal = Terminal([PROGRAM, "tui", "--screen-reader", "--provider", f"scripted:{asking.script}"], asking.path)
    terminal.wait_for("> ")
    terminal.type("/start asking\n")
    terminal.wait_for("leave it waiting) > ")
    terminal.type("/inbox\n")
    shown = terminal.wait_for("leave it waiting) > ")
    assert "이름은?" in shown
    terminal.type("/nosuch\n")
    assert "there is no command /nosuch" in terminal.wait_for("leave it waiting) > ")
    terminal.type("/exit\n")
    assert terminal.end() == 0


# -- leaving, and coming back -----------------------------------------------------------------------------------------


def test_what_was_sent_and_not_taken_is_told_to_a_person_who_leaves_and_a_turn_that_goes_on_has_its_state(
    tmp_path: Path,
) -> None:
    slow = main("한 글자씩 " * 400, "execute", chunk=5, delayMs=60_000)
    project = Project(tmp_path / "p", planning("final_report"), slow)
    with Tui(project) as tui:
        tui.say("천천히")
        tui.wait_for("한 글자씩 한 글자씩")
        state = state_of(tui)
        tui.say("그다음")
        tui.wait(lambda: any(" · 1 to send" in row for row in tui.rows))
        tui.type(CTRL_D)
        assert tui.end() in (0, 130)
        assert "not sent: 그다음" in tui.log
    project.write_script(planning("final_report"), slow)
    with Tui(project) as tui:
        tui.wait_for("it is finished first")
        tui.wait_for("한 글자씩 한 글자씩")
        assert state_of(tui) == state != "starting"
        tui.kill()


def state_of(tui: Tui) -> str:
    """The state in the status row of a turn."""
    row = next(row for row in tui.rows if row.startswith(" run @1 · evidence · "))
    return row.split(" · ")[2]


def test_how_to_go_on_with_a_run_that_was_stopped_is_told_once(tmp_path: Path) -> None:
    slow = main(PLAN, "plan", chunk=1, delayMs=60_000)
    project = Project(tmp_path / "p", {**slow, "match": {"role": "planner"}})
    with Tui(project, columns=120, rows=40) as tui:
        tui.say(loop_of(project))
        tui.wait(lambda: any(row.startswith(" run @1 · loop · plan") for row in tui.rows))
        tui.type(CTRL_C)
        tui.wait_for("interrupted")
        tui.wait(lambda: "/help" in tui.below[0])
        assert sum("/resume 1" in row for row in tui.log) == 1
        tui.leave()


def test_an_error_of_several_lines_has_its_lines(asking: Project) -> None:
    with Tui(asking, columns=120) as tui:
        tui.say("/start asking")
        asked_at(tui, "leave it waiting) >")
        tui.type(CTRL_C)
        tui.wait(lambda: "/help" in tui.below[0])
        tui.say("/answer 1 hello --question nosuch")
        tui.wait(lambda: any(row.startswith("  --question name  이름은?") for row in tui.rows))
        tui.leave()


def test_a_message_after_a_prompt_that_was_answered_elsewhere_is_sent_if_nothing_was_typed_at_it(
    project: Project,
) -> None:
    with Tui(project) as tui:
        tui.say(loop_of(project))
        asked_at(tui)
        assert project.run("approve", "last").returncode == 0
        tui.wait_for("completed")
        tui.wait(lambda: "/help" in tui.below[0])
        tui.say("안녕?")
        tui.wait_for("_evidence_")
        assert not any("not taken" in row for row in tui.log)
        tui.kill()
