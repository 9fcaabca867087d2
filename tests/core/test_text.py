"""Text that is shown: short enough, in one line, and never longer than was asked for."""

from __future__ import annotations

import msgspec
import pytest

from orchestra.core.text import (
    and_more,
    brief,
    cell,
    checks_changed,
    clean,
    count,
    duration_text,
    estimated_tokens,
    misfit_text,
    some,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("열 글자입니다, 네", "열 글자입니다, 네"),
        ("열한 글자입니다, 네", "열한 글자입니다,…"),
        ("  두\n줄\t\n", "두 줄"),
        ("a" + " " * 159, "a"),  # as much as is read
        ("a" + " " * 160, "a…"),  # more than is read: there may be something after it
        ("\x1b[m빨\x07", "\\x1b[m빨\\x…"),
    ],
)
def test_a_text_is_one_line_of_at_most_so_many_characters(text: str, shown: str) -> None:
    assert brief(text, 10) == shown


def test_a_cell_stays_within_its_length_when_its_markup_is_escaped() -> None:
    assert cell("a|b <i> c\\d") == "a\\|b &lt;i> c\\\\d"
    assert cell("<" * 5, 20) == "&lt;" * 5
    assert cell("<" * 6, 20) == "&lt;" * 4 + "&lt…"


def test_of_many_names_the_first_are_shown_and_the_others_counted() -> None:
    names = [f"n{number}" for number in range(12)]
    assert some(names[:10]) == ", ".join(names[:10])
    assert some(names) == ", ".join(names[:10]) + " and 2 more"
    assert (checks_changed([]), checks_changed(["a"])) == ("", "the checks were changed by this run: a")
    assert [count(number, "run") for number in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abc", 1), ("abcd", 2), ("가", 1), ("가나다라", 4)])
def test_three_bytes_are_a_token(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (duration_text(3600), "1h"),
        (duration_text(60), "1m"),
        (duration_text(59), "59s"),
        (duration_text(90), "90s"),
        (clean('x = "\x1b]"; run(); "\x07"\x1b[1m\r\n'), 'x = "\\x1b]"; run(); "\\x07"\\x1b[1m\n'),  # nothing is hidden
        (clean("\x9b \u202e \U000e0041"), "\\x9b \\u202e \\U000e0041"),
    ],
)
def test_durations_and_unseen_characters_are_written_in_full(shown: str, wanted: str) -> None:
    assert shown == wanted


class _Item(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    sizes: dict[str, int] = {}
    numbers: dict[int, str] = {}


class _Order(msgspec.Struct):
    items: list[_Item]


@pytest.mark.parametrize(
    ("value", "kind", "why"),
    [
        ({}, _Order, "items is missing"),
        ({"items": [{}]}, _Order, "items[0].name is missing"),
        ({"items": 3}, _Order, "items: expected array, got int"),
        ({"items": [{"name": "네", "크기": 3}]}, _Order, "items[0]: object contains unknown field 크기"),
        ({"name": "x", "sizes": {"a": "b"}}, _Item, "an entry of sizes: expected int, got str"),
        ({"name": "x", "numbers": {"a": "b"}}, _Item, "a key of numbers: expected int, got str"),
        ({"a": "b"}, dict[str, int], "an entry: expected int, got str"),
        ("x", int, "Expected int, got str"),
    ],
)
def test_a_value_that_does_not_fit_its_type_is_named(value: object, kind: type, why: str) -> None:
    with pytest.raises(msgspec.ValidationError) as wrong:
        msgspec.convert(value, kind)
    assert misfit_text(wrong.value) == why


@pytest.mark.parametrize(("names", "shown"), [("ab", "a, b"), ("abc", "a, b, c"), ("abcd", "a, b, c and 1 more")])
def test_of_a_long_list_the_rest_is_counted(names: str, shown: str) -> None:
    assert some(tuple(names), 3) == shown
    assert and_more(names, 3, "\n- ") == ("\n- and 1 more" if len(names) == 4 else "")
