"""How parts of a file are shown, and what they cost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orchestra.context.sheets import Sheet

TEXT = "".join(f"line {at}\n" for at in range(1, 101))
RANGES = st.lists(st.tuples(st.integers(-5, 120), st.integers(-5, 120)), max_size=8)


def test_parts_are_named_and_gaps_are_marked() -> None:
    sheet = Sheet("src/a.py", TEXT)
    sheet.shown = sheet.with_more([(10, 12), (50, 51)])
    artifact = sheet.artifact()
    assert artifact.name == "src/a.py, lines 10-12, 50-51 of 100"
    assert artifact.path == "src/a.py"
    assert artifact.content == (
        "… lines 1-9 not shown\nline 10\nline 11\nline 12\n… lines 13-49 not shown\nline 50\nline 51\n"
        "… lines 52-100 not shown\n"
    )
    assert sheet.gaps() == ((1, 9), (13, 49), (52, 100))


def test_a_whole_file_is_named_by_its_path_and_keeps_its_bytes() -> None:
    sheet = Sheet("a.txt", "one\r\ntwo\x0bthree\nno end")
    sheet.shown = sheet.with_more(sheet.everything)
    assert (sheet.artifact().name, sheet.content(), sheet.is_whole) == ("a.txt", "one\r\ntwo\x0bthree\nno end", True)


def test_a_file_of_which_only_the_beginning_was_read_is_never_whole() -> None:
    sheet = Sheet("a.txt", "one\ntwo\n", whole=False)
    sheet.shown = sheet.with_more(sheet.everything)
    assert sheet.artifact().name == "a.txt, lines 1-2 of more than 2"
    assert sheet.content() == "one\ntwo\n… lines from 3 on not shown\n"


@given(RANGES, st.sampled_from([TEXT, TEXT.rstrip("\n"), "한글\n가나", "x"]), st.booleans())
def test_the_cost_is_the_size_of_the_content(ranges: list[tuple[int, int]], text: str, whole: bool) -> None:
    sheet = Sheet("a.py", text, whole=whole)
    sheet.shown = sheet.with_more(ranges)
    assert sheet.cost(sheet.shown) == len(sheet.content().encode())
    assert list(sheet.shown) == sorted(sheet.shown)


@given(RANGES, st.tuples(st.integers(-5, 120), st.integers(-5, 120)))
def test_of_a_range_the_shown_lines_are_summed(ranges: list[tuple[int, int]], lines: tuple[int, int]) -> None:
    sheet = Sheet("a.py", TEXT)
    sheet.shown = sheet.with_more(ranges)
    shown = {at for first, last in sheet.shown for at in range(first, last + 1)}
    wanted = shown & set(range(lines[0], lines[1] + 1))
    assert sheet.shown_of(lines) == sum(len(f"line {at}\n") for at in wanted)


def test_parts_are_joined_over_a_gap_of_three_lines() -> None:
    sheet = Sheet("a.py", TEXT)
    assert sheet.with_more([(10, 12), (16, 20)]) == ((10, 20),)
    assert sheet.with_more([(10, 12), (17, 20)]) == ((10, 12), (17, 20))
    assert sheet.with_more([(4, 9)]) == ((1, 9),) and sheet.with_more([(5, 9)]) == ((5, 9),)
    assert sheet.with_more([(90, 97)]) == ((90, 100),) and sheet.with_more([(90, 96)]) == ((90, 96),)


def test_a_gap_of_one_line_stays_where_exactly_these_lines_are_asked_for() -> None:
    sheet = Sheet("a.py", TEXT)
    sheet.exact = True
    sheet.shown = sheet.with_more([(1, 5), (7, 98)])
    assert (sheet.shown, sheet.gaps()) == (((1, 5), (7, 98)), ((6, 6), (99, 100)))
    assert "line 5\n… line 6 not shown\nline 7\n" in sheet.content()
    assert sheet.content().endswith("line 98\n… lines 99-100 not shown\n")
    assert sheet.with_more([(6, 6), (99, 100)]) == sheet.everything


def test_a_mark_below_an_unfinished_last_line_begins_a_line() -> None:
    sheet = Sheet("a.txt", "one\ntwo", whole=False)
    sheet.shown = sheet.with_more(sheet.everything)
    assert sheet.content() == "one\ntwo\n… lines from 3 on not shown\n"
    empty = Sheet("a.txt", "", whole=False)
    assert empty.cost(empty.with_more(empty.everything)) == 0


def test_the_bytes_of_one_line_and_of_none() -> None:
    sheet = Sheet("a.py", TEXT)
    assert [sheet.size_of(lines) for lines in ((3, 3), (3, 4), (4, 3), (0, 1), (100, 101))] == [7, 14, 0, 7, 9]
