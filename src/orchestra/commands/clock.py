"""The clock of a run: how much of its total time is used, and how much is left (S2-50).

Only the run's own work counts. Time in which a person thinks, or in which no process drives the run, does not.

Rules
1. Time counts while a command runs, a model is called, or a retry waits. Overlapping work counts once.
2. Time used by earlier processes is computed from the journal: each outcome records when it came and how long it took.
3. The smallest limit wins: the task's, the call's or the run's total.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from orchestra.core.context import Guarded, Handler, Step
from orchestra.core.effects import Effect
from orchestra.core.errors import StepFailed
from orchestra.core.reading import StepEvent, duration_of
from orchestra.core.records import Event
from orchestra.core.work import TOTAL_TIME

_FOREVER = 1e9  # seconds


class Timekeeper:
    """The clock of a run and of all runs below it."""

    def __init__(
        self, total_sec: float, events: Iterable[Event] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._total = total_sec
        self._used = used(events)
        self._clock = clock
        self._at = clock()
        self._working = 0
        self._until = 0.0  # a retry waits until then

    @property
    def left(self) -> float:
        """Seconds of the run's total time that are left; 0 when it is over."""
        self._advance()
        return max(0.0, self._total - self._used)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the time inside this block against the run's total."""
        self._advance()
        self._working += 1
        try:
            yield
        finally:
            self._advance()
            self._working -= 1

    def waits(self, seconds: float) -> None:
        """Count the next `seconds`, in which a retry waits, against the run's total."""
        self._advance()
        self._until = max(self._until, self._at + seconds)

    def _advance(self) -> None:
        now = self._clock()
        self._used += now - self._at if self._working else max(0.0, min(now, self._until) - self._at)
        self._at = now


class InTime:
    """Wraps a handler: its time counts against the run's total, and it is stopped when none is left."""

    def __init__(self, handler: Handler, keeper: Timekeeper) -> None:
        self._handler = handler
        self._keeper = keeper

    async def guard(self, effect: Effect[Any], key: str, *, redo: bool) -> None:
        if isinstance(self._handler, Guarded):
            await self._handler.guard(effect, key, redo=redo)

    async def __call__(self, effect: Effect[Any], step: Step) -> Any:
        left = self._keeper.left
        try:
            with self._keeper.working():
                async with asyncio.timeout(left if left < _FOREVER else None):
                    return await self._handler(effect, step)
        except TimeoutError:
            raise StepFailed(step.key, TOTAL_TIME, "the run's total time was over", retriable=False) from None


def used(events: Iterable[Event]) -> float:
    """Seconds that recorded steps and waits took, counted once where they overlap (rule 2)."""
    spans: list[tuple[float, float]] = []
    for event in events:
        if milliseconds := duration_of(event):
            end = _when(event.ts)
            spans.append((end - milliseconds / 1000, end))
        if event.type == "PHASE_FAILED" and (retry_at := StepEvent.of(event).retryAt):
            spans.append((_when(event.ts), _when(retry_at)))
    total = 0.0
    reached = float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _when(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
