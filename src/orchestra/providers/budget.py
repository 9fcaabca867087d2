"""Budget: what a tree of runs may still spend. Before a call, the most it can cost is reserved.

Rules
1. spent + reserved for calls under way + the most the next call can cost never exceeds the cap, however many branches
   and child runs call at once: a run and all runs below it have one budget.
2. A call that does not fit waits for the calls under way, which mostly cost less than reserved. If none is, the run
   stops at the cap (exit 4) and continues after the cap is raised.
3. Calls of a model without a known price do not count against the cap; the user is informed when the run begins.
4. A request that a kill interrupted may have been paid: it counts at its most, in this and every later process.
"""

from __future__ import annotations

import asyncio

from orchestra.core.errors import BudgetReached


class Budget:
    """The money of a run and of all runs below it."""

    def __init__(self, cap: float | None, *, run_id: str, spent: float = 0.0, lost: float = 0.0) -> None:
        """`spent` and `lost` are amounts of earlier processes: for replies, and for requests that were interrupted.

        `run_id` is the run at the top of the tree.
        """
        self.cap = cap
        self.run_id = run_id
        self._spent = spent + lost
        self._lost = lost  # the part of it for requests whose price is not known
        self._aside: dict[str, float] = {}
        self._changed = asyncio.Event()

    async def set_aside(self, key: str, most: float) -> None:
        """Reserve this amount for a call; raises BudgetReached if not enough is left."""
        if self.cap is None:
            return
        while self._spent >= self.cap or self._spent + sum(self._aside.values()) + most > self.cap:
            if not self._aside:
                raise BudgetReached(self._reached(key, most))
            self._changed.clear()
            await self._changed.wait()
        self._aside[key] = most

    def settle(self, key: str, cost: float) -> None:
        """Replace the reserved amount of a finished call by its cost."""
        self._aside.pop(key, None)
        self._spent += cost
        self._changed.set()

    def cut_off(self, most: float) -> None:
        """Add the cost of requests that earlier processes made before they were killed (rule 4)."""
        self._spent += most
        self._lost += most

    def _reached(self, key: str, most: float) -> str:
        assert self.cap is not None
        next_call = f", and the next call ({key}) may cost up to ${most:.4f}" if most else ""
        enough = 2 * max(self.cap, self._spent + most)
        lost = f" (${self._lost:.4f} of it at most, for a call cut off by a kill)" if self._lost else ""
        return (
            f"run {self.run_id}: ${self._spent:.4f} of ${self.cap:.4f} spent{lost}{next_call}. "
            f"To go on: orchestra resume {self.run_id} --max-budget-usd {enough:.2g}"
        )
