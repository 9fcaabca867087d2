"""A file that a person wrote: what is right of it, and each mistake with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestra.config.yamlfile import MOST, Origins, read_yaml
from orchestra.core.errors import UsageError


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    name: str = ""
    many: tuple[int, ...] = ()


class Whole(msgspec.Struct, forbid_unknown_fields=True):
    one: Inner = msgspec.field(default_factory=Inner)
    list: tuple[Inner, ...] = ()
    numbers: tuple[int, ...] = ()
    by_name: dict[str, Inner] = {}


def read(folder: Path, text: str) -> tuple[Whole, Origins, list[tuple[int, str]]]:
    (folder / "x.yaml").write_text(text)
    whole, origins, mistakes = read_yaml(folder / "x.yaml", Whole)
    return whole, origins, [(mistake.line, ".".join(mistake.places)) for mistake in mistakes]


@pytest.mark.parametrize(
    ("text", "wrong", "right"),
    [
        ("one: {name: a}\n", [], Whole(one=Inner("a"))),
        ("- one\n", [(1, "")], Whole()),
        ("one: 3\nnumbers: [1]\n", [(1, "one")], Whole(numbers=(1,))),
        ("numbers: [1, x, 3, y]\n", [(1, "numbers.1"), (1, "numbers.3")], Whole(numbers=(1, 3))),
        ("numbers:\n- 1\n- x\n", [(3, "numbers.1")], Whole(numbers=(1,))),
        (
            "list:\n- name: a\n- name: [b]\n  many: [1]\n",
            [(3, "list.1.name")],
            Whole(list=(Inner("a"), Inner(many=(1,)))),
        ),
        (
            "by_name:\n  a: {name: x}\n  b: {name: 7}\n  c: {many: [1]}\n",
            [(3, "by_name.b.name")],
            Whole(by_name={"a": Inner("x"), "b": Inner(), "c": Inner(many=(1,))}),
        ),
        ("zz: 1\none: {nmae: x}\nnumbers: [2]\n", [(1, "zz"), (2, "one.nmae")], Whole(numbers=(2,))),
    ],
)
def test_each_mistake_has_its_line_and_the_rest_is_read(
    tmp_path: Path, text: str, wrong: list[tuple[int, str]], right: Whole
) -> None:
    whole, _, mistakes = read(tmp_path, text)
    assert (sorted(mistakes), whole) == (wrong, right)


@pytest.mark.parametrize(("many", "told"), [(MOST - 1, MOST - 1), (MOST, MOST), (MOST + 1, MOST)])
def test_so_many_mistakes_are_told_at_once(tmp_path: Path, many: int, told: int) -> None:
    whole, _, mistakes = read(tmp_path, f"numbers: [7{', x' * many}]\n")
    assert len(mistakes) == told
    assert whole == (Whole(numbers=(7,)) if many < MOST else Whole())


@pytest.mark.parametrize(
    ("keys", "value", "where"),
    [
        (("numbers",), [1, 2], "x.yaml:2"),
        (("numbers", 0), 1, "x.yaml:3"),
        (("numbers", 1), 2, "x.yaml:4"),
        (("numbers", 2), None, "built in"),
        (("numbers", "x"), None, "built in"),
        (("one", "name"), "a", "x.yaml:1"),
        (("one", "many"), None, "built in"),
        (("one", "name", "more"), None, "built in"),
    ],
)
def test_a_value_is_named_by_its_line(tmp_path: Path, keys: tuple[str | int, ...], value: Any, where: str) -> None:
    _, origins, _ = read(tmp_path, "one: {name: a}\nnumbers:\n- 1\n- 2\n")
    assert (origins.given(*map(str, keys)), origins.where(*keys)) == (value, where)


@pytest.mark.parametrize("more", [0, 1])
def test_a_value_that_is_repeated_by_its_name_counts_each_time(tmp_path: Path, more: int) -> None:
    """100,000 are the most: here 1 for the file, 100 for `a`, 2 and a thousand times 99 for `b`, 2 and the numbers."""
    a, b = ", ".join("1" * 98), ", ".join(["*a"] * 1_000)
    text = f"a: &a [{a}]\nb: [{b}]\nnumbers: [{', '.join('1' * (895 + more))}]\n"
    if more:
        with pytest.raises(UsageError, match="more than 100,000 values, most of them by"):
            read(tmp_path, text)
    else:
        assert [place for _, place in read(tmp_path, text)[2]] == ["a", "b"]
