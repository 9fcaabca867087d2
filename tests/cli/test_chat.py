"""`orchestra chat` at a real terminal: typed, pasted, stopped, killed, left; and the parts of it that need none."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestra.cli.chatface import AnswerText
from orchestra.cli.conversation import COMMANDS, Conversation, Heard, Wishes
from orchestra.cli.driving import Drive
from orchestra.cli.editor import KeptHistory
from orchestra.cli.face import LineFace
from orchestra.cli.keys import after, before
from orchestra.cli.options import Driving
from orchestra.core.disk import Disk
from orchestra.core.errors import RunLocked, UsageError
from orchestra.core.redact import Redactor
from orchestra.providers.choose import Models
from orchestra.workflows.evidence.protocol import read_answer
from tests.support.evidence import (
    ANSWER,
    USUAL,
    ask,
    ask_agent,
    decision,
    events_of,
    finalize,
    main,
    natives,
    planning,
    runs_of,
    said,
)
from tests.support.project import PROGRAM, Project
from tests.support.terminal import Terminal

HELLO = "안녕하세요! 무엇을 도울까요?"
CHAT = (planning("final_report"), main(HELLO, "execute", chunk=3, delayMs=20))
SLOW = main("한 글자씩 " * 400, "execute", chunk=5, delayMs=60_000, match={"contains": "Goal:\n천천히"})
QUESTION = (planning(), ask("더할까요?"), finalize(), decision(answer=ANSWER))
PROMPT = "\r\ns1>"  # a new one; a line that is drawn again has no line break before it
CTRL_C, CTRL_D, UP, LEFT, BACK = "\x03", "\x04", "\x1b[A", "\x1b[D", "\x7f"


class Chat:
    """A chat at a terminal that is at its prompt."""

    def __init__(self, project: Project, *more: str) -> None:
        command = [PROGRAM, "chat", "--session", "s1", "--provider", f"scripted:{project.script}"]
        self.terminal = Terminal([*command, *more], project.path)
        self.end = self.terminal.end
        self.type = self.terminal.type
        self.wait_for = self.terminal.wait_for

    def at_prompt(self) -> str:
        """Wait for the next prompt; what was shown until then."""
        return self.wait_for(PROMPT)

    def say(self, keys: str) -> str:
        """Type keys, and wait for the prompt after what comes of them."""
        self.type(keys)
        return self.at_prompt()


def status(project: Project) -> list[str]:
    """The statuses of the session's runs, the oldest first."""
    return [json.loads((run / "state.json").read_text())["status"] for run in runs_of(project)]


def goals(project: Project) -> list[str]:
    return [text.partition("] ")[2] for text in said(project) if text.startswith("[AGENT_GOAL")]


# -- talking ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S5-18", "S5-28")
def test_a_conversation_in_korean_pasted_edited_and_left(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *CHAT)
    chat = Chat(project)
    assert "session s1: new" in chat.at_prompt()
    shown = chat.say("안녕\r")
    assert shown.count(HELLO) == 1  # streamed, and not printed again
    assert "planning-result" in shown and "completed" not in shown
    chat.type("\x1b[200~첫째 줄\n둘째 줄\r\n\x1b[201~")  # a paste never sends
    chat.wait_for("둘째 줄")
    chat.say("셋째\x1b\r넷째\r")  # Alt-Enter begins a new line
    family = "👨\u200d👩\u200d👧"
    chat.type(f"🇰🇷{BACK}{family}")
    assert family not in chat.wait_for(family[0])  # terminals count its cells differently
    chat.say(f"{BACK}{unicodedata.normalize('NFD', '글')}{BACK}한글{LEFT}{BACK}\r")
    chat.say(f"{UP}{UP}!\r")
    assert goals(project) == ["안녕", "첫째 줄\n둘째 줄\n셋째\n넷째", "글", "첫째 줄\n둘째 줄\n셋째\n넷째!"]
    chat.type("/exit\r")
    assert chat.end() == 0
    assert ask_agent(project, goal="안녕", session="s2").returncode == 0
    other = natives(project)
    again = Chat(project)
    assert "session s1: 4 turns" in again.at_prompt()
    again.say("안녕\r")
    assert natives(project) == other  # the same loop, whatever the face
    again.type(CTRL_D)
    assert again.end() == 0


