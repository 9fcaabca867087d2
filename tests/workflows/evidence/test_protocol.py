"""The JSON protocols of the evidence loop: what is read from a reply, and what is said about a wrong one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestra.core.errors import ContractError
from orchestra.core.text import estimated_tokens
from orchestra.workflows.evidence import protocol
from orchestra.workflows.evidence.protocol import AskUser, CallTool, Finalize, ToolArguments

CALL = {"action": "call_tool", "tool": "shell", "args": {"cmd": "rg -n 느림 src | head -3"}, "reason": "느린 곳 찾기"}


@pytest.mark.spec("S5-33", "S5-42")
@pytest.mark.parametrize(
    ("reply", "action"),
    [
        (json.dumps(CALL, ensure_ascii=False), CallTool(ToolArguments("rg -n 느림 src | head -3"), "느린 곳 찾기")),
        ('{"action":"ask","question":"윈도우인가요?"}', AskUser("윈도우인가요?")),
        ('{"action":"finalize"}', Finalize()),
        ('<think>{"action":"finalize"} or not?</think>{"action":"ask","question":"q?"}', AskUser("q?")),
        ('```json\n{"action": "finalize"}\n```', Finalize()),
        ('I am done: {"action": "finalize"} as you see.', Finalize()),
        ('{"note": {"action": "finalize"}} {"action":"finalize"}', Finalize()),
        ("<think>never closed", None),
        ("", None),
        ("finalize", None),
        ('{"action":"delete"}', None),
        ('{"action":"call_tool","args":{"cmd":"ls"}}', None),  # no reason
        ('{"action":"call_tool","args":{"cmd":" "},"reason":"r"}', None),
        (
            '{"action":"call_tool","args":{"cmd":"ls"},"reason":"%s"}' % ("r" * 120),
            CallTool(ToolArguments("ls"), "r" * 120),
        ),
        ('{"action":"call_tool","args":{"cmd":"ls"},"reason":"%s"}' % ("r" * 121), None),
        ('{"action":"call_tool","tool":"python","args":{"cmd":"ls"},"reason":"r"}', None),
        ('{"action":"ask","question":""}', None),
        ('{"action":"finalize"} {"action":"ask","question":"q"}', None),  # which of the two?
        ('{"action":"finalize"', None),  # breaks off
    ],
)
def test_a_workers_reply_is_one_of_three_actions(reply: str, action: protocol.Action | None) -> None:
    if action is not None:
        assert protocol.read_action(reply) == action
        return
    with pytest.raises(ContractError) as wrong:
        protocol.read_action(reply)
    said = protocol.repair(str(wrong.value))
    assert "could not be used" in said and "one JSON object" in said and "\n" not in said


@pytest.mark.spec("S5-44")
def test_a_workers_reply_of_exactly_the_limit_is_read() -> None:
    replies = [json.dumps({**CALL, "note": "가" * n}, ensure_ascii=False) for n in range(300)]
    by_size = {estimated_tokens(reply): reply for reply in replies}
    assert isinstance(protocol.read_action(by_size[protocol.WORKER_TOKENS]), CallTool)
    with pytest.raises(ContractError, match="about 257 tokens"):
        protocol.read_action(by_size[protocol.WORKER_TOKENS + 1])


@pytest.mark.spec("S5-44", "S5-45")
def test_a_workers_reply_that_is_too_long_is_refused_but_its_thoughts_do_not_count() -> None:
    long = json.dumps({**CALL, "note": "가" * 300}, ensure_ascii=False)  # Hangul has three bytes each
    with pytest.raises(ContractError, match="at most 256"):
        protocol.read_action(long)
    assert protocol.read_action(f"<think>{'hm ' * 2000}</think>" + json.dumps(CALL)) == protocol.read_action(
        json.dumps(CALL)
    )


@pytest.mark.spec("S5-52", "S5-57")
def test_a_decision_is_finalize_or_continue() -> None:
    decision = protocol.read_decision('{"decision":"finalize","answer":"a","forced_synthesis_enable_think":false}')
    assert (decision.decision, decision.answer, decision.forced_synthesis_enable_think) == ("finalize", "a", False)
    with pytest.raises(ContractError):
        protocol.read_decision('{"decision":"maybe"}')


@pytest.mark.spec("S5-30")
def test_planning_needs_a_next_step_and_a_reason() -> None:
    assert protocol.read_planning('{"next":"final_report","reason":"인사"}').next == "final_report"
    for wrong in ('{"next":"final_report"}', '{"next":"final_report","reason":" "}', '{"next":"x","reason":"r"}'):
        with pytest.raises(ContractError):
            protocol.read_planning(wrong)


@pytest.mark.spec("S5-59", "S5-60")
@pytest.mark.parametrize(
    ("answer", "plain"),
    [
        ("Because of the cache.", True),
        ("`{}` is an empty dict.", True),
        ("{x} stands for a set", True),
        ("[1] says so", True),
        ('{"answer": "x"}', False),
        ('```json\n{"answer": "x"}\n```', False),
        ('[{"a": 1}]', False),
        ('{"answer": "it breaks o', False),
        ("", False),
        ("<think>only thoughts</think>", False),
        ("[" * 100_000, False),
    ],
)
def test_an_answer_is_text_and_never_json(answer: str, plain: bool) -> None:
    if plain:
        assert protocol.read_answer(answer) == answer
    else:
        with pytest.raises(ContractError):
            protocol.read_answer(answer)


@given(st.text(max_size=400))
def test_no_reply_is_an_error_of_the_program(reply: str) -> None:
    for read in (protocol.read_action, protocol.read_decision, protocol.read_planning, protocol.read_answer):
        try:
            read(reply)
        except ContractError as wrong:
            assert str(wrong)
