"""Deciding on a patch part by part: what is taken, what is declined and why, and parts that were edited."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestra.cli.hunks import Walk, as_edited, helped, read_numbers, to_edit
from orchestra.patch.choosing import Part

PARTS = [Part("가.py", 1, 2, "h", "1"), Part("가.py", 2, 2, "h", "2"), Part("b.py", 1, 1, "h", "3")]
ASKED = "apply {} [y,n,a,d,e,?,q]? "


def test_the_question_says_which_part_it_is() -> None:
    walk = Walk(PARTS)
    asked = []
    while not walk.over:
        asked.append(walk.prompt)
        walk.take()
    ways = ("(1/3) ", "this hunk"), ("(2/3) ", "this hunk"), ("(3/3) ", "this file")
    assert asked == [number + ASKED.format(what) for number, what in ways]
    assert Walk(PARTS[2:]).prompt == ASKED.format("this patch")
    assert Walk(PARTS[2:]).alone and not walk.alone


@pytest.mark.parametrize(
    ("decide", "taken", "reason"),
    [
        (lambda walk: walk.take_all(), "123", "so"),
        (lambda walk: (walk.skip("크다"), walk.take(), walk.skip()), "2", "가.py, hunk 1: 크다; so"),
        (lambda walk: (walk.take_file(), walk.skip("no")), "12", "b.py, hunk 1: no; so"),
        (lambda walk: (walk.skip_file("틀렸다"), walk.take_all()), "3", "가.py, hunk 1: 틀렸다; so"),
        (lambda walk: (walk.take(), walk.skip_file(), walk.take()), "13", "so"),
    ],
)
def test_what_was_taken_and_why_the_rest_was_not(decide: Callable[[Walk], object], taken: str, reason: str) -> None:
    walk = Walk(PARTS)
    decide(walk)
    assert walk.over
    made = walk.choice("so")
    assert "".join(part.body for part in made.taken) == taken and made.offered == PARTS
    assert made.reason == reason and [part.body for part in made.declined] == [b for b in "123" if b not in taken]


def test_the_reason_of_a_patch_of_one_part_names_no_part() -> None:
    walk = Walk(PARTS[2:])
    walk.skip("아니다")
    assert walk.choice().reason == "아니다"


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("@@ -1 +1 @@\n-a\n+나\n# left out\n", "@@ -1 +1 @@\n-a\n+나\n"),
        ("-a\n+b", "@@ @@\n-a\n+b\n"),
        ("# nothing\n\n", None),
        ("", None),
        ("@@ -1 +1 @@\n-a\n+b\n#\n", None),  # as it was
    ],
)
def test_a_hunk_that_was_edited_replaces_the_one_that_was_offered(text: str, body: str | None) -> None:
    part = Part("가.py", 1, 2, "h", "@@ -1 +1 @@\n-a\n+b\n")
    edited = as_edited(part, text)
    assert edited == (None if body is None else Part("가.py", 1, 2, "h", body, edited=True))
    assert as_edited(part, to_edit(part)) is None and to_edit(part).startswith(f"{part.body}# ---\n")
    walk = Walk([part])
    walk.take(edited)
    assert walk.choice().taken == [edited or part] and walk.choice().declined == []


@pytest.mark.parametrize(
    ("text", "chosen"),
    [("", ()), ("1", ("a",)), ("3, 1", ("c", "a")), ("0", None), ("4", None), ("x", None), ("1 x", None), ("²", None)],
)
def test_files_are_chosen_by_number(text: str, chosen: tuple[str, ...] | None) -> None:
    assert read_numbers(text, ("a", "b", "c")) == chosen


def test_what_is_no_answer_is_said_before_the_answers() -> None:
    assert list(helped("?")) == list(helped("")) == list(helped("뭐"))[1:]
    assert next(helped("뭐")) == "`뭐` is no answer here; these are:"
