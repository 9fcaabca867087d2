"""The finished lines of one Markdown text, painted for a terminal. Pure.

Rules
1. A line stays a line: nothing is joined or wrapped, so what is copied from the terminal is the text.
2. The marks stay, because the text is what a model wrote; only their colour tells what they mean.
3. For a screen reader a table is read row by row (tables.py). Its lines are not those of the text.
"""

from __future__ import annotations

import re

import click

from orchestra.cli.text import safe
from orchestra.cli.tui.tables import Tables

_INLINE = re.compile(r"(`[^`\n]+`)|(\*\*[^*\n]+\*\*)")
_FENCE = re.compile(r"\s{0,3}(```+|~~~+)")
_HEADING = re.compile(r"#{1,6} ")


class Prose:
    """Paints the lines of one text, in order."""

    def __init__(self, *, aloud: bool = False) -> None:
        """`aloud`: a screen reader reads the lines (rule 3)."""
        self._fence = ""  # of the code block that is open
        self._tables = Tables() if aloud else None

    @property
    def holds(self) -> bool:
        """Whether the last line is not painted yet: it may be the head of a table."""
        return self._tables is not None and self._tables.holds

    def line(self, text: str) -> list[str]:
        """The lines to print, after this one."""
        text = safe(text)
        if found := _FENCE.match(text):
            mark = found[1][:3]
            self._fence = "" if self._fence == mark else self._fence or mark
            return [*self.rest(), click.style(text, dim=True)]
        if self._fence:
            return [click.style(text, fg="cyan")]
        return [_painted(line) for line in (self._tables.line(text) if self._tables else [text])]

    def rest(self) -> list[str]:
        """The line that was not painted, because the text is over."""
        return [_painted(line) for line in (self._tables.rest() if self._tables else [])]


def _painted(text: str) -> str:
    """A line that is in no block of code."""
    if _HEADING.match(text):
        return click.style(text, bold=True)
    return _INLINE.sub(lambda one: click.style(one[0], fg="cyan" if one[1] else None, bold=bool(one[2]) or None), text)
