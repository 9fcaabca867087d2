"""The clock of a tree of runs: how much of its total time is used, and how much is left (S2-50).

Only the tree's own work counts. Time in which a person thinks, or in which no process drives the tree, does not.

Rules
1. Time counts while a command runs, a model is called, a step of the workflow's own is done, or a retry waits.
   Overlapping work counts once.
2. Time used by earlier processes is computed from the journal: each outcome records when it came and how long it took.
   When a child run ends, its step's outcome also has the reading of the clock (`treeMs`). So a finished child need not
   be read again: only what came after the newest reading is added to it.
3. The smallest limit wins: the task's, the call's or the tree's total.
4. A limit that was asked for (`--max-time`, budget.max_sec) stops the run, which goes on when it is raised: exit 4. The
   default of a task graph (policies.max_total_duration_sec) fails the steps that it meets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from orchestra.core.accounts import used
from orchestra.core.context import Handler, Step
from orchestra.core.effects import Effect
from orchestra.core.errors import OrchestraError, StepFailed, TimeReached
from orchestra.core.guarding import is_guarded
from orchestra.core.records import Event
from orchestra.core.text import duration_text
from orchestra.core.work import TOTAL_TIME

_FOREVER = 1e9  # seconds


class Timekeeper:
    """The clock of a run and of all runs below it."""

    def __init__(
        self,
        total_sec: float,
        events: Iterable[Event] = (),
        clock: Callable[[], float] = time.monotonic,
        *,
        run_id: str = "",
        asked: bool = False,
    ) -> None:
        """`run_id` is the run at the top of the tree; `asked`: a person or the configuration set the limit (rule 4)."""
        self.asked = asked
        self._run_id = run_id
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

    @property
    def worked(self) -> float:
        """Seconds that the tree has worked so far."""
        self._advance()
        return self._used

    def over(self, key: str) -> OrchestraError:
        """The error of a step that there is no time left for (rule 4)."""
        if not self.asked:
            return StepFailed(key, TOTAL_TIME, "the run's total time was over", retriable=False)
        return TimeReached(
            f"run {self._run_id}: its time is used up ({duration_text(self._total)}; step {key} was not finished). "
            f"To go on: orchestra resume {self._run_id} --max-time {duration_text(2 * self._total)}"
        )

    async def pause(self, seconds: float, key: str) -> None:
        """Wait for a retry; its time counts. TimeReached if the time that was asked for does not last so long."""
        left = self.left if self.asked else seconds
        with self.working():
            await asyncio.sleep(min(seconds, left))
        if seconds > left:
            raise self.over(key)

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
        self._guard = handler.guard if is_guarded(handler) else None

    async def pause(self, seconds: float, key: str) -> None:
        await self._keeper.pause(seconds, key)

    async def guard(self, effect: Effect[Any], key: str, *, redo: bool) -> Mapping[str, Any] | None:
        if self._keeper.asked and self._keeper.left <= 0:
            raise self._keeper.over(key)  # before its intent is written: the step was never begun
        return await self._guard(effect, key, redo=redo) if self._guard else None

    async def __call__(self, effect: Effect[Any], step: Step) -> Any:
        left = self._keeper.left
        limit = asyncio.timeout(left if left < _FOREVER else None)
        try:
            with self._keeper.working():
                async with limit:
                    return await self._handler(effect, step)
        except TimeoutError:
            if not limit.expired():
                raise  # the handler's own
            raise self._keeper.over(step.key) from None
