"""Branches of a flow, side by side: each begins the moment all it comes after are done.

Rules
1. A worker is an asyncio task. Whoever is done with a branch goes on with the next that is ready; another worker is
   made only for what is ready beyond that. So a chain is one task, and ten thousand branches are as many tasks as may
   work at once.
2. A branch that fails or parks stops only what comes after it. All settle before `run` returns.
3. After `Canceled` nothing begins any more; what is under way ends by itself.
4. Branches that were all recorded never wait for anything: every so often a worker lets the loop have a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Generic, TypeVar

from orchestra.core.errors import Canceled, Suspended
from orchestra.core.order import Order

T = TypeVar("T")
_TURN = 16  # so many branches, then a turn for others


class Branches(Generic[T]):
    """One set of branches, run once."""

    def __init__(
        self, begin: Callable[[str], Awaitable[T]], order: Order, *, limit: int, go_on: Callable[[T], bool]
    ) -> None:
        """`limit` is how many may run at once (0: any number)."""
        self._begin = begin
        self._order = order
        self._limit = limit
        self._go_on = go_on
        self._done: dict[str, T] = {}
        self._failed: dict[str, Exception] = {}
        self._parked: Suspended | None = None
        self._canceled: Canceled | None = None
        self._running = 0
        self._settled = 0

    async def run(self, names: Collection[str]) -> dict[str, T]:
        """What came of each, in the order of `names`. Raises Canceled, else the first failure, else Suspended."""
        async with asyncio.TaskGroup() as self._group:
            self._fill()
        if self._canceled is not None:
            raise self._canceled
        for name in names:
            if name in self._failed:
                raise self._failed[name]
        if self._parked is not None:
            raise self._parked
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
                return
            name = ready.popleft()
            self._fill()
            self._settled += 1
            if not self._settled % _TURN:
                await asyncio.sleep(0)

    async def _settle(self, name: str) -> None:
        try:
            result = self._done[name] = await self._begin(name)
            if self._go_on(result):
                self._order.done(name)
        except Suspended as parked:
            self._parked = self._parked or parked
        except Canceled as canceled:
            self._canceled = self._canceled or canceled
        except Exception as error:  # kept, and raised by `run` in a stable order
            self._failed[name] = error
