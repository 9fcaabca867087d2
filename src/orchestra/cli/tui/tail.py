"""What is alive of running steps, as a fixed number of rows. Pure: no terminal, no clock of its own.

Text that is alive is indented. A terminal that is resized may keep a copy of a live row among the finished lines
(docs/design/0015): that copy is no second one of a finished line.
"""

from __future__ import annotations

import re

from msgspec import Struct
from wcwidth import wcwidth

from orchestra.core.cells import cut
from orchestra.core.text import clean

_KEPT = 2_000  # characters of a text that nothing ends
_COLOURS = ("ansicyan", "ansimagenta", "ansigreen", "ansiblue", "ansiyellow")
_ALIVE = "  "  # before each row of text
_SPACE = re.compile(r"\s+")

Fragments = list[tuple[str, str]]  # (style, text), as prompt_toolkit takes them


class Step(Struct):
    """A step that runs."""

    name: str
    since: float
    agent: str = ""
    arrived: int = 0  # characters of a model's text
    text: str = ""  # the end of what is not printed yet
    thinking: int = 0  # characters of a thought, which is folded


def colour_of(agent: str) -> str:
    """The colour of an agent: its own, and always the same."""
    known = {"main": 0, "worker": 1}
    return _COLOURS[known.get(agent, sum(map(ord, agent)) % len(_COLOURS))]


def rows_of(text: str, width: int, most: int) -> list[str]:
    """The last rows of a text that is wrapped to a width, in cells."""
    rows: list[str] = []
    for line in text.split("\n")[-most:]:
        row, used = "", 0
        for char in line:
            size = max(0, wcwidth(char))
            if used + size > width:
                rows.append(row)
                row, used = "", 0
            row, used = row + char, used + size
        rows.append(row)
    return rows[-most:]


class Tail:
    """The running steps of all runs, by run and key."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, str], Step] = {}
        self._newest: tuple[str, str] = ("", "")

    @property
    def names(self) -> list[str]:
        """The names of the running steps."""
        return [step.name for step in self._steps.values()]

    def begin(self, run: str, key: str, name: str, at: float) -> None:
        """A step began."""
        self._steps[run, key] = Step(name, at)
        self._newest = (run, key)

    def end(self, run: str, key: str) -> None:
        """A step ended."""
        self._steps.pop((run, key), None)

    def end_run(self, run: str) -> None:
        """Remove the rows of a run that has ended."""
        self._steps = {of: step for of, step in self._steps.items() if of[0] != run}

    def clear(self) -> None:
        """Remove all rows."""
        self._steps.clear()

    def more(
        self, run: str, key: str, at: float, *, agent: str = "", text: str = "", arrived: int = 0, thinking: int = 0
    ) -> None:
        """Add text to the row of a step whose text is not printed."""
        step = self._step(run, key, at)
        step.agent = agent or step.agent
        step.arrived += arrived
        step.thinking = thinking or step.thinking
        step.text = (step.text + text)[-_KEPT:]

    def restart(self, run: str, key: str) -> None:
        """The text of a step begins anew."""
        if (step := self._steps.get((run, key))) is not None:
            step.arrived, step.text, step.thinking = 0, "", 0

    def set(self, run: str, key: str, at: float, text: str) -> None:
        """What is alive of a step now."""
        self._step(run, key, at).text = text[-_KEPT:]

    def _step(self, run: str, key: str, at: float) -> Step:
        self._newest = (run, key)
        return self._steps.setdefault((run, key), Step(key, at))

    def rows(self, height: int, width: int, now: float) -> Fragments:
        """Exactly `height` rows of at most `width` cells each."""
        steps = list(self._steps.items())
        newest = self._steps.get(self._newest) or (steps[-1][1] if steps else None)
        out: list[tuple[str, str]] = []
        if len(steps) == 1 and newest is not None and height > 1:
            out = [_heading(newest, width, now)]
            text = clean(newest.text).replace("\t", "    ")
            room = max(1, width - len(_ALIVE))
            out += [(colour_of(newest.agent), _ALIVE + row) for row in rows_of(text, room, height - 1)]
        else:
            shown = steps if len(steps) <= height else steps[: height - 1]
            out = [_line(step, width, now) for _, step in shown]
            if len(shown) < len(steps):
                out.append(("ansibrightblack", f"… and {len(steps) - len(shown)} more"))
        out += [("", "")] * (height - len(out))
        fragments: Fragments = []
        for at, (style, row) in enumerate(out[:height]):
            fragments.append((style, row if at == height - 1 else f"{row}\n"))
        return fragments


def _heading(step: Step, width: int, now: float) -> tuple[str, str]:
    who = f"{step.agent}  " if step.agent else ""
    thought = f", thinking… {step.thinking} characters" if step.thinking else ""
    arrived = f", {step.arrived} characters" if step.arrived else ""
    text = clean(f"{who}{step.name}{arrived}{thought}, {now - step.since:.0f} s").replace("\n", " ")
    return "ansibrightblack", cut(text, width)


def _line(step: Step, width: int, now: float) -> tuple[str, str]:
    said = _SPACE.sub(" ", step.text[-2 * width :]).strip()
    head = f"{step.agent or ''} {step.name} {now - step.since:.0f} s  ".lstrip()
    text = clean(head + said[-max(10, width - len(head)) :]).replace("\n", " ")
    return colour_of(step.agent), cut(text, width)
