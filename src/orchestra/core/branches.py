"""Concurrent branches of a flow: each begins as soon as all branches it depends on are done.

Rules
1. A worker is an asyncio task. When its branch is done, it continues with the next one that is ready. More workers are
   made only if more branches are ready. So a chain is one task, and ten thousand branches need as many tasks as may
   work at once.
2. A branch that fails or parks stops only the branches that depend on it. `run` returns when all have ended.
3. After `Canceled` no branch begins; those that run end by themselves.
4. A replay of recorded branches never waits. So every 16 branches a worker gives other tasks a turn.
5. A branch that parked is begun again as soon as its answer is there, if other branches still run: nobody's answer
   waits for the slowest branch. It replays what it recorded, and goes on. While it is parked it holds no worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Generic, TypeVar

from orchestra.core.errors import Canceled, DurabilityError, Suspended
from orchestra.core.order import Order

T = TypeVar("T")
_TURN = 16  # branches between two turns for other tasks (rule 4)
POLL_SECONDS = 0.1


class Branches(Generic[T]):
    """One set of branches, run once."""

    def __init__(
        self, begin: Callable[[str], Awaitable[T]], order: Order, *, limit: int, go_on: Callable[[T], bool]
    ) -> None:
        """`limit` is how many may run at once (0: any number); DurabilityError if it is below 0: none would run."""
        if limit < 0:
            raise DurabilityError(f"the limit of branches is {limit}: give 1 or more, or 0 for any number at once")
        self._begin = begin
        self._order = order
        self._limit = limit
        self._go_on = go_on
        self._done: dict[str, T] = {}
        self._failed: dict[str, Exception] = {}
        self._parked: dict[str, Suspended] = {}
        self._watch: asyncio.Task[None] | None = None  # looks for answers to parked branches (rule 5)
        self._canceled: Canceled | None = None
        self._running = 0
        self._settled = 0

    async def run(self, names: Collection[str]) -> dict[str, T]:
        """Run all and return their results, in the order of `names`.

        Raises Canceled, else a failure, else Suspended.
        """
        async with asyncio.TaskGroup() as self._group:
            self._fill()
        if self._canceled is not None:
            raise self._canceled
        for name in names:
            if name in self._failed:
                raise self._failed[name]
        if self._parked:
            parked = list(self._parked.values())
            raise Suspended(parked[0].why, lambda: any(one.came() for one in parked))
        return {name: self._done[name] for name in names if name in self._done}  # the same order on every replay

    def _fill(self) -> None:
        ready = self._order.ready
        while ready and (not self._limit or self._running < self._limit):
            self._running += 1
            self._group.create_task(self._work(ready.popleft()))

    async def _work(self, name: str) -> None:
        ready = self._order.ready
        while True:
            await self._settle(name)
            if self._canceled is not None or not ready:
                self._running -= 1
                self._watch_parked()
                return
            name = ready.popleft()
            self._fill()
            self._watch_parked()
            self._settled += 1
            if not self._settled % _TURN:
                await asyncio.sleep(0)

    async def _settle(self, name: str) -> None:
        try:
            result = self._done[name] = await self._begin(name)
            if self._go_on(result):
                self._order.done(name)
        except Suspended as parked:
            self._parked[name] = parked
        except Canceled as canceled:
            self._canceled = self._canceled or canceled
        except Exception as error:  # kept, and raised by `run` in a stable order
            self._failed[name] = error

    def _watch_parked(self) -> None:
        """Look for answers to parked branches while others run, and only then (rule 5)."""
        wanted = bool(self._parked and self._running)
        if wanted and self._watch is None:
            self._watch = self._group.create_task(self._begin_answered())
        elif not wanted and self._watch is not None:
            self._watch.cancel()
            self._watch = None

    async def _begin_answered(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            for name in [name for name, parked in self._parked.items() if parked.came()]:
                del self._parked[name]
                self._order.ready.append(name)
            if self._canceled is None:  # rule 3
                self._fill()
