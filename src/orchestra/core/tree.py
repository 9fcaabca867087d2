"""A run and its child runs: their ids, whether one of them is to be canceled, and how they end then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from orchestra.core.cancel import Driving
from orchestra.core.context import Verdict
from orchestra.core.effects import digest_of
from orchestra.core.errors import UsageError
from orchestra.core.inbox import CANCEL
from orchestra.core.kind import Kind, KindOf
from orchestra.core.ledger import Ledger
from orchestra.core.records import FINAL, Event
from orchestra.core.run import RunFolder, name_part, slug
from orchestra.core.store import Claim, Store
from orchestra.core.tables import Fold

_MOST_ID = 120  # bytes of a child's id, at any depth
_MOST_NAME, _LEAST_NAME, _MOST_KEY = 40, 8, 24  # bytes of the parent's name, and of a key, in it


class Tree:
    """The child runs below the runs of a store."""

    def __init__(
        self,
        store: Store,
        kind_of: KindOf,
        *,
        open_ledger: Callable[[Claim, Kind], Ledger],
        settle_apply: Callable[[Ledger, Kind, Driving], Awaitable[None]],
        finish: Callable[[Ledger, Verdict], None],
    ) -> None:
        self._store = store
        self._kind_of = kind_of
        self._open_ledger = open_ledger
        self._settle_apply = settle_apply
        self._finish = finish

    def created(self, run: RunFolder) -> Event:
        """The first event of a run; UsageError if the run was never started."""
        created = self._store.first(run)
        if created is None:
            raise UsageError(f"run {run.id} was never started (no RUN_CREATED in {run.events}); start a new one")
        return created

    def kind(self, created: Event) -> Kind:
        """The workflow of a run, by its first event."""
        return self._kind_of(created.payload.get("workflow", ""))

    def is_canceled(self, run: RunFolder, fold: Fold | None = None) -> bool:
        """Whether the inbox of this run, or of a child run it waits for, has a cancel.

        `fold` is the summary of the run's journal, if the caller has it.
        """
        if self._store.mail(run, CANCEL):
            return True
        fold = fold or Fold.of(self._store.all_events(run))
        return any(self.is_canceled(child) for child in self._children(run, fold))

    async def cancel(self, ledger: Ledger, kind: Kind, driving: Driving) -> None:
        """End a run that no process drives, and the child runs it waits for.

        Nothing is replayed, but what a kill may have cut short of a patch.
        """
        await self._settle_apply(ledger, kind, driving)
        for child in self._children(ledger.folder, ledger.fold):
            with self._store.claim(child) as claim:
                kind_below = self.kind(self.created(child))
                below = self._open_ledger(claim, kind_below)
                try:
                    if below.fold.state.status not in FINAL.values():
                        await self.cancel(below, kind_below, driving)
                finally:
                    below.close()
        self._finish(ledger, driving.verdict())

    def _children(self, run: RunFolder, fold: Fold) -> list[RunFolder]:
        """The child runs that a run waits for and that it began itself.

        A fork of an older version names open children of the run it was forked from: they are not its own.
        """
        folders = [RunFolder(self._kind_of(workflow).root / name) for workflow, name in fold.children.values()]
        firsts = [(folder, self._store.first(folder)) for folder in folders]
        return [folder for folder, first in firsts if first is not None and first.payload.get("parentRunId") == run.id]


def child_id(parent: str, workflow: str, key: str) -> str:
    """A child's id follows from its parent's id and its key alone, so that a kill cannot make two (D-07, D-08).

    It does not grow from level to level. What is cut, and keys with the same slug, are told apart by the digest.
    """
    date, number, _ = parent.split("_", 2)
    own = f"-{slug(key, most=_MOST_KEY)}-{digest_of([parent, key])[7:15]}"
    head = f"{date}_{number}_{workflow}_"
    room = min(_MOST_NAME, max(_LEAST_NAME, _MOST_ID - len(f"{head}{own}".encode())))
    return f"{head}{slug(name_part(parent), most=room)}{own}"
