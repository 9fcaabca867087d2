"""The status row: run, workflow, state, step, context, tokens, cost of the cap, time, what waits. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from orchestra.core.accounts import Spending, money
from orchestra.core.cells import cut
from orchestra.core.reading import outcome_of
from orchestra.core.records import Event
from orchestra.core.text import clean


class Status(Struct):
    """What the row tells of the run that is shown."""

    run: str = ""
    workflow: str = ""
    state: str = ""
    since: float = 0.0
    cap: float | None = None  # dollars
    step: int = 0  # of `most`, if the workflow tells how far it is
    most: int = 0
    tokens: int = 0
    context: int = 0  # tokens of the newest request
    waits: int = 0  # in the whole project
    queued: int = 0  # messages that were typed meanwhile
    spent: dict[str, Spending] = {}

    def begin(self, run: str, workflow: str, cap: float | None) -> None:
        """Tell of another run."""
        self.run, self.workflow, self.cap = run, workflow, cap
        self.state, self.step, self.most, self.tokens, self.context, self.spent = "", 0, 0, 0, 0, {}

    def event(self, event: Event, pace: tuple[int, int] | None) -> None:
        """Count an event. `pace`: the step and the most steps, if the workflow tells them."""
        self.step, self.most = pace or (self.step, self.most)
        self.spent.setdefault(event.runId, Spending()).add(event)
        if event.type == "PHASE_STARTED":
            return
        outcome = outcome_of(event)
        self.tokens += outcome.tokens
        self.context = (outcome.usage or {}).get("inputTokens", self.context)

    def row(self, width: int, now: float) -> str:
        """The row, at most `width` cells."""
        return cut(" " + " · ".join(self._parts(now)), width)

    def _parts(self, now: float) -> Iterator[str]:
        if not self.run:
            yield from (f"{self.waits} waiting: /inbox",) if self.waits else ()
            yield "/help"
            return
        yield f"run {self.run}"
        yield self.workflow
        yield clean(self.state or "starting").replace("\n", " ")
        if self.most:
            yield f"step {self.step}/{self.most}"
        if self.context:
            yield f"context {self.context:,}"
        if self.tokens:
            yield f"{self.tokens:,} tok"
        if any(one.calls for one in self.spent.values()):
            usd = money(sum(one.usd for one in self.spent.values()), sum(one.unpriced for one in self.spent.values()))
            yield usd + (f" of ${self.cap:g}" if self.cap else "")
        if self.since:
            yield f"{now - self.since:.0f} s"
        if self.waits:
            yield f"{self.waits} waiting"
        if self.queued:
            yield f"{self.queued} to send"
