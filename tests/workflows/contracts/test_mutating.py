"""Faults in implemented lines."""

from __future__ import annotations

import ast

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestra.workflows.contracts.mutating import mutants

SOURCE = '''"""한글 문서 10"""
LIMIT = 3


def allowed(age: int = 18, *, member: bool = False) -> bool:
    """True if 19 or older."""
    if age >= 19 and not member:
        return True
    total = age + 1
    text = f"{age > 3}" + "x"
    return total > LIMIT


class A:
    x: int = 4
'''


def test_each_fault_is_one_change_of_an_implemented_line() -> None:
    found = mutants("a.py", SOURCE, range(1, 100), most=10)
    assert [(one.line, one.old, one.new) for one in found] == [
        (7, "age >= 19 and not member", "(age >= 19 or not member)"),
        (8, "True", "False"),
        (9, "age + 1", "(age - 1)"),
        (11, "total > LIMIT", "(total >= LIMIT)"),
    ]
    for one in found:
        changed = [new for old, new in zip(SOURCE.splitlines(), one.text.splitlines(), strict=True) if old != new]
        assert len(changed) == 1
        ast.parse(one.text)
    assert found[0].said == "a.py:7: age >= 19 and not member → (age >= 19 or not member)"


def test_only_the_given_lines_of_python_are_changed_and_only_so_many() -> None:
    assert [one.line for one in mutants("a.py", SOURCE, {9, 2, 15})] == [9]
    assert [one.line for one in mutants("a.py", SOURCE, range(100), most=2)] == [7, 9]
    assert mutants("a.js", SOURCE, range(100)) == ()
    assert mutants("a.py", "def broken(:", range(100)) == ()
    assert mutants("a.py", SOURCE, range(100), most=0) == ()
    assert [one.line for one in mutants("a.py", SOURCE, range(100), most=1)] == [7]


def test_a_condition_that_is_a_constant_is_not_negated() -> None:
    source = "def f(x):\n    while True:\n        return x\n    return None\n"
    assert [(one.line, one.old, one.new) for one in mutants("a.py", source, range(9))] == [
        (2, "True", "False"),
        (3, "x", "None"),
    ]


def test_a_file_of_exactly_half_a_mebibyte_is_changed() -> None:
    source = "def f(x):\n    return x\n"
    whole = source + "#" * (512 * 1024 - len(source))
    assert len(mutants("a.py", whole, {2})) == 1 and mutants("a.py", whole + "#", {2}) == ()


def test_expressions_over_several_lines_and_hangul_are_changed_in_place() -> None:
    source = "def f(가, 나):\n    한글 = '가나다'; return (가 <\n        나)\n"
    (one,) = mutants("a.py", source, {2})
    assert one.text == "def f(가, 나):\n    한글 = '가나다'; return ((가 <= 나))\n"


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_gives_mutants_or_none(text: str) -> None:
    for one in mutants("a.py", text, range(100)):
        assert one.text != text
