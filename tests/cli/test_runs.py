"""The list of runs: as many columns as the terminal has room for."""

from __future__ import annotations

import pytest

from orchestra.cli.runs import fitted

ROW = ("1", "2026-01-01_001_loop_x", "failed", "어제", "3 s", "$0.1000", "고쳐라")
MIDDLE = ("1", "failed", "어제", "3 s", "$0.1000", "고쳐라")


@pytest.mark.parametrize(
    ("room", "number", "shown"),
    [
        *((130, "1", ROW), (129, "1", MIDDLE), (80, "1", MIDDLE), (79, "1", ("1", "failed", "고쳐라"))),
        (20, "-", ("-", *ROW[1:])),  # a run without a number is meant by its id
    ],
)
def test_a_narrow_terminal_shows_fewer_columns(room: int, number: str, shown: tuple[str, ...]) -> None:
    header, rows = fitted([(number, *ROW[1:])], room)
    assert rows == [shown] and len(header) == len(shown)
    assert (header[0], header[-1]) == ("no", "goal") and ("run" in header) == (len(shown) == 7)
