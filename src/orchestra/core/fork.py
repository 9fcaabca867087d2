"""Forking: make a new run that goes on from another run's settled steps.

Rules
1. Only a run that this user's key or a person vouches for is forked. Damage after the last kept event does not matter.
2. The new run has the files that the kept events name, and no others: a reply that came later is not its own. A file in
   the old run's folder that it looks at (core/looks.py) is copied as it is now: a person may have edited it.
3. The new run is hidden until it is whole (core/store.py, rule 5): a kill leaves no half run.
4. Only settled steps are kept (core/settled.py). So whatever the old run waits for stays the old run's, and canceling
   the new run touches nothing of it. A kept child step has its result and names the old run's child, which the new
   run never drives, cancels or writes.
5. A child that failed or has not ended is not begun from zero. The new run records which child run of the old one is
   behind which key. When the step is begun, the new child is itself a fork of that one, to any depth. So is the new
   child of a step whose finished child has stale parts.
6. RUN_CREATED records how many events are copies. Their calls were paid by the old run.
7. An answer that replaces another is a message in the inbox of the new run before the run has its name. The question is
   asked again there, and answered in the ordinary way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from orchestra.core.copies import Copies, copy_of, make_copy, owner_of, path_of
from orchestra.core.disk import Disk
from orchestra.core.effects import ChildRun
from orchestra.core.errors import ForeignRun, IllegalEvent, JournalCorrupt, OddFile, UsageError
from orchestra.core.files import read_bounded
from orchestra.core.inbox import message
from orchestra.core.kind import Kind, KindOf
from orchestra.core.ledger import Ledger, OnEvent, artifacts_of
from orchestra.core.looks import MOST_TEXT, seen_in
from orchestra.core.reading import Behind, Origin, RunCreated
from orchestra.core.records import FINAL, Event, now
from orchestra.core.redact import Redactor
from orchestra.core.rehearsal import reached
from orchestra.core.run import RunFolder, is_id, kind_part, name_part
from orchestra.core.settled import failures, open_children, settled, settled_before, steps_of
from orchestra.core.staleness import finished_children, kept_again, kept_beside
from orchestra.core.store import Claim, Store
from orchestra.core.tables import Fold
from orchestra.core.vouching import Standing

_OF_ITS_LINE = ("seal", "prev", "vouches")  # the payload's fields about its place in the journal
_OF_ITS_PARENT = ("parentRunId", "parentKey")
INHERITED = (
    "models",
    "scenario",
    "typed",
    "environment",
    "maxFixes",
)  # facts that a child run takes over from its parent
OpenLedger = Callable[[Claim, Kind, OnEvent], Ledger]


class NewAnswer(Struct, frozen=True):
    """An answer that replaces an earlier one, or is given to an open question."""

    path: tuple[str, ...]  # the keys of the child runs that lead to the question, then the question's id
    text: str
    by: str


class Taken(Struct, frozen=True):
    """What a new run takes over: the events it keeps, and the children it goes on from."""

    events: list[Event]
    children: dict[str, Behind] = {}
    facts: Mapping[str, Any] = {}  # that replace what the old run recorded of itself


class Forks:
    """Makes runs from the history of other runs."""

    def __init__(
        self,
        store: Store,
        kind_of: KindOf,
        *,
        disk: Disk,
        redactor: Redactor,
        copies: Copies,
        open_ledger: OpenLedger,
    ) -> None:
        self._store = store
        self._kind_of = kind_of
        self._disk = disk
        self._redactor = redactor
        self._copies = copies
        self._open_ledger = open_ledger

    # -- what is taken over -------------------------------------------------------------------------------------------

    def history(self, folder: RunFolder, at: str = "") -> tuple[Standing, list[Event]]:
        """Whether the run is this user's, and its events up to `at` (all without it); ForeignRun for a foreign run."""
        try:
            standing = self._store.standing(folder, to_write=True)
        except JournalCorrupt:
            if not at:
                raise
            standing = self._store.standing(folder, until=at, to_write=True)  # rule 1
        if standing.foreign:
            raise ForeignRun(folder.id, standing.foreign)
        events = list(standing.events.whole())
        if not at:
            return standing, events
        index = next((i for i, event in enumerate(events) if event.id == at), len(events) - 1)
        return standing, events[: index + 1]

    async def take(
        self,
        folder: RunFolder,
        events: list[Event],
        answer: NewAnswer | None = None,
        accept_drift: frozenset[str] = frozenset(),
        fixes: int | None = None,
    ) -> Taken:
        """What to take over of a run, to go on without what failed, or with another answer.

        `fixes` is the new limit of a run that ended at its limit of fixes; None: its workflow's choice.
        """
        kind = self._kind_of(RunCreated.of(events[0]).workflow)
        ended = events[-1].type in FINAL
        facts = kind.goes_on(events[0], events[-1], fixes) if ended else None
        newest = Fold.of(events).newest
        failed = failures(events, handled=answer is None) if ended and facts is None else frozenset()
        redone = frozenset(key for key in failed if not newest.is_replaced(key))
        if answer is not None:
            redone |= {self._answered(folder, events, answer)}
        kept = settled(events, redone)
        begun = frozenset({*redone, *open_children(events)})
        if redone:
            found = await reached(kind, folder, kept, self._redactor, accept_drift)
            kept = kept_again(kept, found | settled_before(events, redone), newest)
            begun &= found
        behind = {**_not_begun(events), **_behind(events, begun, answer)}
        return Taken(kept, behind, facts if facts and answer is None else {})

    async def take_stale(
        self,
        folder: RunFolder,
        events: list[Event],
        stale: Iterable[tuple[str, ...]],
        accept_drift: frozenset[str] = frozenset(),
    ) -> Taken:
        """What to take over of a run that has ended, to do again what is stale of it (core/staleness.py).

        `stale` are the child runs with stale parts, each as the keys that lead to it.
        """
        newest = Fold.of(events).newest
        redone = {path[0]: [one[1:] for one in stale if one[:1] == path[:1]] for path in stale if path}
        kept = settled(events, redone)
        behind = {**_not_begun(events), **_behind(events, frozenset(open_children(events)), None)}
        if redone:
            kind = self._kind_of(RunCreated.of(events[0]).workflow)
            found = await reached(kind, folder, kept, self._redactor, accept_drift)
            kept = kept_beside(kept, redone, found, newest)
            here = {event.payload.get("key") for event in kept}
            begun = {child.key for child in finished_children(events, newest) if child.key not in here}
            for key, one in _behind(events, frozenset(begun), None).items():
                behind[key] = msgspec.structs.replace(one, stale=tuple(redone.get(key, ((),))))
        return Taken(kept, behind)

    def _answered(self, folder: RunFolder, events: list[Event], answer: NewAnswer) -> str:
        """The key of the step that a new answer replaces: the question, or the child run with the question."""
        name, *below = answer.path
        steps = steps_of(events)
        if below:
            return name
        asked = [key for key, step in steps.items() if step.intent and step.intent.payload.get("questionId") == name]
        if not asked:
            raise UsageError(f"run {folder.id} has no question {name!r}")
        return asked[-1]

    # -- making -------------------------------------------------------------------------------------------------------

    def make(
        self, folder: RunFolder, taken: Taken, facts: Mapping[str, Any], answer: NewAnswer | None = None
    ) -> RunFolder:
        """A new root run. `facts` replace what the old run recorded of itself."""
        kind = self._kind_of(RunCreated.of(taken.events[0]).workflow)
        _refuse_illegal(kind, folder, taken.events)
        named = kind_part(folder.id) or kind.name  # the id's form is the workflow's own (core/kind.py: Beginning)
        claim = self._store.create_fork(kind.root, workflow=named, name=name_part(folder.id))
        return self._fill(claim, kind, folder, taken, facts, answer)

    async def make_child(
        self,
        kind: Kind,
        child: RunFolder,
        effect: ChildRun,
        parent: Event,
        facts: Mapping[str, Any],
        accept_drift: frozenset[str] = frozenset(),
    ) -> bool:
        """Make a child run from the one behind its step (rule 5).

        False if there is none, none of the same job, or one that cannot be gone on from: then it begins from zero.
        `parent` is the first event of its parent, `facts` are those of the parent and key.
        """
        origin = RunCreated.of(parent).forkedFrom
        behind = origin.children.get(str(facts["parentKey"])) if origin else None
        if behind is None or behind.intent != effect.identity() or not is_id(behind.runId):
            return False
        old = RunFolder(kind.root / behind.runId)
        created = self._store.first(old)
        if created is None or RunCreated.of(created).workflow != kind.name:
            return False
        answer = NewAnswer(behind.path, behind.text, behind.by) if behind.path else None
        try:
            standing, events = self.history(old)
            if behind.stale:
                taken = await self.take_stale(old, events, behind.stale, accept_drift)
            else:
                taken = await self.take(old, events, answer, accept_drift, RunCreated.of(parent).maxFixes)
            _refuse_illegal(kind, old, taken.events)
            if (there := RunCreated.of(created)).copy:
                self._copies.found(there.copy)
        except (UsageError, ForeignRun):
            return False
        inherited = {name: parent.payload[name] for name in (*INHERITED, "policy") if name in parent.payload}
        place = {"workspace": standing.workspace} if standing.workspace else {}
        if owner_of(there.copy) not in ("", old.id):
            place["copy"] = RunCreated.of(parent).copy
        claim = self._store.create_fork(kind.root, workflow=kind.name, name="", run_id=child.id)
        self._fill(claim, kind, old, taken, {**inherited, **place, **facts}, answer)
        return True

    def _fill(
        self,
        claim: Claim,
        kind: Kind,
        folder: RunFolder,
        taken: Taken,
        facts: Mapping[str, Any],
        answer: NewAnswer | None,
    ) -> RunFolder:
        facts = {**facts, **self._copied_again(claim, kind, RunCreated.of(taken.events[0]), facts)}
        for ref in artifacts_of(taken.events):  # rule 2
            if (path := folder.find(ref)) is not None:  # below the run's folder, and so is its copy (core/files.py)
                self._disk.publish(claim.folder.path / ref.path, read_bounded(path, ref.bytes), durable=True)
        ledger = self._open_ledger(claim, kind, _unseen)  # copied events are not shown to a face
        try:
            for event in taken.events:
                payload = {k: v for k, v in event.payload.items() if k not in _OF_ITS_LINE}
                if event.type == "RUN_CREATED":
                    payload = _created(payload, folder, taken, facts)
                ledger.record(event.type, payload, phase=event.phase, iteration=event.iteration, ts=event.ts)
        finally:
            ledger.close()
        self._copy_looked(folder, claim.folder, taken.events)  # after the derived files, which may be the same ones
        if answer is not None and len(answer.path) == 1:  # rule 7
            self._store.deliver(claim.folder, answer.path[0], message("answer", answer.by, text=answer.text))
        return self._store.publish_fork(claim)

    def _copied_again(self, claim: Claim, kind: Kind, old: RunCreated, facts: Mapping[str, Any]) -> dict[str, str]:
        """The new run's own copy of the project, if the old run worked in one (core/copies.py, rule 3)."""
        if not old.copy or "copy" in facts:
            return {}
        make_copy(self._copies.found(old.copy), copy_of(claim.folder.path))
        return {"copy": path_of(self._copies.project, copy_of(kind.root / claim.folder.id))}

    def _copy_looked(self, old: RunFolder, new: RunFolder, events: list[Event]) -> None:
        """Copy the files in a run's folder that it looks at, as they are now (rule 2)."""
        for event in Fold.of(events).newest.files.values():
            seen = seen_in(event)
            if seen is not None and seen.inside == "run":
                try:
                    data = old.read(seen.path, MOST_TEXT)
                except (OSError, OddFile):
                    continue  # it is gone, or is no file: the new run writes it again
                self._disk.publish(new.path / seen.path, data, durable=True)


