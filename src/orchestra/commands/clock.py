"""The clock of a tree of runs: how much of its total time is used, and how much is left (S2-50).

Only the tree's own work counts. Time in which a person thinks, or in which no process drives the tree, does not.

Rules
1. Time counts while a command runs, a model is called, a step of the workflow's own is done, or a retry waits.
   Overlapping work counts once.
2. Time used by earlier processes is computed from the journals (core/worked.py).
3. A step that was cut off has no outcome. So while something works, the process that drives the root leaves a reading
   beside the root's journal (core/clockfile.py) ten times a second, and when it stops. So a kill loses at most a tenth
   of a second; more only if a function of a person's own blocked the event loop. A timer leaves the readings, not the
   steps: many short steps cost what they cost without it.
4. The smallest limit wins: the task's, the call's or the tree's total.
5. A limit that was asked for (`--max-time`, budget.max_sec) stops the run, which goes on when it is raised: exit 4. The
   default of a task graph (policies.max_total_duration_sec) fails the steps that it meets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from orchestra.core.clockfile import ClockReading
from orchestra.core.context import Handler, Step
from orchestra.core.effects import Effect
from orchestra.core.errors import OrchestraError, StepFailed, TimeReached
from orchestra.core.guarding import is_guarded
from orchestra.core.records import Event, now
from orchestra.core.text import duration_text
from orchestra.core.work import TOTAL_TIME
from orchestra.core.worked import seconds_worked

_FOREVER = 1e9  # seconds
_EVERY_S = 0.1  # from one reading to the next
Keep = Callable[[ClockReading], None]


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
        found: ClockReading | None = None,
        keep: Keep | None = None,
    ) -> None:
        """`run_id` is the run at the top of the tree; `asked`: a person or the configuration set the limit (rule 5).

        `found` is the reading that an earlier process left, `keep` leaves one for later processes (rule 3).
        """
        self.asked = asked
        self._run_id = run_id
        self._total = total_sec
        self._used = self._kept = seconds_worked(events, found)
        self._clock = clock
        self._at = clock()
        self._working = 0
        self._keep = keep
        self._timer: asyncio.TimerHandle | None = None

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
        """The error of a step that there is no time left for (rule 5)."""
        if not self.asked:
            return StepFailed(key, TOTAL_TIME, "the run's total time was over", retriable=False)
        enough = 2 * self._total
        while 0 < enough < 1.5 * self._used:  # a limit may be lower than what was used before it was set
            enough *= 2
        return TimeReached(
            f"run {self._run_id}: its time is used up ({duration_text(self._total)}; step {key} was not finished). "
            f"To go on: orchestra resume {self._run_id} --max-time {duration_text(enough)}"
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
        self._set_timer()
        try:
            yield
        finally:
            self._advance()
            self._working -= 1

    def stop(self, *, keep: bool = True) -> None:
        """Write one last reading, because work that was cut off has no outcome; then write no more."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if keep:
            self._keep_reading()
        self._keep = None

    def _set_timer(self) -> None:
        if self._keep and not self._timer:
            self._timer = asyncio.get_running_loop().call_later(_EVERY_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._keep_reading()
        if self._working:
            self._set_timer()

    def _keep_reading(self) -> None:
        if self._keep and self.worked > self._kept:
            self._kept = self._used
            self._keep(ClockReading(round(1000 * self._used), now()))

    def _advance(self) -> None:
        moment = self._clock()
        if self._working:
            self._used += moment - self._at
        self._at = moment


class InTime:
    """Wraps a handler: its time counts against the run's total, and it is stopped when none is left."""

    def __init__(self, handler: Handler, keeper: Timekeeper) -> None:
        self._handler = handler
        self._keeper = keeper
        self._guard = handler.guard if is_guarded(handler) else None

    async def pause(self, seconds: float, key: str) -> None:
        await self._keeper.pause(seconds, key)

    async def guard(self, effect: Effect[Any], key: str, *, redo: bool) -> Mapping[str, Any] | None:
        if self._keeper.asked and not self._keeper.left:
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
