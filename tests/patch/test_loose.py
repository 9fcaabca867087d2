"""Context that is damaged: a change is placed where nothing else can be meant, and refused everywhere else."""

from __future__ import annotations

import pytest

from orchestra.core.work import Refusal

from .support import patched, prepare

FILE = "".join(f"line {number}\n" for number in range(1, 31))


def diff(*lines: str, start: str = "@@ @@") -> str:
    return "\n".join(["diff --git a/f.txt b/f.txt", "--- a/f.txt", "+++ b/f.txt", start, *lines]) + "\n"


def refusal(text: str, old: str) -> str:
    result = patched(text, old)
    assert isinstance(result, Refusal), result
    return result.message


def test_two_hunks_written_as_one_are_placed_apart() -> None:
    two = diff(" line 3", "-line 4", "+four", " line 5", " line 20", "+twenty and a half", " line 21")
    new = FILE.replace("line 4\n", "four\n").replace("line 20\n", "line 20\ntwenty and a half\n")
    assert patched(two, FILE) == new.encode()
    backwards = diff(" line 20", "-line 21", "+x", " line 22", " line 3", "-line 4", "+four", " line 5")
    assert isinstance(patched(backwards, FILE), Refusal)


def test_parts_that_fit_twice_are_not_placed() -> None:
    old = FILE + "line 20\nline 21\n"
    two = diff(" line 3", "-line 4", "+four", " line 5", " line 20", "+x", " line 21")
    assert isinstance(patched(two, old), Refusal)


def test_lines_missing_next_to_an_added_line_leave_its_place_unknown() -> None:
    for lines in (
        (" line 3", "-line 4", "+four", " line 5", " line 20", "+x", " line 22"),
        (" line 3", " line 4", "+x", " line 6", " line 7"),
    ):
        assert isinstance(patched(diff(*lines, start="@@ -3,5 +3,6 @@"), FILE), Refusal)


def test_a_context_line_written_twice_is_read_once() -> None:
    new = FILE.replace("line 5\n", "five\n").encode()
    for lines in (
        (" line 3", " line 3", " line 4", "-line 5", "+five", " line 6"),
        (" line 3", " line 4", " line 4", "-line 5", "+five", " line 6"),
        (" line 3", " line 4", "-line 5", "+five", " line 6", " line 6"),
    ):
        assert patched(diff(*lines), FILE) == new
    assert isinstance(
        patched(diff(" line 4", "-line 5", "-line 5", "+five"), FILE), Refusal
    )  # a removed line is no slip


def test_a_context_line_written_twice_between_two_changes_is_read_once() -> None:
    lines = (" line 3", "-line 4", "+four", " line 5", " line 5", "-line 6", "+six", " line 7")
    assert patched(diff(*lines), FILE) == FILE.replace("line 4\n", "four\n").replace("line 6\n", "six\n").encode()
    message = refusal(diff(*lines), FILE + "line 3\nline 4\nline 5\nline 6\nline 7\n")
    assert "a context line seems to stand twice in the hunk; without it the place is not clear" in message


def test_lines_the_counts_miss_may_be_left_out_beside_a_removed_line() -> None:
    new = FILE.replace("line 5\n", "five\n").encode()
    lines = (" line 2", " line 3", "-line 5", "+five", " line 6")  # line 4 is left out
    assert patched(diff(*lines, start="@@ -2,5 +2,5 @@"), FILE) == new
    for start in ("@@ -2,4 +2,4 @@", "@@ -2,6 +2,6 @@", "@@ -2,6 +2,5 @@", "@@ @@"):  # the counts do not say that
        assert isinstance(patched(diff(*lines, start=start), FILE), Refusal)


