"""The commands that a person granted in a run, read from its journal.

A grant is of exactly one command, with its words, its network and all stages of a pipe (`RunCommand.grant`).
"""

from __future__ import annotations

from orchestra.core.command import RunCommand
from orchestra.core.ledger import Ledger
from orchestra.core.reading import Request, StepEvent, effect_of, outcome_of


class Grants:
    """The commands that a person granted in this run, read from its journal as it grows."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._read = 0
        self._asked: dict[str, Request] = {}  # requests about commands, by approval id
        self._granted: set[str] = set()

    def __call__(self, command: RunCommand) -> bool:
        """Whether a person granted this command."""
        events = self._ledger.events
        for event in events[self._read :]:
            if event.type == "APPROVAL_REQUESTED" and (request := Request.of(event)).granted_commands:
                self._asked[request.approvalId] = request
            elif event.type == "APPROVAL_GRANTED" and effect_of(event) == "Approve":
                asked = self._asked.get(StepEvent.of(event).approvalId)
                if asked and asked.digest and outcome_of(event).digest == asked.digest:  # D-11
                    self._granted.update(asked.granted_commands)
        self._read = len(events)
        return command.grant() in self._granted
