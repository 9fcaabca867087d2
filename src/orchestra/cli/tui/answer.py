"""An answer while it is written: the lines to print of it, each once. Pure.

Rules
1. A line is printed when it is complete. What is printed stays: the terminal has it.
2. A call that is made again begins its text anew. Lines that are the same as before are not printed again. If a line is
   another, the whole text is printed anew, below a line that tells so.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from orchestra.cli.chatface import AnswerText
from orchestra.cli.tui.prose import Prose

_AGAIN = "· asked again: the text above was broken off, and is void"


class Answer:
    """One answer."""

    def __init__(self, above: tuple[str, ...] = (), *, aloud: bool = False) -> None:
        """`above`: the lines that are printed of an attempt before. `aloud`: a screen reader reads the answer."""
        self._text, self._prose = AnswerText(), Prose(aloud=aloud)
        self._aloud = aloud
        self._lines: list[str] = []
        self._above = above
        self.begun = ""  # the line that is not complete

    @property
    def shown(self) -> str:
        """The text so far that may be shown; empty if it is to be printed as a whole."""
        return self._text.shown

    def again(self) -> Answer:
        """The next attempt, after this one was broken off."""
        printed = self._lines[:-1] if self._prose.holds else self._lines
        return Answer(max(self._above, tuple(printed), key=len), aloud=self._aloud)

    def more(self, text: str) -> Iterator[str]:
        """The lines to print, after this text."""
        return self._take(self._text.feed(text))

    def close(self, text: str) -> Iterator[str]:
        """The lines to print at the end; this text is the last."""
        yield from self._take(self._text.feed(text) + self._text.close())
        yield from self._take("\n" if self.begun else "")
        if len(self._lines) < len(self._above):
            yield from self._anew()
        yield from self._prose.rest()

    def end(self) -> Iterator[str]:
        """What is begun: no more comes."""
        yield from self._take("\n" if self.begun else "")
        yield from self._prose.rest()

    def _take(self, text: str) -> Iterator[str]:
        *whole, self.begun = (self.begun + text).split("\n")
        for line in whole:
            self._lines.append(line)
            if len(self._lines) > len(self._above):
                yield from self._prose.line(line)
            elif self._above[len(self._lines) - 1] == line:
                self._prose.line(line)  # it is printed; it may open a block of code, or a table
            else:
                yield from self._anew()

    def _anew(self) -> Iterator[str]:
        """Everything so far, below what tells that the text above is void (rule 2)."""
        self._above, self._prose = (), Prose(aloud=self._aloud)
        yield click.style(_AGAIN, dim=True)
        for line in self._lines:
            yield from self._prose.line(line)