def test_lines_added_below_context_that_lost_its_last_line_have_no_place() -> None:
    end = (" line 28", " line 29", "+the end")
    assert "context seems to be missing" in refusal(diff(*end, start="@@ -28,3 +28,4 @@"), FILE)
    added = FILE.replace("line 29\n", "line 29\nthe end\n").encode()
    assert patched(diff(*end, start="@@ -28,2 +28,3 @@"), FILE) == added  # nothing is missing
    assert patched(diff(*end, start="@@ -28,2 +28,9 @@"), FILE) == added  # the counts are wrong in another way
    late = ("-line 26", "+L26", " line 27", " line 28", "+the end")
    assert "context seems to be missing" in refusal(diff(*late, start="@@ -26,4 +26,5 @@"), FILE)
    begin = ("+the begin", " line 2", " line 3")
    assert "context seems to be missing" in refusal(diff(*begin, start="@@ -1,3 +1,4 @@"), FILE)
    whole = (" line 28", " line 30", "+the end")  # here the file ends: it is the line between that is missing
    assert patched(diff(*whole, start="@@ -28,3 +28,4 @@"), FILE) == f"{FILE}the end\n".encode()


CODE = "def f():\n\tif x:\n\t\treturn 1\n\treturn 2\n\ndef g():\n\treturn 3\n"


@pytest.mark.parametrize("size", [2, 4, 8])
def test_context_with_blanks_for_tabs_is_found_if_the_changed_lines_have_tabs(size: int) -> None:
    one = " " * size
    text = diff(" def f():", f" {one}if x:", "-\t\treturn 1", "+\t\treturn 7", f" {one}return 2")
    assert patched(text, CODE) == CODE.replace("1", "7").encode()
    for lines in (
        (f" {one}if x:", f"-{one}{one}return 1", f"+{one}{one}return 7", f" {one}return 2"),
        (f" {one}if x:", f"+{one}{one}print(x)", f" {one}{one}return 1"),
    ):
        assert isinstance(patched(diff(" def f():", *lines), CODE), Refusal)  # tabs of the added line are lost


@pytest.mark.parametrize("blanks", [2, 4])
def test_a_shifted_indentation_is_found_with_a_doubt(blanks: int) -> None:
    more = " " * blanks
    old = "class 가:\n    def f(self):\n        return 1\n"
    text = diff(f" {more}    def f(self):", f"-{more}        return 1", f"+{more}        return 2")
    done = prepare(text, {"f.txt": old})
    assert not isinstance(done, Refusal)
    assert done.doubts == (
        f"f.txt, hunk 1: its lines are indented by {blanks} blanks more than the file's; "
        "its added lines were moved alike, which may be wrong",
    )
    gone = diff(f" {more}    def f(self):", f"-{more}        return 1")
    nothing_added = prepare(gone, {"f.txt": old})
    assert not isinstance(nothing_added, Refusal)
    assert nothing_added.doubts == ()


def test_a_long_hunk_that_does_not_fit_is_refused_without_trying_every_cut() -> None:
    """A hunk of 2,000 lines in a file of 4,000: lines are compared a few times each, not each with each."""
    lines = [f"line {number}" for number in range(2000)]
    old = "".join(f"{line}\n" for line in [*lines, *lines])
    body = [f" {line}" for line in lines[:1000]] + ["-gone", "+here"] + [f" {line}" for line in lines[1000:]]
    assert isinstance(patched(diff(*body, start="@@ -1,2003 +1,2003 @@"), old), Refusal)


def test_a_blank_line_missing_beside_added_lines_is_not_found_by_dropping_the_rest() -> None:
    """Two blank lines in the file, one in the hunk: the added lines belong above the second, or below it."""
    old = "first\nsecond\n\n\nthird\nfourth\n"
    lines = (" first", " second", " ", "+new", " third", " fourth")
    assert "place is unknown" in refusal(diff(*lines, start="@@ -1,6 +1,7 @@"), old)


def test_context_that_differs_in_its_indentation_is_not_dropped_to_make_the_rest_fit() -> None:
    old = "describe(function(){\n\n  it('하나', function(){\n    one();\n  })\n})\n"
    flat = (" describe(function(){", "+it('둘', two)", " ", " it('하나', function(){", " one();")
    assert "not indented like the file's" in refusal(diff(*flat), old)


