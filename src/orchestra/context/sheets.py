"""A file on its way into a prompt: which of its lines are shown, what that costs, and how it looks. Pure.

Rules
1. Lines that are not shown are marked by one line: `… lines 12-40 not shown`. Lines have no numbers of their own: a
   patch is found by its text.
2. Two shown parts with at most three lines between them are one part: the mark would cost as much. Of lines
   that a person opened, exactly these are shown.
3. `cost` is the exact size of `content`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import islice, takewhile

from msgspec import UNSET

from orchestra.context.structure import structure_of
from orchestra.core.model import ContextArtifact
from orchestra.core.shown import How, Lines, Shown, ranges
from orchestra.core.text import estimated_tokens

_NEAR = 3


class Sheet:
    """One file, and the lines of it that are shown."""

    def __init__(self, path: str, text: str, *, whole: bool = True) -> None:
        """`whole`: the text is the whole file, not only its beginning."""
        self.path = path
        self.structure = structure_of(path, text)
        self.lines, self._ends = self.structure.lines, self.structure.ends
        self._whole = whole
        self.shown: tuple[Lines, ...] = ()
        self.how: How = "found"
        self.reason = ""
        self.score = 0.0
        self.exact = False  # rule 2

    @property
    def size(self) -> int:
        """The bytes of all its lines."""
        return self._ends[-1]

    @property
    def everything(self) -> tuple[Lines, ...]:
        """The range of all lines."""
        return ((1, len(self.lines)),) if self.lines else ()

    @property
    def is_whole(self) -> bool:
        """Whether the whole file is shown."""
        return self._whole and self.shown == self.everything

    def with_more(self, more: Iterable[Lines]) -> tuple[Lines, ...]:
        """What is shown if these lines are added (rule 2)."""
        most, near = len(self.lines), 0 if self.exact else _NEAR
        given = ((max(1, first), min(last, most)) for first, last in more)
        out: list[Lines] = []
        for first, last in sorted((*self.shown, *((first, last) for first, last in given if first <= last))):
            if out and first <= out[-1][1] + 1 + near:
                out[-1] = (out[-1][0], max(out[-1][1], last))
            else:
                out.append((first, last))
        if out and 1 < out[0][0] <= 1 + near:
            out[0] = (1, out[0][1])
        if out and most - near <= out[-1][1] < most:
            out[-1] = (out[-1][0], most)
        return tuple(out)

    def cost(self, shown: tuple[Lines, ...]) -> int:
        """The size of the content if these lines are shown (rule 3)."""
        marks = sum(len(mark.encode()) for mark in self._marks(shown) if mark)
        return marks + sum(self._ends[last] - self._ends[first - 1] for first, last in shown)

    def size_of(self, lines: Lines) -> int:
        """The bytes of a range of lines."""
        first, last = max(1, lines[0]), min(lines[1], len(self.lines))
        return self._ends[last] - self._ends[first - 1] if first <= last else 0

    def shown_of(self, lines: Lines) -> int:
        """The bytes of those lines of a range that are shown."""
        begin = bisect_left(self.shown, lines[0], key=_last)  # the parts before end before the range
        parts = takewhile(lambda part: part[0] <= lines[1], islice(self.shown, begin, None))
        return sum(self.size_of((max(first, lines[0]), min(last, lines[1]))) for first, last in parts)

    def gaps(self) -> tuple[Lines, ...]:
        """The lines that are not shown."""
        ends = [0, *(last for _, last in self.shown)]
        firsts = [*(first for first, _ in self.shown), len(self.lines) + 1]
        return tuple((last + 1, first - 1) for last, first in zip(ends, firsts, strict=True) if last + 1 <= first - 1)

    def content(self) -> str:
        """The shown lines, with a mark in each gap (rule 1)."""
        parts: list[str] = []
        for mark, lines in zip(self._marks(self.shown), (*self.shown, None), strict=True):
            parts.append(mark)
            if lines:
                parts += self.lines[lines[0] - 1 : lines[1]]
        return "".join(parts)

    def artifact(self) -> ContextArtifact:
        """The file as a model sees it."""
        name = self.path
        if not self.is_whole:
            most = f"{'' if self._whole else 'more than '}{len(self.lines)}"
            name += f", lines {ranges(self.shown, len(self.shown))} of {most}"
        return ContextArtifact(name=name, path=self.path, content=self.content())

    def receipt(self) -> Shown:
        """What is recorded of the file."""
        text = self.content()
        lines = UNSET if self.is_whole else self.shown
        return Shown(
            self.path, self.how, self.reason, len(text.encode()), estimated_tokens(text), round(self.score, 3), lines
        )

    def _marks(self, shown: tuple[Lines, ...]) -> list[str]:
        """The mark before each part, and after the last; empty where nothing is missing."""
        if not shown:
            return [""]
        marks: list[str] = []
        before = 0
        for first, last in shown:
            marks.append(_mark(before + 1, first - 1))
            before = last
        rest = _mark(before + 1, len(self.lines))
        if not self._whole:
            rest = f"… lines from {before + 1} on not shown\n"
        ended = not self.lines or self.lines[-1].endswith("\n") or before < len(self.lines)
        return [*marks, rest if ended or not rest else "\n" + rest]


def _last(part: Lines) -> int:
    return part[1]


def _mark(first: int, last: int) -> str:
    if first > last:
        return ""
    return f"… lines {first}-{last} not shown\n" if first < last else f"… line {first} not shown\n"
