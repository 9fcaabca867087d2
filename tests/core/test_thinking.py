"""Think blocks are told apart from the text, whole or as it arrives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestra.core.thinking import Thinking, split_thinking


@pytest.mark.parametrize(
    ("reply", "thoughts", "text"),
    [
        ("답", "", "답"),
        ("<think></think>답", "", "답"),
        ("<think>음\n</think>\n\n답", "음", "답"),
        ("a<think>b</think>c<think>d</think>e", "b\nd", "ace"),
        ("<think>끝나지 않은 생각", "끝나지 않은 생각", ""),
        ("생각</think>답", "생각", "답"),
        ("a < b <thin", "", "a < b <thin"),
    ],
)
def test_a_reply_is_split(reply: str, thoughts: str, text: str) -> None:
    assert split_thinking(reply) == (thoughts, text)


@given(st.lists(st.sampled_from(["<", "think", ">", "/", "<think>", "</think>", "가", " "]), max_size=20), st.data())
def test_pieces_do_not_depend_on_how_the_reply_arrives(parts: list[str], data: st.DataObject) -> None:
    reply = "".join(parts)
    whole, torn = Thinking(), Thinking()
    expected = [*whole.feed(reply), *whole.close()]
    found = []
    at = 0
    while at < len(reply):
        size = data.draw(st.integers(1, 4))
        found += torn.feed(reply[at : at + size])
        at += size
    found += torn.close()
    for kind in ("thought", "text"):
        assert "".join(p.text for p in found if p.kind == kind) == "".join(p.text for p in expected if p.kind == kind)
