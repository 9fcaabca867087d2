"""A diff as git writes it: where a hunk ends and the next one begins."""

from __future__ import annotations

import pytest

from orchestra.patch.unified import Edit, Names, render, trim

OLD = [f"{number}\n".encode() for number in range(1, 31)]
NAMES = Names("f", "f", "100644", "100644")


def hunks(*edits: Edit) -> list[str]:
    return [line for line in render(NAMES, edits, OLD).splitlines() if line.startswith("@@")]


@pytest.mark.parametrize(
    ("second", "found"),
    [
        (11, ["@@ -2,14 +2,14 @@"]),  # six unchanged lines between them: the context of both
        (12, ["@@ -2,7 +2,7 @@", "@@ -10,7 +10,7 @@"]),
    ],
)
def test_changes_share_a_hunk_as_long_as_their_context_touches(second: int, found: list[str]) -> None:
    assert hunks(Edit(4, 5, (b"x\n",)), Edit(second, second + 1, (b"y\n",))) == found


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (Edit(0, 1, ()), ["@@ -1,4 +1,3 @@"]),
        (Edit(0, 0, (b"x\n",)), ["@@ -1,3 +1,4 @@"]),
        (Edit(30, 30, (b"x\n",)), ["@@ -28,3 +28,4 @@"]),
        (Edit(0, 30, ()), ["@@ -1,30 +0,0 @@"]),
        (Edit(0, 30, (b"x\n",)), ["@@ -1,30 +1 @@"]),
    ],
)
def test_the_head_of_a_hunk_counts_its_lines(edit: Edit, found: list[str]) -> None:
    assert hunks(edit) == found


def test_what_an_edit_leaves_as_it_is_is_no_part_of_it() -> None:
    assert trim([Edit(2, 5, (b"3\n", b"x\n", b"5\n"))], OLD) == [Edit(3, 4, (b"x\n",))]
    assert trim([Edit(2, 4, (b"3\n", b"4\n"))], OLD) == []
    assert trim([Edit(2, 4, (b"3\n", b"3\n", b"4\n"))], OLD) == [Edit(3, 3, (b"3\n",))]


@pytest.mark.parametrize(
    ("name", "side"), [("f", "a/f"), ("a b", "a/a b\t"), ('a "b"', '"a/a \\"b\\""'), ("한 글", "a/한 글\t")]
)
def test_a_name_with_blanks_ends_with_a_tab_unless_it_is_quoted(name: str, side: str) -> None:
    text = render(Names(name, name, "100644", "100644"), [Edit(0, 1, (b"x\n",))], OLD)
    assert text.split("\n")[1] == f"--- {side}"
