"""Tables with columns measured in terminal cells, so that Hangul and other wide text lines up."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.cells import cell_len, set_cell_size

_LEAST = 10  # cells of the last column


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, whole: bool = False) -> list[str]:
    """Rows as aligned lines; the last column is cut to the terminal's width, never wrapped. `whole`: nothing is cut."""
    return list(aligned(header, list(rows), whole=whole))


def aligned(header: Sequence[str], rows: Iterable[Sequence[str]], *, whole: bool = False) -> Iterator[str]:
    """The same, line by line. The rows are read twice and need not be in memory."""
    widths = [cell_len(name) for name in header]
    for row in rows:
        widths = [max(width, cell_len(text)) for width, text in zip(widths, row, strict=True)]
    room = max(shutil.get_terminal_size((100, 20)).columns - sum(widths[:-1]) - 2 * (len(widths) - 1), _LEAST)
    room = widths[-1] if whole else room
    yield _line(header, widths, room)
    for row in rows:
        yield _line(row, widths, room)


class Rows(Iterable[Sequence[str]]):
    """Rows that are computed anew each time they are iterated."""

    def __init__(self, make: Callable[[], Iterator[Sequence[str]]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Sequence[str]]:
        return self._make()


def _line(row: Sequence[str], widths: list[int], room: int) -> str:
    cells = [set_cell_size(text, width) for text, width in zip(row[:-1], widths[:-1], strict=True)]
    return "  ".join([*cells, cut(row[-1], room)]).rstrip()


def cut(text: str, room: int) -> str:
    """The text, cut to at most `room` cells."""
    return text if cell_len(text) <= room else set_cell_size(text, room - 1) + "…"
