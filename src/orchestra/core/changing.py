"""What a person changes of a run's job while the run goes on: a limit, a mode, a check. Recorded like all else.

Rules
1. A change is kept beside the run's messages, sealed (core/inbox.py), and replaces an earlier one. The next event that
   the run records has it as `changed`: from there on it is in the journal, and nowhere else is looked.
2. A flow gets the changes of the events that it has come to. So a replay decides as the run did when it was live.
3. A change is whole: it repeats what earlier ones changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from orchestra.core.records import Event

CHANGES = "changes"  # the name of the kept record
_CHANGED = "changed"  # the field of an event's payload


class JobChange(Struct, frozen=True):
    """A person's change of a run's job: its new values by the names of the job's fields."""

    values: dict[str, Any]
    by: str
    at: str
    seal: str = ""


class Changing:
    """The changes of a run that is driven: those its flow has come to, and the one that is still to be recorded."""

    def __init__(self, kept: JobChange | None, events: Iterable[Event]) -> None:
        known = {said.get("at") for event in events if (said := _said(event))}
        self._pending = kept if kept is not None and kept.at not in known else None
        self.values: Mapping[str, Any] = {}

    def came_to(self, event: Event) -> None:
        """Note that the flow has come to an event (rule 2)."""
        if said := _said(event):
            self.values = said["values"]

    def facts(self) -> dict[str, Any]:
        """What the next event says beside its own: the change that is still to be recorded (rule 1)."""
        pending, self._pending = self._pending, None
        return {_CHANGED: {"values": pending.values, "by": pending.by, "at": pending.at}} if pending else {}


def change_in(event: Event) -> Mapping[str, Any]:
    """The values that a person changed, if this event records them; else nothing."""
    said = _said(event)
    return said["values"] if said else {}


def _said(event: Event) -> Mapping[str, Any]:
    said = event.payload.get(_CHANGED)
    return said if isinstance(said, dict) and isinstance(said.get("values"), dict) else {}
