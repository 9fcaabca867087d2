"""ContextGuard: when a conversation is made shorter, what is kept, and that it never goes on for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestra.workflows.evidence import memory
from orchestra.workflows.evidence.memory import (
    COMPACTION,
    Message,
    compacted,
    is_too_long,
    signature,
    tagged,
    tokens_of,
    told,
)

LIMIT = 8192


def turns(count: int, size: int = 400) -> tuple[Message, ...]:
    said: list[Message] = [Message("system", "base")]
    for number in range(1, count + 1):
        said += [
            tagged("user", "AGENT_GOAL", f"목표 {number}", of="default"),
            tagged("assistant", "WORKER_TOOL", f"rg -n 낱말{number} src", number=number),
            tagged("user", "WORKER_TOOL_RESULT", f"exit=0\n{'가' * size}", number=number),
            Message("assistant", f"답 {number}"),
        ]
    return tuple(said)


@pytest.mark.spec("S5-63")
def test_the_guard_looks_at_the_estimate_and_at_nothing_else() -> None:
    assert not is_too_long(turns(2), LIMIT)
    assert is_too_long(turns(20), LIMIT)
    assert is_too_long((Message("user", "가" * LIMIT),), LIMIT)  # one message of Hangul: a token for each


def test_conversations_of_one_size_differ_by_their_ends() -> None:
    assert signature((Message("user", "가나"),)) != signature((Message("user", "나가"),))
    assert signature(()) == signature(()) != signature((Message("user", ""),))


@pytest.mark.parametrize(("length", "shown"), [(300, "가" * 300), (301, "가" * 299 + "…")])
def test_a_line_of_a_compaction_document_has_at_most_300_characters(length: int, shown: str) -> None:
    made = compacted(turns(40), LIMIT, goal="가" * length, step=1)
    [document] = [one.content for one in made.messages if one.content.startswith(COMPACTION)]
    assert f"Goal: {shown}" in document.splitlines()


@pytest.mark.spec("S5-65", "S5-67")
def test_a_compaction_reaches_its_target_and_keeps_the_newest_messages() -> None:
    before = turns(40)
    made = compacted(before, LIMIT, goal="지금의 목표", step=7)
    assert made.after <= memory.TARGET * LIMIT and made.after == tokens_of(made.messages)
    kept = [one for one in made.messages if one.role != "system"]
    assert memory.LEAST_KEPT <= len(kept) <= memory.MOST_KEPT
    assert tuple(kept) == before[-len(kept) :]
    [document] = [one for one in made.messages if one.content.startswith(COMPACTION)]
    assert "Goal: 지금의 목표" in document.content and "Step: 7" in document.content
    assert "[WORKER_TOOL_" in document.content and "Last answer: 답 " in document.content
    assert made.messages[0] == before[0]  # the base message stays


def test_an_older_compaction_document_is_replaced_and_not_piled_up() -> None:
    once = compacted(turns(40), LIMIT, goal="g", step=1).messages
    twice = compacted((*once, *turns(40)[1:]), LIMIT, goal="g", step=2).messages
    assert sum(one.content.startswith(COMPACTION) for one in twice) == 1


@pytest.mark.spec("S5-67")
@given(st.lists(st.integers(1, 30_000), min_size=1, max_size=60), st.integers(200, 40_000))
def test_compacting_again_and_again_ends(sizes: list[int], limit: int) -> None:
    """However long the messages are: after one compaction the same messages are not compacted again."""
    messages = tuple(tagged("user", "WORKER_TOOL_RESULT", "x" * size, number=at) for at, size in enumerate(sizes))
    made = compacted(messages, limit, goal="g", step=1)
    assert made.after <= made.before and made.after == tokens_of(made.messages)
    again = made
    for _ in range(4):
        again = compacted(again.messages, limit, goal="g", step=1)
    assert signature(again.messages) == signature(compacted(again.messages, limit, goal="g", step=1).messages)


@pytest.mark.spec("S5-75", "S5-76", "S5-77", "S5-78")
def test_the_answer_of_a_turn_is_its_last_message_without_a_tag() -> None:
    assert memory.answer_of(turns(3)) == "답 3"
    assert memory.answer_of(turns(3)[:-1]) == "답 2"
    assert memory.tag_of(tagged("user", "WORKER_ASK_ANSWER", "YES", number=3)) == "WORKER_ASK_ANSWER"
    assert tagged("user", "AGENT_GOAL", "왜?", of="default").content == "[AGENT_GOAL:default] 왜?"


@pytest.mark.spec("S5-65")
def test_a_conversation_that_comes_to_the_target_exactly_is_not_made_shorter_still() -> None:
    made = compacted(turns(40), LIMIT, goal="g", step=1)
    beside = int(memory.TARGET * LIMIT) - made.after
    assert compacted(turns(40), LIMIT, goal="g", step=1, beside=beside) == made
    assert compacted(turns(40), LIMIT, goal="g", step=1, beside=beside + 1).after < made.after


def test_a_call_is_too_long_from_exactly_85_percent_on() -> None:
    message = (Message("user", "x" * 30),)
    beside = 850 - tokens_of(message)
    assert is_too_long(message, 1_000, beside=beside) and not is_too_long(message, 1_000, beside=beside - 1)


def test_the_current_turn_is_told_without_what_its_prompt_shows() -> None:
    before = turns(2)
    assert [one.content for one in told(before)[-2:]] == ["답 1", "답 2"]
    assert len(told(before)) == len(before) - 3


@pytest.mark.parametrize(("text", "kept"), [("가" * 700, "가" * 700), ("가" * 701, "가" * 699 + "…")])
def test_a_kept_message_is_clipped_to_exactly_so_many_characters(text: str, kept: str) -> None:
    made = compacted((*turns(40), Message("user", text)), 100, goal="g", step=1)
    assert made.messages[-1].content == kept
