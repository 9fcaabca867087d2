"""Which run writes files outside the run folders: the newest run of a lineage.

A contract tree is derived from the events of a run, and lies in the project. A retry, a rerun or a fork of the run has
the same files, and goes on with them.

Rules
1. A lineage is a run and every run that was made from it by `retry`, `rerun` or `fork`, to any depth. The files belong
   to the run that was made last. A run that was canceled before it did anything has never had them.
2. The newest run takes the files over when it gets its name. Until then it is no run, and a kill leaves them where they
   were.
3. Ownership is checked and the file is written under the lock of the folder of runs, and a fork gets its name under
   it. So an older run that another process drives writes nothing any more as soon as the newer one exists.
4. A run that is not the owner does not become the owner while it is open: its files are brought up to date when it is
   opened the next time.
5. A run of another user's key owns nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestra.core.errors import JournalCorrupt
from orchestra.core.reading import RunCreated
from orchestra.core.run import RunFolder
from orchestra.core.store import Store

_STEADY_NS = 2_000_000_000  # a folder that changed this long ago has another time when it changes again, on any disk


class Ownership:
    """Whether a run that is open is the newest of its lineage. `tell` gets the id of the newest run, if it is not."""

    def __init__(self, store: Store, run: RunFolder, tell: Callable[[str], None] = lambda newer: None) -> None:
        self._store = store
        self._run = run
        self._tell = tell
        self._lost = False
        self._origin = ""
        self._seen: set[str] = set()
        self._looked = 0  # the time of the folder of runs when it was looked at, if it was steady then
        self._lineage: dict[str, str] = {}  # when each run of the lineage was made

    @contextmanager
    def __call__(self) -> Iterator[bool]:
        """Whether the files are this run's, as long as the block lasts (rule 3)."""
        if self._lost or self._run.path.name != self._run.id:  # rules 4 and 2
            yield False
            return
        with self._store.alone(self._run.path.parent):
            newest = self.newest()
            if newest != self._run.id:
                self._lost = True
                self._tell(newest)
            yield not self._lost

    def newest(self) -> str:
        """The id of the run that has the files of this lineage now."""
        if not self._origin:
            self._origin = _origin(self._run.id, RunCreated.of(self._store.first(self._run)))
        root = self._run.path.parent
        self._look(root)
        for run_id in sorted(self._lineage, key=lambda one: (self._lineage[one], one), reverse=True):
            if run_id == self._run.id or self._counts(RunFolder(root / run_id)):
                return run_id
            del self._lineage[run_id]
        return self._run.id

    def _look(self, root: Path) -> None:
        """Note the runs that came since the last look, if the folder of runs has changed at all."""
        changed = os.stat(root).st_mtime_ns
        if changed == self._looked:
            return
        steady = time.time_ns() - changed > _STEADY_NS
        for one in self._store.runs((root,)):
            if one.id not in self._seen:
                self._note(one)
        self._looked = changed if steady else 0

    def _note(self, run: RunFolder) -> None:
        """Look at a run once: its first event never changes."""
        try:
            created, made = self._store.first(run), self._store.began(run)
        except (JournalCorrupt, OSError):
            return
        if created is None or made is None:
            return  # it is being made
        self._seen.add(run.id)
        if _origin(run.id, RunCreated.of(created)) == self._origin:
            self._lineage[run.id] = made

    def _counts(self, run: RunFolder) -> bool:
        """Whether this run can own files: it is this user's (rule 5), and was not canceled before it began (rule 1)."""
        try:
            standing = self._store.vouched(run)
            if standing.foreign or standing.created is None:
                return False
            origin = RunCreated.of(standing.created).forkedFrom
            copied = origin.events if origin else 1
            return len(standing.events) != copied + 1 or standing.events[-1].type != "RUN_CANCELED"
        except (JournalCorrupt, OSError):
            return False  # damaged, or removed meanwhile


def _origin(run_id: str, created: RunCreated) -> str:
    """The run in which the history of this run began."""
    return created.forkedFrom.origin or created.forkedFrom.runId if created.forkedFrom else run_id
