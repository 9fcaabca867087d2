"""A finished line of Markdown, painted for a terminal. Pure.

Rules
1. A line stays a line: nothing is joined or wrapped, so what is copied from the terminal is the text.
2. The marks stay, because the text is what a model wrote; only their colour tells what they mean.
"""

from __future__ import annotations

import re

import click

from orchestra.cli.text import safe

_INLINE = re.compile(r"(`[^`\n]+`)|(\*\*[^*\n]+\*\*)")
_FENCE = re.compile(r"\s{0,3}(```+|~~~+)")
_HEADING = re.compile(r"#{1,6} ")


class Prose:
    """Paints the lines of one text, in order."""

    def __init__(self) -> None:
        self._fence = ""  # of the code block that is open

    def line(self, text: str) -> str:
        """The next line."""
        text = safe(text)
        if found := _FENCE.match(text):
            mark = found[1][:3]
            self._fence = "" if self._fence == mark else self._fence or mark
            return click.style(text, dim=True)
        if self._fence:
            return click.style(text, fg="cyan")
        if _HEADING.match(text):
            return click.style(text, bold=True)
        return _INLINE.sub(
            lambda one: click.style(one[0], fg="cyan" if one[1] else None, bold=one[2] is not None), text
        )
