"""Tables measured in terminal cells, so that Hangul and other wide text lines up."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, whole: bool = False) -> list[str]:
    """Rows as aligned lines; the last column is cut to the terminal's width, never wrapped. `whole`: nothing is cut."""
    everything = [tuple(header), *rows]
    widths = [max(cell_len(row[column]) for row in everything) for column in range(len(header))]
    room = max(shutil.get_terminal_size((100, 20)).columns - sum(widths[:-1]) - 2 * (len(widths) - 1), 20)
    room = widths[-1] if whole else room
    return [_line(row, widths, room) for row in everything]


def _line(row: Sequence[str], widths: list[int], room: int) -> str:
    cells = [set_cell_size(text, width) for text, width in zip(row[:-1], widths[:-1], strict=True)]
    return "  ".join([*cells, cut(row[-1], room)]).rstrip()


def cut(text: str, room: int) -> str:
    """Text in at most so many cells."""
    return text if cell_len(text) <= room else set_cell_size(text, room - 1) + "…"
