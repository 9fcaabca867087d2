"""Canceling: how a drive learns that its run was canceled, and what is left to complete then.

Rules
1. A cancel is a message in the run's inbox like any other. The process that drives the run looks for it all the time.
2. A cancel of one run of a tree ends all runs of the tree.
3. A patch that was being applied is applied to its end, or reported: a canceled run leaves no half a patch (D-12).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from orchestra.core.context import Verdict
from orchestra.core.inbox import CANCEL, Message
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.core.store import Store

POLL_SECONDS = 0.1
_OF_A_PATCH = ("APPROVAL_GRANTED", "PATCH_PRODUCED", "PATCH_APPLIED", "PATCH_APPLY_FAILED")


class Driving:
    """What one drive shares with the child runs it drives."""

    def __init__(self, patient: bool, accept_drift: frozenset[str]) -> None:
        self.patient = patient
        self.accept_drift = accept_drift
        self.canceled = False
        self._why = ""

    def cancel(self, said: Message) -> None:
        """Somebody canceled a run of this tree: all of it ends (rule 2)."""
        self.canceled = True
        self._why = said.text or f"canceled by {said.by}"

    def verdict(self) -> Verdict:
        """How a canceled run ends."""
        return Verdict(status="canceled", result={"reason": self._why})


async def watch_for_cancel(store: Store, run: RunFolder, flow: asyncio.Future[Verdict], driving: Driving) -> None:
    """Cancel the flow as soon as a cancel lies in the run's inbox (rule 1)."""
    while True:
        if said := store.mail(run, CANCEL):
            driving.cancel(said)
            flow.cancel()
            return
        await asyncio.sleep(POLL_SECONDS)


def may_be_applying(events: Iterable[Event]) -> bool:
    """Whether a kill may have cut an apply short: a patch was granted, and nothing is recorded of it since (rule 3)."""
    newest: dict[str, str] = {}  # by scope: the last thing that happened to a patch there
    of_commands: set[str] = set()  # the keys of approvals that are about no patch
    for event in events:
        key = str(event.payload.get("key", ""))
        if event.type == "APPROVAL_REQUESTED" and event.payload.get("subject") == "command":
            of_commands.add(key)
        if event.type in _OF_A_PATCH and key not in of_commands:
            newest[key.rpartition("/")[0]] = event.type
    return "APPROVAL_GRANTED" in newest.values()