def test_steps_and_tool_results_are_shown_and_an_answer_in_a_decision_is_printed_once(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *USUAL)
    chat = Chat(project)
    chat.at_prompt()
    shown = chat.say("add()는 무엇을 하나?\r")
    for native in ("planning-result", "worker-action", "tool-start", "tool-result", "main-decision"):
        assert f"{native}:" in shown
    assert shown.count(ANSWER) == 1
    project.write_script(planning("final_report"), main(HELLO, "execute", chunk=3, finishReason="length"))
    shown = chat.say("안녕\r")
    assert shown.count(HELLO) == shown.count("[…]") == 1  # the mark of an answer that was cut comes after it
    chat.type(CTRL_D)
    assert chat.end() == 0


def test_a_failed_turn_is_shown_and_the_conversation_goes_on(tmp_path: Path) -> None:
    refused = {"match": {"contains": "틀린"}, "error": {"code": "AUTH", "message": "no key", "retriable": False}}
    project = Project(tmp_path / "p", {**refused, "repeat": True}, *CHAT)
    chat = Chat(project)
    chat.at_prompt()
    shown = chat.say("틀린 열쇠\r")
    assert "failed: " in shown and "no key" in shown
    project.write_script(*CHAT)
    assert HELLO in chat.say("다시\r")
    assert status(project) == ["failed", "completed"]
    assert goals(project) == ["틀린 열쇠", "다시"]  # what failed is remembered
    chat.type(CTRL_D)
    assert chat.end() == 0


# -- stopping ---------------------------------------------------------------------------------------------------------


