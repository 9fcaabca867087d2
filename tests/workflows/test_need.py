"""What a model asks to see, read from its words (surfaces: NEED, and an ASK of that form)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestra.core.errors import ContractError
from orchestra.core.shown import Wanted
from orchestra.workflows.need import MOST, ROUNDS, Requests, read_need, read_need_object, read_needed


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("NEED\n- file: src/a.py", [Wanted(file="src/a.py")]),
        ("NEED\n- file: src/a.py:10-20\n", [Wanted(file="src/a.py", lines=(10, 20))]),
        ("NEED\n- file: src/a.py:7", [Wanted(file="src/a.py", lines=(7, 7))]),
        ("NEED\n- search: order_by", [Wanted(search="order_by")]),
        ("\nNEED:\n\n* file: `src/a.py`\n* search: 주문 목록", [Wanted(file="src/a.py"), Wanted(search="주문 목록")]),
        ("**NEED**\n- File: a.py\n- I would like to see more\n", [Wanted(file="a.py")]),
        ("NEED\n- file: a.py:20-10", [Wanted(file="a.py", lines=(10, 20))]),
        ("NEED\n- file: a.py:0-3", [Wanted(file="a.py", lines=(1, 3))]),
        ("NEED\n- search: a:1-2", [Wanted(search="a:1-2")]),
        ("NEED\n- file: a\n- file: a\n- search: b", [Wanted(file="a"), Wanted(search="b")]),
        ("NEED\n- file: ../../etc/passwd", [Wanted(file="../../etc/passwd")]),  # refused where files are read
    ],
)
def test_a_request_is_read(text: str, wanted: list[Wanted]) -> None:
    assert read_need(text) == tuple(wanted)


@pytest.mark.parametrize(
    "text",
    [
        "1. change a.py",
        "We NEED to change a.py\n- file: a.py",
        "# Plan\nNEED\n- file: a.py",
        "NEEDED\n- file: a.py",
        "need\n- file: a.py",
        "",
    ],
)
def test_anything_else_is_a_plan(text: str) -> None:
    assert read_need(text) is None


@pytest.mark.parametrize(
    "text", ["NEED", "NEED\n", "NEED\nmore files please", "NEED\n- file:", f"NEED\n- file: {'x' * 400}"]
)
def test_a_request_for_nothing_is_refused(text: str) -> None:
    with pytest.raises(ContractError, match="- file: PATH"):
        read_need(text)


def test_a_request_is_bounded() -> None:
    asked = read_need("NEED\n" + "".join(f"- search: term{number}\n" for number in range(500)))
    assert asked is not None and len(asked) == MOST


def test_an_ask_is_the_workspaces_only_if_every_item_has_the_form() -> None:
    assert read_needed(("file: a.py:1-2", "search: b")) == (Wanted(file="a.py", lines=(1, 2)), Wanted(search="b"))
    assert read_needed(("- file: a.py",)) == (Wanted(file="a.py"),)
    assert read_needed(("file: a.py", "which colour?")) is None
    assert read_needed(("which colour?",)) is None
    assert read_needed(()) is None


@given(st.text(max_size=200))
def test_no_reply_raises_anything_but_a_refusal(text: str) -> None:
    try:
        found = read_need(f"NEED\n{text}")
    except ContractError:
        return
    assert found and all(one.file or one.search for one in found)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["need", "file", "search"]), inner),
    max_leaves=10,
)


@given(JSON)
def test_no_json_value_raises_anything_but_a_refusal(value: object) -> None:
    try:
        found = read_need_object(value)
    except ContractError:
        return
    assert found is None or all(one.file or one.search for one in found)


def test_a_request_in_json_is_bounded() -> None:
    asked = read_need_object({"need": [{"search": f"term{number}"} for number in range(500)]})
    assert asked is not None and len(asked) == MOST


def test_a_planner_is_told_what_it_asked_for_and_how_often_it_may_ask_again() -> None:
    requests = Requests()
    assert requests.told == ""
    for number in range(ROUNDS):
        requests.refuse_another()
        requests = requests.with_more((Wanted(file="a.py"), Wanted(search=f"term{number}")))
    assert requests.told.count("file: a.py") == 1 and "term0" in requests.told
    assert requests.told.endswith("You cannot ask again.")
    with pytest.raises(ContractError, match="must plan now"):
        requests.refuse_another()
