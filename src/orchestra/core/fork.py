"""Forking: make a new run that shares another run's history up to an event.

Rules
1. Only a run that is not foreign is forked. Damage after the event is ignored.
2. The new run has the files that the shared events name, and no others: not a reply that came later.
3. The new run is hidden until it is complete (core/store.py, rule 5), so a kill leaves no half run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchestra.core.disk import Disk
from orchestra.core.errors import ForeignRun, JournalCorrupt, UsageError
from orchestra.core.files import read_bounded
from orchestra.core.kind import Kind
from orchestra.core.ledger import Ledger, OnEvent, artifacts_of
from orchestra.core.records import FINAL, Event
from orchestra.core.run import RunFolder
from orchestra.core.store import Claim, Store
from orchestra.core.vouching import Standing

_OF_ITS_LINE = ("seal", "prev", "vouches")  # the payload's fields about its place in the journal
OpenLedger = Callable[[Claim, Kind, OnEvent], Ledger]


def history(store: Store, folder: RunFolder, at: str) -> tuple[Standing, list[Event]]:
    """Whether the run is this user's, and its events up to `at`; ForeignRun for a foreign run (rule 1)."""
    try:
        standing = store.standing(folder, to_write=True)
    except JournalCorrupt:
        standing = store.standing(folder, until=at, to_write=True)
    if standing.foreign:
        raise ForeignRun(folder.id, standing.foreign)
    index = next((i for i, event in enumerate(standing.events) if event.id == at), len(standing.events) - 1)
    return standing, standing.events.whole()[: index + 1]


def refuse_fork(folder: RunFolder, kept: list[Event], at: str) -> None:
    """UsageError if the event is not in the run, or is its end."""
    if kept[-1].id != at:
        raise UsageError(
            f"run {folder.id} has no event {at}; it has 00000001 to {kept[-1].id} (orchestra logs {folder.id})"
        )
    if kept[-1].type in FINAL:
        raise UsageError(f"event {at} is the end of run {folder.id}: nothing can follow it; fork at an earlier event")


def make_fork(
    store: Store,
    kind: Kind,
    folder: RunFolder,
    kept: list[Event],
    facts: Mapping[str, Any],
    *,
    disk: Disk,
    open_ledger: OpenLedger,
) -> RunFolder:
    """The new run with the events `kept` of `folder`. `facts` replace what the old run recorded of itself."""
    _, _, workflow, name = folder.id.split("_", 3)
    claim = store.create_fork(kind.root, workflow=workflow, name=name)
    for ref in artifacts_of(kept):  # rule 2
        if (path := folder.find(ref)) is not None:  # below the run's folder, and so is its copy (core/files.py)
            disk.publish(claim.folder.path / ref.path, read_bounded(path, ref.bytes), durable=True)
    ledger = open_ledger(claim, kind, _unseen)  # copied events are not shown to a face
    try:
        for event in kept:
            payload = {k: v for k, v in event.payload.items() if k not in _OF_ITS_LINE}
            if event.type == "RUN_CREATED":
                origin = payload.get("forkedFrom", {}).get("origin", folder.id)
                payload |= {**facts, "forkedFrom": {"runId": folder.id, "at": kept[-1].id, "origin": origin}}
            ledger.record(event.type, payload, phase=event.phase, iteration=event.iteration, ts=event.ts)
    finally:
        ledger.close()
    return store.publish_fork(claim)


def _unseen(event: Event) -> None:
    pass
