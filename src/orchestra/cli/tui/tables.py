"""Markdown tables read aloud: row by row, each cell behind the name of its column. Pure.

Rules
1. Only the Markdown of one answer comes here (prose.py), without its blocks of code. A diff, a file and the output of a
   command do not: a person decides by them, and sees each of their lines as it is.
2. A table is a line that begins with a bar, a line of dashes below it with as many cells, and the lines with bars that
   follow. All other lines stay as they are.
3. A line that may begin a table is held back until the next line decides; `rest` gives it back.
4. A row is one line: `name: value; name: value`. An empty cell is said to be empty.
"""

from __future__ import annotations

import re

_CELLS = re.compile(r"(?<!\\)\|")
_DASHES = re.compile(r":?-+:?")


class Tables:
    """Replaces the tables among the lines of one answer, which come in order."""

    def __init__(self) -> None:
        self._held: str | None = None  # a line that may be the head of a table (rule 3)
        self._columns: list[str] = []  # of the table that is open

    @property
    def holds(self) -> bool:
        """Whether a line is held back."""
        return self._held is not None

    def line(self, text: str) -> list[str]:
        """The lines to print, after this one."""
        if self._columns:
            if cells := _cells(text):
                return [_row(self._columns, cells)]
            self._columns = []
        held, self._held = self._held, None
        if held and _is_below(text, held):
            self._columns = _cells(held)
            return []
        before = [] if held is None else [held]
        if text.lstrip().startswith("|"):
            self._held = text
            return before
        return [*before, text]

    def rest(self) -> list[str]:
        """The line that was held back: the answer, or its table, is over."""
        held, self._held, self._columns = self._held, None, []
        return [] if held is None else [held]


def _is_below(text: str, head: str) -> bool:
    """Whether a line is the dashes below the head of a table (rule 2)."""
    cells = _cells(text)
    return 0 < len(cells) == len(_cells(head)) and all(map(_DASHES.fullmatch, cells))


def _cells(text: str) -> list[str]:
    """The cells of a line; none if it has no bar."""
    inner = text.strip()
    if "|" not in inner:
        return []
    parts = _CELLS.split(inner)
    parts = parts[1 if not parts[0] else 0 :]
    parts = parts[: -1 if parts and not parts[-1] else None]
    return [part.strip().replace("\\|", "|") for part in parts]


def _row(columns: list[str], cells: list[str]) -> str:
    cells = [*cells, *[""] * (len(columns) - len(cells))]
    named = zip([*columns, *[""] * (len(cells) - len(columns))], cells, strict=True)
    return "; ".join(f"{name}: {cell or 'empty'}" if name else cell or "empty" for name, cell in named)
