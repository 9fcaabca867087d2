"""A file's text, looked at once: what is found in it, and what is kept for later calls."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from orchestra.context.structure import Structure, Structures
from orchestra.context.words import words_in

TEXT = "import os\n\ndef total(x):\n    return x\n" + "\n" * 20 + "class Total:\n    total = subtotal = 1\n"


def test_a_text_has_its_lines_definitions_and_chunks() -> None:
    one = Structure("a.py", TEXT)
    assert len(one.lines) == 26
    assert [(found.line, found.text) for found in one.definitions] == [(3, "def total(x):"), (25, "class Total:")]
    assert one.chunks == [(1, 24), (25, 26)]
    assert sum(one.sizes) == one.ends[-1] == len(TEXT)


def test_a_word_in_the_line_of_a_definition_counts_three_times() -> None:
    one = Structure("a.py", TEXT)
    assert one.counted("total") == ((0, 3), (1, 1))
    assert one.counted("Total") == ((1, 3),)
    assert one.counted("tot") == ()


@given(st.text(alphabet="abé한 _1(\n", max_size=80))
def test_a_word_is_counted_at_most_as_often_as_it_occurs(text: str) -> None:
    one = Structure("a.txt", text)
    assert one.words == set(words_in(text))
    assert one.ends[-1] == len(text.encode())
    for word, times in Counter(words_in(text)).items():
        assert sum(many for _, many in one.counted(word)) <= times


@given(st.lists(st.text(alphabet="abé한가 _1(\n", min_size=1, max_size=6), max_size=120))
def test_many_words_are_counted_at_once_as_each_by_itself(parts: list[str]) -> None:
    text = " ".join((*parts, *(f"w{number}" for number in range(40))))
    at_once, singly = Structure("a.txt", text), Structure("a.txt", text)
    at_once.count(at_once.words)
    assert {word: at_once.counted(word) for word in singly.words} == {w: singly.counted(w) for w in singly.words}


def test_a_text_that_was_looked_at_is_kept_and_a_changed_one_is_looked_at_anew() -> None:
    kept = Structures()
    first = kept.of("a.py", TEXT)
    assert kept.of("other.py", str(TEXT)) is first
    assert kept.of("a.py", TEXT + "x = 1\n") is not first
    assert kept.of("a.go", TEXT).definitions == []


def test_what_is_kept_is_bounded() -> None:
    kept = Structures(most=8_000)
    texts = [f"{number}{'x' * 700}" for number in range(11)]
    made = [kept.of("a.txt", text) for text in texts]
    assert kept.of("a.txt", texts[-1]) is made[-1]
    assert kept.of("a.txt", texts[0]) is not made[0]
    assert kept.of("a.txt", "\n" * 20) is not kept.of("a.txt", "\n" * 20), "lines weigh more than their characters"


def test_a_text_of_exactly_an_eighth_is_kept_and_eight_of_them() -> None:
    texts = [f"{number}{'x' * 700}" for number in range(9)]
    weight = Structure("a.txt", texts[0]).weight
    kept = Structures(most=8 * weight)
    made = [kept.of("a.txt", text) for text in texts[:8]]
    assert kept.of("a.txt", texts[0]) is made[0]  # asked for last now
    kept.of("a.txt", texts[8])
    assert kept.of("a.txt", texts[0]) is made[0] and kept.of("a.txt", texts[1]) is not made[1]
    small = Structures(most=8 * weight - 1)
    assert small.of("a.txt", texts[0]) is not small.of("a.txt", texts[0])
