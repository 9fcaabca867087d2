"""Budget: what a tree of runs may still spend. Before a call, the most it can cost is reserved.

Rules
1. spent + reserved for calls under way + the most the next call can cost never exceeds the cap, however many branches
   and child runs call at once: a run and all runs below it have one budget.
2. A call that does not fit waits for the calls under way, which mostly cost less than reserved. If none is, the run
   stops at the cap (exit 4) and continues after the cap is raised.
3. Calls of a model without a known price do not count against the cap; the user is informed when the run begins.
4. A request that a kill interrupted may have been paid: it counts at its most, in this and every later process. It
   counts from the beginning, before any branch calls: the branch that makes it again may come later than others, or
   never.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from orchestra.core.accounts import Account, children, of_calls, of_ended
from orchestra.core.calls import calls_in
from orchestra.core.errors import BudgetReached
from orchestra.core.records import FINAL, Event
from orchestra.core.run import RunFolder


class Budget:
    """The money of a run and of all runs below it."""

    def __init__(
        self,
        cap: float | None,
        *,
        run_id: str,
        spent: float = 0.0,
        lost: float = 0.0,
        interrupted: Mapping[str, float] | None = None,
    ) -> None:
        """`spent` and `lost` are amounts of earlier processes: for replies, and for requests that were interrupted.

        `interrupted` has the amounts of those calls, by `named`, that have no reply yet and will be made again.
        `run_id` is the run at the top of the tree.
        """
        self.cap = cap
        self.run_id = run_id
        self._interrupted = dict(interrupted or {})
        self._lost = lost + sum(self._interrupted.values())  # for requests whose price is not known
        self._spent = spent + self._lost
        self._aside: dict[str, float] = {}
        self._changed = asyncio.Event()

    def named(self, run_id: str, key: str) -> str:
        """A step by a name of its own in the whole tree: keys are a run's own."""
        return _named(run_id, key, self.run_id)

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

    def cut_off(self, key: str, most: float) -> None:
        """Count the requests for a call that earlier processes made before they were killed (rule 4)."""
        most -= self._interrupted.pop(key, 0.0)  # counted from the beginning
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


def budget_of(cap: float | None, run_id: str, journals: Iterable[tuple[RunFolder, Sequence[Event]]]) -> Budget:
    """The budget of a tree, from the journals of its root `run_id` and of its open child runs."""
    sums, interrupted = Account(), dict[str, float]()
    for run, events in journals:
        calls = calls_in(run, events)
        ended = bool(events) and events[-1].type in FINAL
        again = [call for call in calls if not ended and call.status == "open" and not call.kept]
        interrupted |= {_named(run.id, call.key, run_id): (call.lostUsd or 0.0) + call.mostUsd for call in again}
        sums = sum((told.account for told in children(events)), sums)
        sums += of_ended(calls) if ended else of_calls(call for call in calls if call.status != "open")
    return Budget(cap, run_id=run_id, spent=sums.costUsd, lost=sums.lostUsd, interrupted=interrupted)


def _named(run_id: str, key: str, root: str) -> str:
    return key if run_id == root else f"{key} of {run_id}"
