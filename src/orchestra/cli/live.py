"""The live lines below the log: one for each step that runs now. For terminals only.

Rules
1. The lines are drawn below the last line of the log, and removed before the next one is written.
2. There are never more lines than the terminal shows. Each is cut to the terminal's width, measured in cells.
3. They are drawn at most ten times a second, however fast tokens and output come.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct
from rich.cells import cell_len, set_cell_size

from orchestra.core.accounts import Spending, money
from orchestra.core.faces import Output, Token
from orchestra.core.reading import StepEvent
from orchestra.core.records import FINAL, Event
from orchestra.core.text import clean
from orchestra.runs.find import Member

_TICK_S = 0.25
_SOON_S = 0.1
_LINES = 12
_TAIL = 60  # characters of a model's text


class _Step(Struct):
    """A step that runs."""

    name: str
    since: float
    attempt: int = 1
    said: str = ""
    arrived: int = 0  # characters of a model's text
    tail: str = ""  # the end of what may be shown of it


class Below(Protocol):
    """What a face shows below its log while runs go on."""

    def event(self, event: Event, headline: str, /, *, quiet: bool) -> None: ...

    def begin(self, members: Iterable[Member], /) -> None: ...

    def token(self, token: Token, shown: str = "", /, *, quiet: bool) -> None: ...

    def output(self, output: Output, /, *, quiet: bool) -> None: ...

    def clear(self) -> None: ...

    def pause(self) -> None: ...

    def stop(self) -> None: ...


class Live:
    """The live lines."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, str], _Step] = {}  # by run and key
        self._drawn = 0
        self._at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._quiet = False  # a prompt is open, and the person is typing
        self._spent: dict[str, Spending] = {}  # by run

    def event(self, event: Event, headline: str, *, quiet: bool) -> None:
        """Update the lines for an event: a step began or ended. `headline` is what its workflow says of it, if any."""
        self._quiet = quiet
        self._spent.setdefault(event.runId, Spending()).add(event)
        step = StepEvent.of(event)
        key = step.key
        if event.type == "PHASE_STARTED":
            name = step.task or headline or f"{event.phase}: {key}"
            self._steps[event.runId, key] = _Step(name, time.monotonic(), step.attempt)
        else:
            self._steps.pop((event.runId, key), None)
        if event.type in FINAL:  # only steps of this run: other runs of the tree may go on
            self._steps = {of: shown for of, shown in self._steps.items() if of[0] != event.runId}
        self._draw()

    def begin(self, members: Iterable[Member]) -> None:
        """Count what the runs of a tree had spent before their events were shown here; only for the first tree."""
        if not self._spent:
            self._spent = {one.folder.id: one.summary.spent for one in members if not one.kept}

    def token(self, token: Token, shown: str = "", *, quiet: bool) -> None:
        """Show more text of a model: how much has come, and the end of `shown`, the part that may be shown."""
        step = self._steps.setdefault((token.run_id, token.key), _Step(token.key, time.monotonic()))
        if token.restart:
            step.arrived, step.tail = 0, ""
        step.arrived += len(token.text)
        step.tail = (step.tail + shown)[-_TAIL:]
        step.said = f"{step.arrived} characters  {' '.join(step.tail.split())}"
        self._soon(quiet)

    def output(self, output: Output, *, quiet: bool) -> None:
        """Show a line that a command printed."""
        step = self._steps.get((output.run_id, output.key))
        if step is not None and output.line.strip():
            step.said = output.line
            self._soon(quiet)

    def clear(self) -> None:
        """Remove the live lines (rule 1)."""
        if self._drawn:
            sys.stderr.write("\r\x1b[K" + "\x1b[1A\x1b[K" * (self._drawn - 1))
            sys.stderr.flush()
            self._drawn = 0

    def pause(self) -> None:
        """Show no lines until the next event, because a prompt is open: it stays the last line."""
        self._quiet = True
        self._draw()

    def stop(self) -> None:
        """Remove the live lines for good, because the drive has ended."""
        self._steps.clear()
        self._draw()

    @property
    def _cost(self) -> str:
        """What the tree has cost so far, for the first line; empty before its first call."""
        spent = list(self._spent.values())
        if not any(one.calls for one in spent):
            return ""
        return f", {money(sum(one.usd for one in spent), sum(one.unpriced for one in spent))} so far"

    def _soon(self, quiet: bool) -> None:
        self._quiet = quiet
        if time.monotonic() - self._at >= _SOON_S:
            self._draw()

    def _draw(self) -> None:
        self.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._quiet or not self._steps:
            return
        self._at = time.monotonic()
        size = shutil.get_terminal_size((100, 24))
        shown = list(self._steps.values())[: max(1, min(_LINES, size.lines - 2))]
        first, width = self._cost, size.columns - 1
        lines = [_line(step, self._at, width, "" if at else first) for at, step in enumerate(shown)]
        if len(self._steps) > len(shown):
            lines[-1] = f"  … and {len(self._steps) - len(shown) + 1} more"
        sys.stderr.write("\n".join(lines))
        sys.stderr.flush()
        self._drawn = len(lines)
        try:
            self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._draw)
        except RuntimeError:
            pass  # the event loop has ended, so nothing will change


def _line(step: _Step, now: float, width: int, cost: str) -> str:
    attempt = f" (attempt {step.attempt})" if step.attempt > 1 else ""
    text = f"  … {step.name}{attempt} {now - step.since:.0f} s{cost}"
    if step.said:
        text += f"  {step.said}"
    text = clean(text).replace("\n", " ")
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"