def refuse_fork(folder: RunFolder, kept: list[Event], at: str) -> None:
    """UsageError if the event is not in the run, or is its end."""
    if kept[-1].id != at:
        raise UsageError(
            f"run {folder.id} has no event {at}; it has 00000001 to {kept[-1].id} (orchestra logs {folder.id})"
        )
    if kept[-1].type in FINAL:
        raise UsageError(f"event {at} is the end of run {folder.id}: nothing can follow it; fork at an earlier event")


def _created(payload: Mapping[str, Any], folder: RunFolder, taken: Taken, facts: Mapping[str, Any]) -> dict[str, Any]:
    """RUN_CREATED of the new run. A fork of a child run is a root, unless `facts` name its parent."""
    own = {name: value for name, value in payload.items() if name not in _OF_ITS_PARENT}
    before = own.get("forkedFrom")
    origin = before.get("origin", folder.id) if isinstance(before, dict) else folder.id
    forked = Origin(folder.id, taken.events[-1].id, origin, len(taken.events), now(), taken.children)
    recorded = msgspec.to_builtins(forked)
    if not taken.children:
        del recorded["children"]
    return {**own, **taken.facts, **facts, "forkedFrom": recorded}


def _behind(events: list[Event], begun: frozenset[str], answer: NewAnswer | None) -> dict[str, Behind]:
    """The child runs of these steps, by key (rule 5)."""
    found: dict[str, Behind] = {}
    for key, step in steps_of(events).items():
        if key in begun and step.intent is not None and "childRunId" in step.intent.payload:
            behind = Behind(str(step.intent.payload["childRunId"]), str(step.intent.payload.get("intent", "")))
            if answer is not None and len(answer.path) > 1 and answer.path[0] == key:
                behind = msgspec.structs.replace(behind, path=answer.path[1:], text=answer.text, by=answer.by)
            found[key] = behind
    return found


def _not_begun(events: list[Event]) -> dict[str, Behind]:
    """The child runs that the run itself was to go on from, and did not come to: its successor does."""
    origin, steps = RunCreated.of(events[0]).forkedFrom, steps_of(events)
    return {key: behind for key, behind in origin.children.items() if key not in steps} if origin else {}


def _refuse_illegal(kind: Kind, folder: RunFolder, events: list[Event]) -> None:
    """UsageError if the workflow's table forbids the kept events in this order: before anything is made."""
    state = kind.table.start
    try:
        for event in events:
            state = kind.table.next(state, event.type, event.phase)
    except IllegalEvent as forbidden:
        where = f"name the event to go on from: orchestra fork {folder.id} --at EVENT"
        raise UsageError(f"run {folder.id} cannot go on without its open steps ({forbidden}); {where}") from forbidden


def _unseen(event: Event) -> None:
    pass
