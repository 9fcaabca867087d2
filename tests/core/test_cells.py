"""Tables line up by cells, and only the last column is cut."""

from __future__ import annotations

import pytest

from orchestra.core.cells import cut, table


@pytest.mark.parametrize(
    ("text", "room", "shown"), [("한국어", 6, "한국어"), ("한국어", 5, "한국…"), ("abc", 3, "abc"), ("abcd", 3, "ab…")]
)
def test_a_text_is_cut_to_its_cells(text: str, room: int, shown: str) -> None:
    assert cut(text, room) == shown


def test_columns_begin_in_one_cell_and_the_line_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    rows = [("한국", "가" * 30), ("ab", "x" * 24)]
    assert table(("id", "what"), rows) == ["id    what", f"한국  {'가' * 11} …", f"ab    {'x' * 24}"]
    assert table(("id", "what"), rows, whole=True)[1] == f"한국  {'가' * 30}"
