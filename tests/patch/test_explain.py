"""Why a hunk does not fit, for the fixer: the file's real lines, from the right place."""

from __future__ import annotations

from orchestra.patch.diff import parse_diff
from orchestra.patch.explain import mismatch
from orchestra.patch.text import FileText


def said_of(text: str, hunk: str) -> str:
    """The lines that are quoted of a file, for a hunk that does not fit there."""
    changes = parse_diff(f"diff --git a/x b/x\n--- a/x\n+++ b/x\n{hunk}")
    assert isinstance(changes, list | tuple)
    said = mismatch("x, hunk 1", changes[0].hunks[0], file=FileText(text.encode()), note="")
    return said.partition("nearest lines of the file:\n")[2]


def test_of_two_equally_good_places_the_one_nearest_to_the_hunk_s_line_is_quoted() -> None:
    # "same" stands in lines 3 and 6; the hunk says line 5, which is nearer to 6.
    text = "one\ntwo\nsame\nfour\nfive\nsame\nseven\n"
    quoted = said_of(text, "@@ -5,2 +5,2 @@\n same\n-gone\n+new\n")
    assert "six" not in quoted and quoted.index("same") < quoted.index("seven") and "two" not in quoted


def test_of_two_equally_similar_lines_the_first_is_quoted() -> None:
    text = "return total + 1\nx\ny\nz\nreturn total + 2\n"
    quoted = said_of(text, "@@ @@\n-return total + 3\n+return 3\n")
    assert quoted.splitlines()[0] == "     1| return total + 1" and "total + 2" not in quoted


def test_what_is_hardly_similar_is_not_quoted_as_the_nearest() -> None:
    assert said_of("abcdefxxxx\n", "@@ @@\n-abcdefyyyy\n+z\n") == ""  # 6 of 10 characters
    assert "abcdefgxxx" in said_of("abcdefgxxx\n", "@@ @@\n-abcdefgyyy\n+z\n")
