"""Canceling: how the process that drives a run notices a cancel, and what must still be completed.

Rules
1. A cancel is a message in the run's inbox. The process that drives the run waits for it (core/arrivals.py).
2. A cancel of one run of a tree ends all runs of the tree.
3. A patch that is being written is written to its end, or reported: a canceled run leaves no half a patch (D-12).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from orchestra.core.arrivals import Arrivals
from orchestra.core.context import Verdict
from orchestra.core.errors import Suspended
from orchestra.core.inbox import CANCEL, Message
from orchestra.core.records import Event, OnAsk
from orchestra.core.run import RunFolder
from orchestra.core.store import Store

_PATIENCE_S = 0.1  # most runs and child runs that are driven are over, or park, before
_OF_A_PATCH = ("APPROVAL_GRANTED", "PATCH_PRODUCED", "PATCH_APPLIED", "PATCH_APPLY_FAILED")


class Driving:
    """State that one drive shares with the child runs it drives."""

    def __init__(self, patient: bool, accept_drift: frozenset[str], on_ask: OnAsk = "park") -> None:
        self.patient = patient
        self.accept_drift = accept_drift
        self.on_ask: OnAsk = on_ask
        self.parked: dict[str, Suspended] = {}  # by run: why its flow parked last
        self.canceled = False
        self.arrivals = Arrivals()
        self._why = ""

    def cancel(self, said: Message) -> None:
        """Record that a run of this tree was canceled: all runs of it end (rule 2)."""
        self.canceled = True
        self._why = said.text or f"canceled by {said.by}"

    def verdict(self) -> Verdict:
        """The verdict of a canceled run."""
        return Verdict(status="canceled", result={"reason": self._why})


@contextmanager
def watched_for_cancel(store: Store, run: RunFolder, flow: asyncio.Future[Verdict], driving: Driving) -> Iterator[None]:
    """Cancel the flow as soon as the run's inbox has a cancel (rule 1), while the block lasts.

    The caller has looked before, unless the run is new. So a run that is over in a moment has no watcher.
    """
    watches: list[asyncio.Task[None]] = []

    async def watch() -> None:
        driving.cancel(await driving.arrivals.first(run.inbox, lambda: store.mail(run, CANCEL)))
        flow.cancel()

    timer = asyncio.get_running_loop().call_later(_PATIENCE_S, lambda: watches.append(asyncio.create_task(watch())))
    try:
        yield
    finally:
        timer.cancel()
        for task in watches:
            task.cancel()


def may_be_applying(events: Iterable[Event]) -> bool:
    """Whether a kill may have cut an apply short: a patch was granted, but its end is not recorded (rule 3)."""
    newest: dict[str, str] = {}  # by scope: the last event of a patch
    of_commands: set[str] = set()  # the keys of approvals that are about no patch
    for event in events:
        key = str(event.payload.get("key", ""))
        if event.type == "APPROVAL_REQUESTED" and event.payload.get("subject") == "command":
            of_commands.add(key)
        if event.type in _OF_A_PATCH and key not in of_commands:
            newest[key.rpartition("/")[0]] = event.type
    return "APPROVAL_GRANTED" in newest.values()
