"""Replies in the live rows of the terminal UI: JSON is shown as what it says, in whatever pieces it comes."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestra.cli.tui.face import _Reply
from orchestra.cli.tui.readable import Readable
from orchestra.core.livetext import LiveText
from orchestra.core.redact import Redactor

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def read(*pieces: str) -> str:
    reader = Readable()
    return "".join(reader.feed(piece) for piece in pieces)


@pytest.mark.spec("S5-83", "S5-84")
@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        ('{"decision": "finalize", "answer": "첫 줄\\n\\"둘째\\" 줄"}', 'decision: finalize\nanswer: 첫 줄\n"둘째" 줄'),
        (
            '{"action":"call_tool","args":{"cmd":"ls -l"},"n":[1,true]}',
            "action: call_tool\nargs:\n  cmd: ls -l\nn: 1 true",
        ),
        ('```json\n{"a": ["x", "y"], "b": 2}\n```', "a:\n  - x\n  - y\nb: 2"),
        ('{"a": "\\ud83d\\ude00 \\ud83d \\ude00 \\u00e9 \\uzzzz \\/"}', "a: 😀 \ufffd \ufffd é uzzzz /"),
        ("A plain reply: {no JSON}", "A plain reply: {no JSON}"),
        ("```python\nprint(1)\n```", "```python\nprint(1)\n```"),
        ("  \n", ""),
        ("  plain", "plain"),
        ('[x] done: see "the file"', '[x] done: see "the file"'),
        ('[1] First, I will "do" it.', '[1] First, I will "do" it.'),
        ("{name} is missing", "{name} is missing"),
        ("`code` is the answer", "`code` is the answer"),
        ('{"a": {"b": -1.5, "c": null}, "d": [[2, 3]]}', "a:\n  b: -1.5\n  c: null\nd: 2 3"),
        ('["x", "y"]', "- x\n- y"),
        ('{"a": 1}\n{"a": 2}', "a: 1\na: 2"),
        ('```json\n\n {"a": "x"}\n```\nThat is "it".', 'a: x\nThat is "it".'),
    ],
)
def test_json_is_shown_as_what_it_says_and_other_text_as_it_is(reply: str, shown: str) -> None:
    assert read(reply) == shown
    assert read(*reply) == shown  # letter by letter


def test_a_secret_that_was_not_seen_while_it_was_quoted_is_masked_when_it_is_decoded() -> None:
    secret = "sk-ant-api03-" + "A1b2" * 20
    reply = _Reply(LiveText(Redactor(())))
    shown = reply.more(json.dumps({"a": secret}).replace("-", "\\u002d") + "\n")
    assert "a: " in shown and secret not in shown and "A1b2A1b2" not in shown


@given(JSON, st.booleans(), st.lists(st.integers(0, 200)))
def test_however_a_reply_is_cut_the_same_is_shown_and_it_can_be_written(
    value: object, escaped: bool, cuts: list[int]
) -> None:
    reply = json.dumps({"of": value}, ensure_ascii=escaped)
    places = sorted({0, len(reply), *(cut for cut in cuts if cut < len(reply))})
    shown = read(*(reply[begin:end] for begin, end in pairwise(places)))
    assert shown == read(reply)
    assert shown.encode()  # no half of a pair


@given(st.text())
def test_whatever_comes_is_the_same_letter_by_letter(text: str) -> None:
    for reply in (text, "{" + text, '{"a": "' + text, "```" + text):
        assert read(*reply).split() == read(reply).split()  # of blanks before anything is known one is kept
