"""A rehearsal: replay a flow over recorded events, to see how far it comes. Nothing is performed or written.

When a run goes on from another, some steps are left out (core/settled.py). What depends on them is left out too. Only
the flow knows what that is: so it is replayed without them, and what it reaches is kept. It stops in each branch at the
first step that has no outcome; branches beside it go on, and what comes after them is not reached. A step that the flow
performs because it was stopped (in `finally`) is not reached either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Never, cast

import msgspec

from orchestra.core.context import Context
from orchestra.core.effects import Effect
from orchestra.core.errors import Canceled, Suspended
from orchestra.core.kind import Kind
from orchestra.core.ledger import Ledger, Recorded
from orchestra.core.records import INTENTS, Event
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder
from orchestra.core.tables import Fold

_NO_EFFECT: frozenset[type[Effect[Any]]] = frozenset({Effect})  # no effect is of exactly this type


class _Record:
    """What a context needs of a ledger as long as it performs nothing."""

    def __init__(self, folder: RunFolder, events: Sequence[Event], redactor: Redactor) -> None:
        self.folder = folder
        self.events = events
        self.redactor = redactor
        self.fold = Fold.of(events)
        self.reached: set[str] = set()
        self._over: set[str] = set()  # scopes that stopped: nothing in them or below them is reached any more
        self._waiting: set[str] = set()  # the scopes above those: none of their own steps is
        self._by_key: dict[str, Recorded] = {}
        for event in events:
            if (key := event.payload.get("key")) is not None:
                slot = self._by_key.setdefault(key, Recorded())
                if event.type in INTENTS:
                    slot.intent = event
                else:
                    slot.outcome = event

    def recorded(self, key: str) -> Recorded:
        found = self._by_key.get(key, Recorded())
        scope, *above = _scopes(key)
        if scope in self._waiting or not self._over.isdisjoint((scope, *above)):
            return found  # a flow may tidy up (`finally`) after it was stopped
        self.reached.add(key)
        if found.outcome is None:
            self._over.add(scope)
            self._waiting.update(above)
        return found

    def record(self, *event: object) -> Never:
        raise Suspended("a rehearsal records nothing")


def _scopes(key: str) -> list[str]:
    """The scope of a key and those above it, the nearest first."""
    parts = key.split("/")[:-1]
    return ["/".join(parts[:depth]) for depth in range(len(parts), -1, -1)]


async def reached(
    kind: Kind, folder: RunFolder, events: Sequence[Event], redactor: Redactor, accepted: Iterable[str] = ()
) -> set[str]:
    """The keys that the run's flow comes to with these events only, those it stops at included.

    Drift is raised, if the code changed since.
    """
    record = _Record(folder, events, redactor)
    # The context asks a ledger for no more than this before it performs an effect, which `only` forbids.
    context = Context(cast(Ledger, record), {}, only=_NO_EFFECT, accepted_drift=frozenset(accepted))
    try:
        await kind.flow(context, msgspec.convert(events[0].payload["params"], kind.params))
    except (Suspended, Canceled, Exception, SystemExit):  # how the flow ends is not asked here
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise
    context.raise_stopped()
    return record.reached
