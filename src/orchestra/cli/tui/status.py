"""The status row: run, workflow, state, step, context, tokens, cost of the cap, time, what waits. Pure.

Rules
1. A run is named by its number, as everywhere a person types one: its id alone would fill the row.
2. What does not fit is left out, the least important part first. What waits, the state and the cost stay longest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from rich.cells import cell_len

from orchestra.core.accounts import Spending, money
from orchestra.core.cells import cut
from orchestra.core.reading import effect_of
from orchestra.core.records import Event
from orchestra.core.text import clean
from orchestra.core.work import ModelCall

_BETWEEN = " · "


class Status(Struct):
    """The status row: what the shown run is doing, its steps and its cost."""

    run: str = ""  # as a person types it
    workflow: str = ""
    state: str = ""
    since: float = 0.0
    cap: float | None = None  # dollars
    step: int = 0  # of `most`, if the workflow tells how far it is
    most: int = 0
    waits: int = 0  # in the whole project
    stopped: int = 0  # runs of the project that no process drives, and that wait for nobody
    queued: int = 0  # messages that were typed meanwhile
    spent: dict[str, Spending] = {}  # by run
    spoke: str = ""  # the run whose call was the newest
    window: int = 0  # the most tokens of context that the model of the newest call takes; 0: not known
    past: str = ""  # what the run before took

    def begin(self, run: str, workflow: str) -> None:
        """Tell of another run."""
        self.run, self.workflow, self.cap = run, workflow, None
        self.state, self.step, self.most, self.spent, self.spoke, self.window = "", 0, 0, {}, "", 0

    def end(self, now: float) -> None:
        """Tell of no run; the row has what the last one took."""
        if self.run:
            took = (*self._used(), (7, f"{now - self.since:.0f} s")) if self.since else self._used()
            self.past = _BETWEEN.join([self.run, *(text for _, text in took)])
        self.run = ""

    def before(self, spent: Mapping[str, Spending]) -> None:
        """Add what runs had spent before they were shown."""
        self.spent.update(spent)
        self.spoke = next((run for run, one in reversed(list(spent.items())) if one.context), self.spoke)

    def paced(self, pace: tuple[int, int] | None) -> None:
        """Tell how far the run is: the step and the most steps, if the workflow tells them."""
        self.step, self.most = pace or (self.step, self.most)

    def event(self, event: Event) -> None:
        """Count an event."""
        self.spent.setdefault(event.runId, Spending()).add(event)
        if event.type != "PHASE_STARTED" and effect_of(event) == ModelCall.__name__:
            self.spoke = event.runId

    def row(self, width: int, now: float) -> str:
        """The row, at most `width` cells (rule 2)."""
        parts = list(self._parts(now)) if self.run else list(self._idle())
        while len(parts) > 1 and cell_len(_joined(parts)) > width:
            parts.remove(max(parts, key=lambda part: part[0]))
        return cut(_joined(parts), width)

    def _idle(self) -> Iterator[tuple[int, str]]:
        if self.waits:
            yield 0, f"{self.waits} waiting: /inbox"
        if self.stopped:
            yield 1, f"{self.stopped} stopped: /resume"
        yield 2, "/help"
        if self.queued:
            yield 3, f"{self.queued} to send"
        if self.past:
            yield 4, self.past

    def _used(self) -> Iterator[tuple[int, str]]:
        """The tokens and the cost of the run."""
        spent = self.spent.values()
        if tokens := sum(one.tokens for one in spent):
            yield 8, f"{tokens:,} tok"
        if any(one.calls for one in spent):
            usd, unpriced = sum(one.usd for one in spent), sum(one.unpriced for one in spent)
            yield 2 if usd or unpriced else 9, money(usd, unpriced) + (f" of ${self.cap:g}" if self.cap else "")

    def _parts(self, now: float) -> Iterator[tuple[int, str]]:
        """The parts of the row in order, each with its place among those that are left out last."""
        seen = self.spent.get(self.spoke)
        yield 3, f"run {self.run}"
        yield 6, self.workflow
        yield 0, clean(self.state or "starting").replace("\n", " ")
        if self.most:
            yield 4, f"step {self.step}/{self.most}"
        if seen and seen.context:
            yield 9, f"context {seen.context:,}" + (f" of {self.window:,}" if self.window else "")
        yield from self._used()
        if self.since:
            yield 7, f"{now - self.since:.0f} s"
        if self.waits:
            yield 1, f"{self.waits} waiting"
        if self.queued:
            yield 5, f"{self.queued} to send"


def _joined(parts: list[tuple[int, str]]) -> str:
    return " " + _BETWEEN.join(text for _, text in parts)
