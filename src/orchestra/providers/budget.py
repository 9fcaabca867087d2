"""Budget: what a run may still spend. The most a call can cost is set aside before it is made.

Rules
1. spent + set aside for calls under way + the most the next one can cost never passes the cap, however many branches
   call at once.
2. A call that does not fit waits for those under way, which mostly cost less than their most; only if none is, the run
   stops at the cap (exit 4) and goes on after a raise.
3. A price nobody knows holds nothing: the person was told so when the run began.
4. A request that a kill cut off may have been paid: it counts at its most, in this life and in every later one.
"""

from __future__ import annotations

import asyncio

from orchestra.core.errors import BudgetReached


class Budget:
    """The money of one run."""

    def __init__(self, cap: float | None, *, spent: float, run_id: str, lost: float = 0.0) -> None:
        """`spent` and `lost` are of earlier lives: for replies, and for requests that were cut off."""
        self.cap = cap
        self._spent = spent + lost
        self._lost = lost  # of it, for requests whose price nobody learnt
        self._run_id = run_id
        self._aside: dict[str, float] = {}
        self._changed = asyncio.Event()

    async def set_aside(self, key: str, most: float) -> None:
        """Keep this much for a call; raises BudgetReached if there is not enough left."""
        if self.cap is None:
            return
        while self._spent >= self.cap or self._spent + sum(self._aside.values()) + most > self.cap:
            if not self._aside:
                raise BudgetReached(self._reached(key, most))
            self._changed.clear()
            await self._changed.wait()
        self._aside[key] = most

    def settle(self, key: str, cost: float) -> None:
        """The call is over, at this price."""
        self._aside.pop(key, None)
        self._spent += cost
        self._changed.set()

    def cut_off(self, most: float) -> None:
        """Earlier processes made this call and were killed before they knew the price (rule 4)."""
        self._spent += most
        self._lost += most

    def _reached(self, key: str, most: float) -> str:
        assert self.cap is not None
        next_call = f", and the next call ({key}) may cost up to ${most:.4f}" if most else ""
        enough = 2 * max(self.cap, self._spent + most)
        lost = f" (${self._lost:.4f} of it at most, for a call cut off by a kill)" if self._lost else ""
        return (
            f"run {self._run_id}: ${self._spent:.4f} of ${self.cap:.4f} spent{lost}{next_call}. "
            f"To go on: orchestra resume {self._run_id} --max-budget-usd {enough:.2g}"
        )
