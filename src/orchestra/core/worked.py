"""How long a tree of runs has worked, from the events of its journals (S2-50). Pure.

Rules
1. A step whose outcome says how long it took counts that long, up to when its outcome was recorded. Another step of
   the workflow's own counts from its intent to its outcome, unless another process began it again.
2. A sleep, and the wait for a retry, count as long as the process waited that ended them: the event that follows says
   how long (`waitedMs`). What an earlier process waited before a kill is in its reading (rule 5): between the two
   nobody drove the run. For the same reason a wait that nobody ended counts nothing here. In a journal of an older
   version, which does not say how long, a wait counts whole if the next attempt came when it was over.
3. What overlaps counts once. The time of a person does not count.
4. The outcome of a child run has a reading of the clock of the whole tree (`treeMs`). Only what came after the newest
   reading is added to it, so a finished child need not be read again.
5. What a kill cut off is in no journal. A process leaves readings beside the journal for that (core/clockfile.py): one
   can only add to what the journals have.
6. Events that a fork copied were done, and counted, in another run.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from math import inf

from orchestra.core.calls import last_copied
from orchestra.core.clockfile import ClockReading
from orchestra.core.effects import ChildRun, Sleep
from orchestra.core.reading import StepEvent, duration_of
from orchestra.core.records import Event

_LATE_S = 5.0  # of an older version: a retry that begins later than this was not waited for to the end
_MOST_MS = 366 * 86_400_000  # no step or wait is longer: a larger number is none
_CHILD = ChildRun.__name__
_TELLING = ("ModelCall", "RunCommand", _CHILD)  # whose outcomes say how long they took
_Step = tuple[str, str]  # a run, and a key in it


def seconds_worked(events: Iterable[Event], kept: ClockReading | None = None) -> float:
    """The seconds that recorded steps and waits took; `kept` is a reading beside the journal (rule 5)."""
    found = _Spans()
    copied = ""
    for event in events:
        if event.type == "RUN_CREATED":
            copied = last_copied(event)
        if event.id > copied:  # rule 6
            found.add(event)
    spans = found.in_order()
    recorded = _after(*found.newest, spans)
    return max(recorded, _after(kept.ms / 1000, _when(kept.at), spans)) if kept else recorded


class _Spans:
    """The spans of time in which a tree worked, found event by event."""

    def __init__(self) -> None:
        self.newest = 0.0, -inf  # the newest reading of the tree's clock, and when it was taken (rule 4)
        self._done: list[tuple[float, float]] = []
        self._begun: dict[_Step, tuple[float, float]] = {}  # when steps began, and end at the latest (rule 1)
        self._waits: dict[_Step, tuple[float, float]] = {}  # for retries that did not begin yet

    def add(self, event: Event) -> None:
        effect, key = event.payload.get("effect"), (event.runId, str(event.payload.get("key", "")))
        if event.payload.get("attempt"):
            self._end_wait(event, _attempts(key))
        if effect == _CHILD:
            if (reading := _told(event, "treeMs")) and (when := _when(event.ts)) > self.newest[1]:
                self.newest = reading, when
        elif taken := _seconds(duration_of(event)):
            end = _when(event.ts)
            self._done.append((end - taken, end))
        elif event.type == "PHASE_STARTED" and effect not in _TELLING:
            deadline = event.payload.get("deadline")  # of a sleep, which a later process may find over long ago
            self._begun[key] = _when(event.ts), _when(str(deadline)) if deadline else inf
        elif key in self._begun and not event.payload.get("redone"):
            start, latest = self._begun.pop(key)
            end = min(latest, _when(event.ts))
            waited = _told(event, "waitedMs") if effect == Sleep.__name__ else None
            self._done.append((start if waited is None else max(start, end - waited), end))
        if event.type == "PHASE_FAILED" and (retry_at := StepEvent.of(event).retryAt):
            self._waits[_attempts(key)] = _when(event.ts), _when(retry_at)

    def _end_wait(self, event: Event, step: _Step) -> None:
        """Count the wait that ends because the next attempt at this step begins (rule 2)."""
        begins = _when(event.ts)
        start, end = self._waits.pop(step, (-inf, -inf))
        waited = event.payload.get("waitedMs")
        if waited is not None:
            end = begins if end == -inf else min(end, begins)  # the failure may be a copy (rule 6)
            self._done.append((max(start, end - _seconds(waited)), end))
        elif begins - end <= _LATE_S:
            self._done.append((start, min(end, begins)))

    def in_order(self) -> list[tuple[float, float]]:
        """All spans, by their beginnings."""
        return sorted(self._done)


def _attempts(step: _Step) -> _Step:
    """What all attempts at a step have in common: its key without the number."""
    run, key = step
    return run, key.rpartition(".")[0]


def _told(event: Event, name: str) -> float | None:
    """The seconds that this field of an outcome tells in milliseconds; None if it is not there."""
    outcome = event.payload.get("outcome")
    found = outcome.get(name) if isinstance(outcome, dict) else None
    return None if found is None else _seconds(found)


def _seconds(milliseconds: object) -> float:
    """These milliseconds in seconds; 0 for what is no time. A journal may come from anybody."""
    if isinstance(milliseconds, int | float) and 0 <= milliseconds <= _MOST_MS:
        return milliseconds / 1000
    return 0.0


def _after(total: float, reached: float, spans: list[tuple[float, float]]) -> float:
    """A reading of the clock, and what these spans of time add to it. They are in order of their beginnings."""
    for start, end in spans:
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _when(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
