"""Why a hunk does not fit, for the fixer: the file's real lines, from the right place."""

from __future__ import annotations

from orchestra.patch.diff import FileChange, parse_diff
from orchestra.patch.explain import mismatch
from orchestra.patch.text import FileText


def test_of_two_equally_good_places_the_one_nearest_to_the_hunk_s_line_is_quoted() -> None:
    # "same" stands in lines 3 and 6; the hunk says line 5, which is nearer to 6.
    text = "one\ntwo\nsame\nfour\nfive\nsame\nseven\n"
    diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -5,2 +5,2 @@\n same\n-gone\n+new\n"
    changes = parse_diff(diff)
    assert isinstance(changes, list | tuple)
    change = changes[0]
    assert isinstance(change, FileChange)
    said = mismatch("x, hunk 1", change.hunks[0], file=FileText(text.encode()), note="")
    quoted = said.partition("nearest lines of the file:\n")[2]
    assert "six" not in quoted and quoted.index("same") < quoted.index("seven") and "two" not in quoted
