"""The ledger: the only code that writes a run's events. It updates journal, fold, state.json and logs, in this order.

Rules
1. An event is recorded only if the workflow's table allows it in the current state (S1-73), and every reader takes it
   (core/shape.py).
2. The journal is written first. state.json and the logs follow, and may be behind after a kill. They are rebuilt from
   the journal when the run is opened (C-04).
3. state.json is written when more than its last event id changed (status, phase, iteration, pending, error), and on
   close. So its cost does not grow with the number of steps. That of a run that has ended is left as it is.
4. A step's intent and outcome are found by the step's key (D-03).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from orchestra.core.disk import Disk
from orchestra.core.errors import DurabilityError, ForeignRun, OddFile
from orchestra.core.files import MIB
from orchestra.core.journal import Journal
from orchestra.core.logs import LogBook
from orchestra.core.projections import Projection
from orchestra.core.records import FINAL, INTENTS, ArtifactRef, Event, EventType, Phase, Time, WorkflowState, now
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder
from orchestra.core.shape import misfit
from orchestra.core.tables import Fold, Table
from orchestra.core.vouching import wrong_place

OnEvent = Callable[[Event], None]
_REFERENCE = {"path", "bytes", "sha256"}


class Recorded(Struct, gc=False):
    """The events of one key. Only the ledger changes it."""

    intent: Event | None = None
    outcome: Event | None = None


_NOTHING = Recorded()


class Ledger:
    """The open record of one run, held by the process that drives it."""

    def __init__(
        self,
        folder: RunFolder,
        journal: Journal,
        table: Table,
        *,
        disk: Disk,
        redactor: Redactor,
        on_event: OnEvent,
        projections: tuple[Projection, ...] = (),
    ) -> None:
        """`journal` is open for writing (core/store.py); the ledger closes it."""
        self.folder = folder
        self.disk = disk
        self.redactor = redactor
        self.fold = Fold()
        self.journal = journal
        self.events: list[Event] = []
        self._table = table
        self._table_state = table.start
        self._by_key: dict[str, Recorded] = {}
        self._projections: tuple[Projection, ...] = (LogBook(folder, disk), *projections)
        self._tell = (*(projection.write for projection in self._projections), on_event)
        self._published = (0, 0)  # `fold.changes` and the number of events when state.json was written

    def open(self) -> None:
        """Read the journal and repair what a crash left. ForeignRun if the run is neither this user's nor adopted."""
        events = self.journal.load()
        if events and (misplaced := wrong_place(self.folder, events[0])):
            raise ForeignRun(self.folder.id, misplaced, adoptable=False)
        for event in events:
            self._take(event, self._table.next(self._table_state, event.type, event.phase))
        for projection in self._projections:
            projection.restore(self.events)
        if self.events and not self._has_ended_as_published():
            self.publish()

    def _has_ended_as_published(self) -> bool:
        """Whether the run has ended and its state.json is right: a look at the run changes no byte of it (S4-13)."""
        if self.events[-1].type not in FINAL:
            return False
        try:
            found = self.folder.read(self.folder.state.name, MIB)
            written = msgspec.json.decode(found, type=WorkflowState).updatedAt
        except (OSError, OddFile, msgspec.DecodeError, UnicodeDecodeError):
            return False
        self._published = (self.fold.changes, len(self.events))
        return found == self._snapshot(written)

    @property
    def workspace(self) -> str:
        """The project folder of the run: the one of its adoption, or the one it began in."""
        return self.journal.workspace or str(self.events[0].payload.get("workspace", ""))

    def recorded(self, key: str) -> Recorded:
        """Intent and outcome under this key, as far as they exist."""
        return self._by_key.get(key, _NOTHING)

    def record(
        self,
        type: EventType,
        payload: dict[str, Any],
        phase: Phase | UnsetType = UNSET,
        iteration: int | UnsetType = UNSET,
        ts: str = "",
    ) -> Event:
        """Append one event; it survives `kill -9` when this returns. `ts` is its time, if not the present."""
        state = self._table.next(self._table_state, type, phase)  # rule 1: before a byte is written
        event = Event(
            id=str(len(self.events) + 1).zfill(8),  # G1-10; an f-string takes twice as long (benchmarks/README.md)
            runId=self.folder.id,
            ts=ts or now(),
            type=type,
            phase=phase,
            iteration=iteration,
            payload=payload,
        )
        self._refuse_misfit(event)
        event = self.journal.append(event, outside=type not in INTENTS)
        self._take(event, state)
        if self.fold.changes != self._published[0]:
            self.publish()
        for tell in self._tell:
            tell(event)
        return event

    def _refuse_misfit(self, event: Event) -> None:
        """DurabilityError for an event that no reader would take (core/shape.py): written, it would be damage."""
        if wrong := misfit(event, len(self.events) + 1):
            step = f" of step {event.payload['key']}" if "key" in event.payload else ""
            why = f"{event.type}{step} was not recorded, because it could not be read again ({wrong})"
            cure = f"Correct the code of the workflow, then: orchestra resume {self.folder.id}"
            raise DurabilityError(f"run {self.folder.id}: {why}. {cure}")

    def end(self, type: EventType, payload: dict[str, Any]) -> Event:
        """Record the run's last event. The documents of its end are written before (C-26)."""
        self._table.next(self._table_state, type)
        masked: Any = self.redactor.record(dict(payload))
        last = Event(id=str(len(self.events) + 1).zfill(8), runId=self.folder.id, ts=now(), type=type, payload=masked)
        self._refuse_misfit(last)
        for projection in self._projections:
            projection.ending(last)
        return self.record(type, payload, ts=last.ts)

    def publish(self) -> None:
        """Replace state.json by the newest snapshot (S1-113)."""
        self.disk.publish(self.folder.state, self._snapshot(now()), durable=False)
        self._published = (self.fold.changes, len(self.events))

    def _snapshot(self, updated: Time) -> bytes:
        state = msgspec.structs.replace(self.fold.state, updatedAt=updated)
        return msgspec.json.format(msgspec.json.encode(state)) + b"\n"

    def close(self) -> None:
        """Write state.json and the projections to the end, and close the journal."""
        try:
            if self.events:
                self.journal.sync()
                if self._published != (self.fold.changes, len(self.events)):
                    self.publish()
        finally:
            for projection in self._projections:
                projection.close()
            self.journal.close()

    def _take(self, event: Event, state: str) -> None:
        self._table_state = state
        self.events.append(event)
        self.fold.add(event)
        key = event.payload.get("key")
        if key is not None:
            slot = self._by_key.get(key)
            if slot is None:
                slot = self._by_key[key] = Recorded()
            if event.type in INTENTS:
                slot.intent = event
            else:
                slot.outcome = event


def artifacts_of(events: Iterable[Event]) -> Iterator[ArtifactRef]:
    """The references to files in these events."""
    for event in events:
        yield from _references(event.payload)


def _references(value: Any) -> Iterator[ArtifactRef]:
    if isinstance(value, dict):
        if value.keys() == _REFERENCE:
            try:
                yield msgspec.convert(value, ArtifactRef)
            except msgspec.ValidationError as error:
                raise DurabilityError(f"a reference to a file is wrong: {error}") from error
            return
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _references(item)
