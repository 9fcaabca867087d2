"""What a tree of runs changed in the project's files: what is left of it, and the net change.

Rules
1. The patches of a tree are those of the run and of the runs below it. An undo of it is a run of its own, and a part of
   what its files went through: with it, `left` is what is really left.
2. Runs about a run (`aside`) are found by the first event of each. Foreign ones are not counted: they prove nothing.
3. Of runs in a copy of the project (core/copies.py) only those count that share the copy of the tree's first run: what
   others changed in theirs reaches the project as one patch.
4. `net` is about the tree's own patches. What came later, of any run, is only undone in memory to get at the texts.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from orchestra.core.copies import Copies
from orchestra.core.errors import JournalCorrupt, OrchestraError, UsageError
from orchestra.core.looks import Seen
from orchestra.core.reading import effect_of, outcome_as
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.core.work import Refusal
from orchestra.patch.apply import read_files
from orchestra.patch.journaled import Journaled, Timed, applied_in, in_order
from orchestra.patch.undo import Net, left_changed, net_change, paths_of, still_changed, unlike
from orchestra.runs.find import Runs, RunSummary


class Unlike(Struct, frozen=True):
    """Files that differ from what a new run expects of the run it follows; whether patches of that run are left out."""

    paths: tuple[str, ...] = ()
    dropped: bool = False


class Changes:
    """The changes of the runs of one project."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    # -- what a run's files went through ------------------------------------------------------------------------------

    def history(self, folder: RunFolder) -> tuple[RunFolder, ...]:
        """The run, and the undos of it or of a run below it, of those again, and so on; the oldest first (rule 1)."""
        return self._with_undos(folder, self._asides())

    def _asides(self) -> list[tuple[RunFolder, str]]:
        """The undos and applies of other runs, each with the run that it is about; the oldest first."""
        found = [(folder, self._runs.began(folder)) for folder in self._runs.folders()]
        return [(one, began.inputRunId) for one, began in found if began.aside and not self._is_foreign(one)]

    def _with_undos(self, folder: RunFolder, asides: Iterable[tuple[RunFolder, str]]) -> tuple[RunFolder, ...]:
        about = {one.id for one in self._runs.tree(folder)}
        found = [folder]
        for other, run_id in asides:  # an undo comes after what it undoes
            if run_id in about and other.id not in about:
                found.append(other)
                about.add(other.id)
        return tuple(found)

    def left(self, folder: RunFolder) -> tuple[str, ...]:
        """The files that the run changed and that differ from before it; a person's own edits do not count."""
        return self._left(self.history(folder))

    def _left(self, history: Sequence[RunFolder]) -> tuple[str, ...]:
        journals = (run for one in history for run in self._tree(one))
        patches = in_order(patch for run in journals for patch in applied_in(run, kept=False))
        try:
            images = read_files(self._workspace(history[0]), left_changed(patches))
        except UsageError:  # the copy is gone
            return left_changed(patches)
        return left_changed(patches) if isinstance(images, Refusal) else still_changed(patches, images)

    def documents(self, folder: RunFolder) -> tuple[str, ...]:
        """The files of the project that a tree of runs wrote without a patch (core/editions.py), and that are there."""
        runs = (run for run in self._tree(folder) if not run.copy)
        wrote = (os.path.join(run.inside, path) for run in runs for path in _written(run.events))
        return tuple(path for path in dict.fromkeys(wrote) if os.path.lexists(self._runs.project / path))

    def undoable(self) -> list[RunFolder]:
        """The runs that a person started, that are not foreign, and that have left something in the files."""
        asides, found = self._asides(), list[RunFolder]()
        for folder in self._runs.folders():
            began = self._runs.began(folder)
            mine = not began.parentRunId and not began.aside and not self._is_foreign(folder)
            if mine and self._left(self._with_undos(folder, asides)):
                found.append(folder)
        return found

    def changed_by(self, folder: RunFolder, paths: Iterable[str]) -> tuple[str, ...]:
        """The later runs whose patches changed these files too, the newest first."""
        own = {run.folder.id for one in self.history(folder) for run in self._tree(one)}
        wanted = set(paths)
        last = max((one.time for one in self._patches(folder)), default="")
        later = [one for one in self._others(own) if one.time > last and wanted & set(paths_of((one.patch,)))]
        return tuple(dict.fromkeys(one.run_id for one in reversed(later)))

    # -- the net change -----------------------------------------------------------------------------------------------

    def net(self, folder: RunFolder, *, own: bool = False) -> Net:
        """What the patches of a tree changed in the end; with `own`, only those of the run itself."""
        mine = self._patches(folder, own=own)
        patches = in_order(mine)
        try:
            workspace = self._workspace(folder)
        except UsageError:  # the copy is gone
            return Net((), left_changed(patches))
        images = read_files(workspace, paths_of(patches))
        if isinstance(images, Refusal):
            return Net((), left_changed(patches))
        found = net_change(patches, (), images)
        if not found.unknown:
            return found
        last = max(one.time for one in mine)
        others = self._others({one.run_id for one in mine}, kept=True)
        later = in_order(one for one in others if one.time > last)
        images = read_files(workspace, paths_of((*patches, *later)))
        return found if isinstance(images, Refusal) else net_change(patches, later, images)

    def unlike(self, old: RunFolder, new: RunFolder) -> Unlike:
        """The files that differ from the history that `new` keeps of `old`, by a later patch, an undo or an edit."""
        try:
            mine = {(one.time, one.patch.files) for one in self._patches(new)}
            before = self._patches(old)
            workspace = self._workspace(new)
        except (JournalCorrupt, UsageError):  # the old run is damaged, or the copy is gone: nothing can be said
            return Unlike()
        kept = in_order(one for one in before if (one.time, one.patch.files) in mine)
        dropped = in_order(one for one in before if (one.time, one.patch.files) not in mine)
        images = read_files(workspace, paths_of((*kept, *dropped)))
        return Unlike() if isinstance(images, Refusal) else Unlike(unlike(kept, dropped, images), bool(dropped))

    # -- reading ------------------------------------------------------------------------------------------------------

    def _workspace(self, folder: RunFolder) -> Path:
        """The folder that a run works in; UsageError if it is a copy that was removed."""
        return Copies(self._runs.project, tuple(self._runs.roots)).workspace(self._runs.began(folder).copy)

    def _patches(self, folder: RunFolder, *, own: bool = False) -> list[Timed]:
        """The patches of a tree, or of the run alone, with what they kept, if that can be read."""
        found: list[Timed] = []
        for run in itertools.islice(self._tree(folder), 1 if own else None):
            try:
                found += applied_in(run)
            except UsageError:
                found += applied_in(run, kept=False)
        return found

    def _others(self, own: set[str], *, kept: bool = False) -> list[Timed]:
        """The patches of all runs but these, in order of time. A run that cannot be read is left out."""
        found: list[Timed] = []
        for folder in self._runs.folders():
            if folder.id in own or self._is_foreign(folder):
                continue
            try:
                run = _journaled(self._runs.summary(folder, keep=False))
                found += applied_in(run, kept=kept) if not run.copy else ()  # rule 3
            except OrchestraError:
                continue
        return sorted(found, key=lambda one: one.time)

    def _tree(self, folder: RunFolder) -> Iterator[Journaled]:
        copy = self._runs.began(folder).copy
        runs = (_journaled(member.summary) for member in self._runs.members(folder))
        return (run for run in runs if run.copy == copy)  # rule 3

    def _is_foreign(self, folder: RunFolder) -> bool:
        try:
            return bool(self._runs.summary(folder, keep=False).foreign)
        except JournalCorrupt:
            return True


def _written(events: Iterable[Event]) -> Iterator[str]:
    """The paths of the project's files that looks wrote."""
    for event in events:
        seen = outcome_as(event, Seen) if effect_of(event) == "WriteFile" else None
        if seen is not None and seen.inside == "project":
            yield seen.path


def _journaled(summary: RunSummary) -> Journaled:
    return Journaled(summary.folder, summary.facts.folder, summary.facts.copy, summary.events)
