"""Replies in the live rows of the terminal UI: JSON is shown as what it says, in whatever pieces it comes."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestra.cli.tui.readable import Readable

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
            "action: call_tool\nargs: \ncmd: ls -l\nn: 1 true",
        ),
        ('```json\n{"a": ["x", "y"], "b": 2}\n```', "a: \nx \ny\nb: 2"),
        ('{"a": "\\ud83d\\ude00 \\ud83d \\ude00 \\u00e9 \\uzzzz \\/"}', "a: 😀 \ufffd \ufffd é uzzzz /"),
        ("A plain reply: {no JSON}", "A plain reply: {no JSON}"),
        ("```python\nprint(1)\n```", "```python\nprint(1)\n```"),
        ("  \n", ""),
    ],
)
def test_json_is_shown_as_what_it_says_and_other_text_as_it_is(reply: str, shown: str) -> None:
    assert read(reply) == shown
    assert read(*reply) == shown  # letter by letter


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
        assert read(*reply) == read(reply)
