"""Which lines of a file go in, when not all of it does."""

from __future__ import annotations

import pytest

from orchestra.context.packing import Candidate, Must, Room, pack_found, pack_musts
from orchestra.context.ranking import Sought
from orchestra.context.sheets import Sheet
from orchestra.core.shown import Lines

# of which no chunk fits
LONG = f"x = [  # {'y' * 99}\n" + "".join(f"    {at},  # 줄 {at}\n" for at in range(2, 200)) + "]\n"


def test_named_lines_near_the_beginning_are_shown_from_the_first_line_on() -> None:
    """If the chunk that they are in does not fit: so many lines around them, and as many as fit."""
    sheet, room = Sheet("a.py", LONG), Room(1200)
    pack_musts(room, [Must(sheet, ((3, 3),))], Sought({}))
    assert sheet.shown == ((1, 15),)
    [left] = room.left_out
    assert left.lines == ((16, 200),)
    assert room.left == 1200 - len(sheet.content().encode())


NOTHING = Sought({})
TEN = "".join(f"line {at:03}\n" for at in range(1, 11))  # of 9 bytes each


@pytest.mark.parametrize(
    ("left", "most", "fits"), [(90, None, True), (89, None, False), (99, 90, True), (99, 89, False)]
)
def test_lines_are_added_if_their_last_byte_fits(left: int, most: int | None, fits: bool) -> None:
    sheet, room = Sheet("a.txt", TEN), Room(left)
    assert room.add(sheet, sheet.everything, most) is fits
    assert (sheet.shown, room.left) == ((((1, 10),), left - 90) if fits else ((), left))
    assert room.sheets == ([sheet] if fits else [])


def test_what_cannot_fit_is_known_before_it_is_looked_at() -> None:
    sheet = Sheet("a.txt", "x" * 200)
    assert [Room(left).may_fit(sheet, (1, 1)) for left in (135, 136)] == [False, True]  # 64 bytes of a mark less


@pytest.mark.parametrize(("size", "shown"), [(54, ((1, 3),)), (53, ((1, 2),)), (36, ((1, 1),)), (35, ())])
def test_of_lines_that_only_are_wanted_as_many_are_shown_as_fit(size: int, shown: tuple[Lines, ...]) -> None:
    mark = len("… lines 4-10 not shown\n".encode())
    sheet, room = Sheet("a.txt", TEN), Room(size - 27 + mark)
    sheet.exact = True
    pack_musts(room, [Must(sheet, ((1, 3),), only=True)], NOTHING)
    assert sheet.shown == shown


@pytest.mark.parametrize(("named", "shown"), [(41, (41, 80)), (80, (41, 80)), (40, (1, 40)), (81, (81, 120))])
def test_the_chunk_of_a_named_line_is_shown_to_its_first_and_last_line(named: int, shown: Lines) -> None:
    sheet = Sheet("a.py", "".join(f"def f_{at}():\n" + "    pass\n" * 39 for at in range(6)))
    assert sheet.structure.chunks[:3] == [(1, 40), (41, 80), (81, 120)]
    room = Room(round(sheet.cost(((41, 80),)) / 0.35) + 2)  # of which one chunk fits into the share of parts
    pack_musts(room, [Must(sheet, ((named, named),))], NOTHING)
    assert sheet.shown == (shown,)


@pytest.mark.parametrize(("size", "read"), [(500, ["a", "b"]), (501, ["a"])])
def test_found_files_are_looked_at_up_to_five_times_the_room(size: int, read: list[str]) -> None:
    looked: list[str] = []

    def sheet(path: str) -> Sheet:
        looked.append(path)
        return Sheet(path, "x" * size)

    pack_found(Room(100), [Candidate(path, 1.0, 1.0) for path in "ab"], NOTHING, sheet)
    assert looked == read


@pytest.mark.parametrize(
    ("lines", "shown"),
    [((1, 2), ((1, 2),)), ((0, 1), ((1, 1),)), ((5, 6), ((5, 6),)), ((199, 300), ((199, 200),)), ((201, 300), ())],
)
def test_only_the_lines_that_a_person_opened_are_shown(lines: Lines, shown: tuple[Lines, ...]) -> None:
    sheet, room = Sheet("a.py", LONG), Room(1200)
    pack_musts(room, [Must(sheet, (lines,), only=True)], Sought({}))
    assert sheet.shown == shown
    assert [left.why for left in room.left_out] == ([] if shown else ["its lines do not fit"])


def test_of_a_file_of_which_only_lines_are_wanted_nothing_else_is_shown_or_missed() -> None:
    sheet, room = Sheet("a.txt", TEN), Room(1_000)
    sheet.exact = True
    pack_musts(room, [Must(sheet, ((2, 3), (7, 7)), only=True)], NOTHING)
    assert (sheet.shown, room.left_out, room.sheets) == (((2, 3), (7, 7)), [], [sheet])


def test_a_file_that_must_go_in_is_shown_whole_where_it_fits_and_is_one_sheet() -> None:
    sheet, room = Sheet("a.txt", TEN), Room(1_000)
    pack_musts(room, [Must(sheet, ((2, 3),)), Must(sheet, ())], NOTHING)
    assert (sheet.shown, room.left, room.sheets, room.left_out) == (((1, 10),), 910, [sheet], [])


def test_of_a_file_without_any_room_it_is_said_why() -> None:
    for only, why in ((False, "its 90 bytes do not fit"), (True, "its lines do not fit")):
        room = Room(0)
        pack_musts(room, [Must(Sheet("a.txt", TEN), ((2, 3),), only=only)], NOTHING)
        assert [(one.path, one.why) for one in room.left_out] == [("a.txt", why)]


def test_found_files_that_fit_are_shown_whole_and_of_others_chunks() -> None:
    small, big = (
        Sheet("small.txt", TEN),
        Sheet("big.py", "".join(f"def f_{at}():\n" + "    x\n" * 39 for at in range(9))),
    )
    sheets = {"small.txt": small, "big.py": big}
    pack_found(room := Room(1_000), [Candidate(path, 1.0, 1.0) for path in sheets], NOTHING, sheets.get)
    assert small.is_whole and big.shown and not big.is_whole and room.left < 400
    pack_found(room := Room(1_000), [Candidate("gone", 1.0, 1.0)], NOTHING, sheets.get)
    assert (room.left, room.sheets) == (1_000, [])


def test_of_lines_further_below_as_many_are_shown_as_fit_beside_those_above() -> None:
    sheet = Sheet("a.txt", TEN)
    sheet.exact = True
    room = Room(sheet.cost(((1, 3), (8, 8))))
    pack_musts(room, [Must(sheet, ((1, 3), (8, 10)), only=True)], NOTHING)
    assert (sheet.shown, room.left) == (((1, 3), (8, 8)), 0)


def test_found_files_without_any_score_are_shown_in_parts_too() -> None:
    big = Sheet("big.py", "".join(f"def f_{at}():\n" + "    x\n" * 39 for at in range(9)))
    pack_found(Room(1_000), [Candidate("big.py", 0.0, 1.0)], NOTHING, {"big.py": big}.get)
    assert big.shown and not big.is_whole