def test_ctrl_c_stops_a_turn_and_the_next_message_is_taken(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", SLOW, *CHAT)
    chat = Chat(project)
    chat.at_prompt()
    chat.type("천천히\r")
    chat.wait_for("한 글자씩 한 글자씩")
    shown = chat.say(CTRL_C)
    assert "stopped." in shown and "orchestra retry" in shown
    assert status(project) == ["canceled"]
    assert HELLO in chat.say("안녕\r")
    assert goals(project) == ["천천히", "안녕"]
    assert "Ctrl-C again leaves" in chat.say(CTRL_C)
    chat.type(f"초안{CTRL_C}")  # discards what was typed, and leaves nothing
    chat.type(CTRL_C)
    assert chat.end() == 0
    assert ask_agent(project, goal="안녕").returncode == 0


def test_ctrl_c_once_more_after_a_stop_leaves(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", SLOW, *CHAT)
    chat = Chat(project)
    chat.at_prompt()
    chat.type("천천히\r")
    chat.wait_for("한 글자씩 한 글자씩")
    chat.say(CTRL_C)
    chat.type(CTRL_C)
    assert chat.end() == 0
    assert status(project) == ["canceled"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_turn_whose_chat_was_ended_is_finished_first(tmp_path: Path, number: signal.Signals) -> None:
    project = Project(tmp_path / "p", planning("final_report"), SLOW)
    chat = Chat(project)
    chat.at_prompt()
    chat.type("천천히\r")
    chat.wait_for("한 글자씩 한 글자씩")
    os.kill(chat.terminal.pid, number)
    assert chat.end() == (-number if number == signal.SIGKILL else 130)
    assert status(project) == ["running"]
    project.write_script(*CHAT)
    again = Chat(project)
    shown = again.at_prompt()
    assert "had stopped; it is finished first" in shown and HELLO in shown
    assert status(project) == ["completed"]
    os.kill(again.terminal.pid, signal.SIGTERM)  # at the prompt
    assert again.end() == 130


# -- questions --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S5-21", "S5-85")
def test_a_question_is_asked_in_the_turn_left_open_and_asked_again(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *QUESTION)
    chat = Chat(project)
    chat.at_prompt()
    chat.type("더하기?\r")
    assert "더할까요?" in chat.wait_for("answer(YES/NO)> ")
    shown = chat.say(CTRL_C)
    assert "left open" in shown and "orchestra answer" in shown
    assert status(project) == ["awaiting_input"]
    assert "is not over" in chat.say("/reset\r")
    chat.type("안녕\r")  # the question comes first
    chat.wait_for("answer(YES/NO)> ")
    chat.type(CTRL_D)
    assert "was not sent" in chat.at_prompt()
    chat.type(CTRL_D)
    assert chat.end() == 0
    again = Chat(project)
    assert "waits for your answer" in again.wait_for("answer(YES/NO)> ")
    assert ANSWER in again.say("예\n")
    answered = next(event for event in events_of(project) if event.type == "QUESTION_ANSWERED")
    assert answered.payload["outcome"]["text"] == "YES"
    again.type("/quit\r")
    assert again.end() == 0


def test_a_turn_that_waits_can_be_canceled(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *QUESTION)
    assert ask_agent(project).returncode == 3
    chat = Chat(project)
    chat.wait_for("answer(YES/NO)> ")
    chat.say(CTRL_C)
    assert "stopped" in chat.say("/cancel\r")
    assert status(project) == ["canceled"]
    assert "nothing to cancel" in chat.say("/cancel\r")
    chat.type(CTRL_D)
    assert chat.end() == 0


# -- refused ----------------------------------------------------------------------------------------------------------


def test_another_process_is_refused_while_a_chat_is_open(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *CHAT)
    chat = Chat(project)
    chat.at_prompt()
    ran = ask_agent(project, command="chat:turn", goal="나도")
    assert ran.returncode == 7 and "in use" in ran.stderr
    other = Terminal([PROGRAM, "chat", "--session", "s1", "--provider", f"scripted:{project.script}"], project.path)
    assert other.end() == 7
    assert not (project.path / "runs").exists()
    chat.type(CTRL_D)
    assert chat.end() == 0


def test_without_a_terminal_one_message_says_what_to_use(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *CHAT)
    ran = project.run("chat", "--session", "s1", "--provider", f"scripted:{project.script}")
    assert ran.returncode == 2 and "orchestra chat:turn --session s1" in ran.stderr
    assert not (project.path / ".orchestra").exists()


# -- the conversation, without a terminal -----------------------------------------------------------------------------


@pytest.fixture
def conversation(tmp_path: Path) -> Iterator[Conversation]:
    project = Project(tmp_path / "p", *CHAT)
    project.configure("evidence: {agents: {quick: {mode: single-main, max_steps: 6}}}\n")
    with open_chat(project) as opened:
        yield opened


def open_chat(project: Project, name: str = "s1", agent: str = "default") -> Conversation:
    drive = Drive(Driving(project.path, as_json=False, no_input=True, quiet=False), face=LineFace())
    return Conversation(drive, name, Models(default=f"scripted:{project.script}"), Wishes(agent))


def hear(conversation: Conversation, *lines: str) -> list[Heard]:
    async def all_of_it() -> list[Heard]:
        return [heard for line in lines for heard in [one async for one in conversation.hear(line)]]

    return asyncio.run(all_of_it())


def test_commands_change_how_turns_are_taken(conversation: Conversation) -> None:
    *_, last = hear(conversation, "/agent quick", "/mode main-worker", "/steps 3", "/stream off")
    assert last.lines == ("session s1, agent quick, mode main-worker, steps 3, stream off",)
    *_, last = hear(conversation, "/mode auto", "/steps auto", "/stream auto", "/session")
    assert last.lines == ("session s1, agent quick, mode single-main, steps 6, stream on",)
    for wrong in ("/agent nobody", "/mode both", "/steps 0", "/steps ²", "/stream maybe", "/session ../x"):
        [refused] = hear(conversation, wrong)
        assert refused.lines[0].startswith("orchestra: ") and refused.leave is None
    assert hear(conversation, "/session")[0].lines == last.lines


def test_commands_are_listed_and_unknown_ones_name_them(conversation: Conversation) -> None:
    [heard] = hear(conversation, "/help")
    assert all(any(name in line for line in heard.lines) for name in COMMANDS)
    [unknown] = hear(conversation, "/etc/hosts?")
    assert all(name in unknown.lines[0] for name in COMMANDS)
    assert hear(conversation, "", "  \n") == []
    assert [one.leave for one in hear(conversation, "/exit", "/quit")] == [0, 0]


def test_a_session_is_shown_reset_and_left_for_another(conversation: Conversation) -> None:
    assert hear(conversation, "/show")[0].lines == ("nothing was said yet",)
    [heard] = hear(conversation, "//etc는 무엇?")  # sent with one slash
    assert heard.answer == HELLO
    [shown] = hear(conversation, "/show")
    assert "/etc는 무엇?" in shown.lines[0] and "//etc" not in shown.lines[0]
    assert hear(conversation, "/session s1") == hear(conversation, "/session")  # it is this one
    assert hear(conversation, "/session s2")[0].lines[0].startswith("session s2: new.")
    assert hear(conversation, "/session s1")[0].lines[0].startswith("session s1: 1 turn.")
    hear(conversation, "/reset")
    assert hear(conversation, "/show")[0].lines == ("nothing was said yet",)


def test_a_session_that_another_conversation_holds_is_not_entered(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *CHAT)
    with open_chat(project, "s1") as one, open_chat(project, "s2"):
        with pytest.raises(RunLocked), open_chat(project, "s1"):
            pass
        assert "in use" in hear(one, "/session s2")[0].lines[0]
        assert one.session == "s1" and hear(one, "안녕")[0].answer == HELLO
    with pytest.raises(UsageError), open_chat(project, agent="nobody"):
        pass


def test_a_session_is_one_row_of_the_runs(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *CHAT)
    with open_chat(project) as first:
        hear(first, "하나", "둘", "셋")
    assert ask_agent(project, goal="다른 것", session="s2").returncode == 0
    rows = project.run("runs").stdout.splitlines()[1:]
    assert [row.partition("session ")[2] for row in rows] == ["s1 (3 turns): 셋", "s2 (1 turn): 다른 것"]
    assert len(project.run("runs", "--all").stdout.splitlines()) == 5
    listed = [json.loads(line) for line in project.run("runs", "--json").stdout.splitlines()]
    assert [one["sessionId"] for one in listed] == ["s1", "s1", "s1", "s2"]
    project.write_script(*QUESTION)
    assert ask_agent(project, goal="넷").returncode == 3
    assert "awaiting_input" in project.run("runs").stdout
    assert project.run("inbox").stdout.count("session s1: ") == 1


# -- parts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "streams"),
    [
        ("  plain\n\n- 목록\n\n", True),
        ("<think>hm, {</think>\n plain <think>more</think> text \n", True),
        ('{"answer": "x"}', False),
        ("```json\n{}\n```", False),
        ("[WORKER_TOOL_1] plain", False),
    ],
)
@pytest.mark.spec("S5-60")
def test_what_streams_of_an_answer_is_the_answer_however_it_is_cut(reply: str, streams: bool) -> None:
    for size in (1, 3, 1000):
        text = AnswerText()
        pieces = [text.feed(reply[at : at + size]) for at in range(0, len(reply), size)]
        printed = "".join([*pieces, text.close()])
        assert printed == text.shown == (read_answer(reply) if streams else "")


def test_the_history_is_masked_and_its_owners_own(tmp_path: Path) -> None:
    path = tmp_path / ".history"
    history = KeptHistory(path, Disk(), Redactor())
    history.store_string("두 줄\n째")
    history.store_string("key sk-ant-api03-" + "a1B2" * 24)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "a1B2" not in path.read_text()
    with path.open("ab") as file:
        file.write(b'"torn')
    newest, oldest = history.load_history_strings()
    assert newest.startswith("key ") and oldest == "두 줄\n째"


@pytest.mark.parametrize("seen", ["a", "글", unicodedata.normalize("NFD", "글"), "🇰🇷", "👨\u200d👩\u200d👧", "👍🏽"])
def test_the_cursor_moves_by_what_is_seen_as_one(seen: str) -> None:
    text = f"한{seen}\n{seen}한"
    assert before(text, 1 + len(seen)) == after(text, 1) == len(seen)
    assert after(text, len(seen) + 1) == before(text, len(seen) + 2) == 1  # a line break
    assert before(text, 0) == after(text, len(text)) == 0
