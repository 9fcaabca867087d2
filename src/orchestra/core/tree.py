"""A run and its child runs: their ids, whether one of them has a new message, and how they end when canceled."""

from __future__ import annotations

from collections.abc import Callable

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

_MOST_KEY = 24  # characters of a key in an id


class Tree:
    """The child runs below the runs of a store."""

    def __init__(
        self,
        store: Store,
        kind_of: KindOf,
        *,
        open_ledger: Callable[[Claim, Kind], Ledger],
        finish: Callable[[Ledger, Verdict], None],
    ) -> None:
        self._store = store
        self._kind_of = kind_of
        self._open_ledger = open_ledger
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

    def mail_came(self, run: RunFolder) -> bool:
        """Whether the inbox of this run, or of a child run it waits for, has a message that the flow has not seen."""
        if self._store.mail(run, CANCEL):
            return True
        fold = Fold.of(self._store.all_events(run))
        if len(self._store.unanswered(run, fold.pending)) < len(fold.pending):
            return True
        return any(self.mail_came(child) for child in self._children(fold))

    def cancel(self, ledger: Ledger, driving: Driving) -> None:
        """End a run that no process drives, and the child runs it waits for, without a replay."""
        for child in self._children(ledger.fold):
            with self._store.claim(child) as claim:
                below = self._open_ledger(claim, self.kind(self.created(child)))
                try:
                    if below.fold.state.status not in FINAL.values():
                        self.cancel(below, driving)
                finally:
                    below.close()
        self._finish(ledger, driving.verdict())

    def _children(self, fold: Fold) -> list[RunFolder]:
        """The child runs that a run waits for and that were begun."""
        folders = [RunFolder(self._kind_of(workflow).root / name) for workflow, name in fold.children.values()]
        return [folder for folder in folders if self._store.first(folder) is not None]


def child_id(parent: str, workflow: str, key: str) -> str:
    """A child's id follows from its parent's id and its key alone, so that a kill cannot make two (D-07, D-08).

    It does not grow from level to level. What is cut, and keys with the same slug, are told apart by the digest.
    """
    date, number, _ = parent.split("_", 2)
    mark = digest_of([parent, key])[7:15]
    name = f"{slug(name_part(parent))}-{slug(key, most=_MOST_KEY)}-{mark}"
    return f"{date}_{number}_{workflow}_{name}"
