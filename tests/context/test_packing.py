"""Which lines of a file go in, when not all of it does."""

from __future__ import annotations

from orchestra.context.packing import Must, Room, pack_musts
from orchestra.context.ranking import Sought
from orchestra.context.sheets import Sheet

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