def test_a_line_of_the_file_that_begins_with_a_sign_is_no_added_line_where_prefixes_are_lost() -> None:
    old = "History\n+++++++\n\n* New\n  - one\n"
    raw = ("+++++++", "", "* New", "-  - one", "+    - one")
    assert "seems to begin with a `+`" in refusal(diff(*raw), old)


@pytest.mark.parametrize(("theirs", "fits"), [("abcdefghiX", True), ("abcdefghXY", False)])
def test_context_is_similar_from_nine_tenths_on(theirs: str, fits: bool) -> None:
    old = f"one\n{theirs}\nthree\n"
    found = patched(diff(" abcdefghij", "-three", "+3"), old)
    assert found == old.replace("three", "3").encode() if fits else isinstance(found, Refusal)


def test_a_hunk_without_omitted_lines_is_not_cut_to_make_its_quotes_fit() -> None:
    """The context of its first half is prettified, so its added line cannot be trusted either."""
    old = "say 'one'\nb = 1\nc = 2\nd = 3\ne = 4\n"
    lines = (" say \u2018one\u2019", "-b = 1", "+b = 2", " c = 2", " d = 3", "+note = \u201cnew\u201d", " e = 4")
    assert "typographic" in refusal(diff(*lines), old)


def test_a_hunk_that_goes_on_below_the_end_of_the_file_is_refused() -> None:
    lines = (" line 29", " line 30", " line 31", "+line 32", " line 33")
    assert "Nothing" not in refusal(diff(*lines), FILE)


@pytest.mark.parametrize(
    ("lines", "old", "places"),
    [
        (
            ("     if x:", "-\t\treturn 1", "+\t\treturn 7"),
            "\tif x:\n\t\treturn 1\nmid\n\tif x:\n\t\treturn 1\n",
            "1, 4",
        ),
        ((" a1", " k", "-x", "+y", " e", " b1"), "a1\nk\nx\ne\nother\nk\nx\ne\nb1\n", "1, 6"),
        ((" uniqueaaa1", "-x", "+y", " uniquebbb1"), "uniqueaaa1\nx\nuniquebbb2\nuniqueaaa2\nx\nuniquebbb1\n", "1, 4"),
    ],
)
def test_damaged_context_that_fits_two_places_is_refused_with_both(
    lines: tuple[str, ...], old: str, places: str
) -> None:
    assert f"fits 2 places (lines {places})" in refusal(diff(*lines), old)


@pytest.mark.parametrize(
    ("lines", "fits"),
    [
        ((" wrong", " keep", "-x", "+y", " end"), True),
        ((" keep", "-x", "+y", " end", " wrong"), True),
        ((" w1", " w2", " keep", "-x", "+y", " end", " w3"), True),
        ((" wrong", "-x", "+y", " end"), False),  # the side above would keep none
        ((" keep", "-x", "+y", " wrong"), False),
    ],
)
def test_outer_context_is_dropped_while_each_side_keeps_some(lines: tuple[str, ...], fits: bool) -> None:
    done = patched(diff(*lines), "keep\nx\nend\n")
    assert done == b"keep\ny\nend\n" if fits else isinstance(done, Refusal)


@pytest.mark.parametrize(
    ("lines", "old"),
    [
        ((" def abcdefghijkl(self):", " one", "-two", "+2"), "  def abcdefghijkl(self):\none\ntwo\n"),
        ((" abcdefghij", "-gone", "+3"), "abcdefghiX\ngone\nother\ngone\n"),  # no line of it is unique
        (("     if y:", "-\t\treturn 1", "+\t\treturn 7"), "\tif x:\n\t\treturn 1\n"),  # other words, not only tabs
    ],
)
def test_context_that_only_resembles_the_file_s_is_refused(lines: tuple[str, ...], old: str) -> None:
    assert "its context is not in the file" in refusal(diff(*lines), old)
