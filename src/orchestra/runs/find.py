"""Finds and reads the runs of a project. Changes and drives nothing.

Rules
1. A run folder may come from anybody. So the amount that is read is limited, and files named in a journal are searched
   only below the run's folder (core/files.py).
2. Runs are read one after the other. When the next run is read, only the summary of the last is in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from orchestra.core.errors import DurabilityError, ForeignRun, JournalCorrupt, UsageError
from orchestra.core.events import Events
from orchestra.core.files import MIB
from orchestra.core.reading import (
    ChangedFile,
    Reference,
    Request,
    RunCreated,
    StepEvent,
    outcome_as,
    outcome_of,
    scope_of,
)
from orchestra.core.records import Event
from orchestra.core.run import RunFolder, is_id
from orchestra.core.store import Store
from orchestra.core.tables import Fold
from orchestra.core.vouching import elsewhere
from orchestra.core.work import Masked, PatchProposal, Reply
from orchestra.patch.gatekeeper import exact_patch, parts_about
from orchestra.patch.result import Patch

MOST_PATCH = 16 * MIB
MOST_REPORT = 256 * MIB


class RunSummary(Struct, frozen=True):
    """One line of `orchestra runs`."""

    folder: RunFolder
    created: Event
    events: Events
    fold: Fold
    driven: bool
    foreign: str = ""  # why the run is foreign; empty if it is not

    @property
    def facts(self) -> RunCreated:
        """The facts that the run recorded when it began."""
        return RunCreated.of(self.created)

    @property
    def workflow(self) -> str:
        return self.facts.workflow

    @property
    def dry(self) -> bool:
        """Whether the run executes no commands (`--dry-run`)."""
        return self.facts.params.dry

    @property
    def parent(self) -> str | None:
        return self.facts.parentRunId or None


class ShownPatch(Struct, frozen=True):
    """A patch as a person sees it, and its masked parts."""

    diff: str
    masked: tuple[Masked, ...] = ()


class Runs:
    """The runs of one project folder."""

    def __init__(
        self, project: Path, roots: Callable[[], Iterable[Path]], root_of: Callable[[str], Path], store: Store
    ) -> None:
        """`roots` gives the folders with runs; `root_of`, given a workflow, the folder with its runs."""
        self.project = project
        self._store = store
        self._roots_now = roots
        self._root_of = root_of

    def folders(self) -> list[RunFolder]:
        """Every run of this project that was started, oldest first."""
        store = self._store
        found = [(began, run) for run in store.runs(self.roots) if (began := store.began(run)) is not None]
        return [folder for _, folder in sorted(found, key=lambda entry: (entry[0], entry[1].id))]

    def find(self, reference: str) -> RunFolder:
        """A run by its id, a unique prefix of it, or `last`."""
        if not reference:
            raise UsageError("the run's id is empty; give an id, a unique prefix of one, or `last`")
        if reference == "last":
            if folders := self.folders():
                return self._newest(folders)
            raise UsageError(f"no run in {self.project} yet; orchestra --help lists the commands that start one")
        matches = self._called(reference) or list(self._begun(self._store.runs(self.roots, reference)))
        if len(matches) == 1:
            return matches[0]
        if matches:
            shown = "".join(f"\n  {f.id}" for f in sorted(matches, key=lambda f: f.id)[:10])
            raise UsageError(f"{reference!r} fits {len(matches)} runs; give more of the id:{shown}")
        raise UsageError(
            f"no run {reference!r} in {self.project} (orchestra runs lists them; -C DIR names another project)"
        )

    @property
    def roots(self) -> list[Path]:
        """The folders that contain runs."""
        return list(dict.fromkeys(self._roots_now()))

    def _called(self, run_id: str) -> list[RunFolder]:
        """The runs with exactly this id."""
        return list(self._begun(RunFolder(root / run_id) for root in self.roots)) if is_id(run_id) else []

    def _begun(self, folders: Iterable[RunFolder]) -> Iterator[RunFolder]:
        """Those of the folders that hold a run."""
        return (folder for folder in folders if self._store.began(folder) is not None)

    def _newest(self, folders: list[RunFolder]) -> RunFolder:
        """The newest run that is not foreign (a forged one may have a future date); else the newest of all."""
        for folder in reversed(folders):
            try:
                if not self.summary(folder, keep=False).foreign:
                    return folder
            except JournalCorrupt:
                return folder
        return folders[-1]

    def first_of(self, run_id: str) -> Event | None:
        """The first event of a run; None if the run is not here, such as the parent of a copied child run."""
        try:
            return self._store.first(self.find(run_id))
        except UsageError:
            return None

    def refuse_links(self) -> None:
        """Raise if a folder of runs is a link (D-06): patches and commands might change the runs at its target."""
        for root in (root for root in self.roots if root.is_relative_to(self.project)):
            depth = len(root.relative_to(self.project).parts)
            for folder in (root, *root.parents)[:depth]:
                if folder.is_symlink():
                    cure = "remove it, or name another folder in paths.runs"
                    raise UsageError(f"{folder} is a link, and runs are kept in folders: {cure}")

    def root_of(self, folder: RunFolder) -> RunFolder:
        """The run at the top of this run's tree."""
        passed = {folder.id}
        while parent := RunCreated.of(self._store.first(folder)).parentRunId:
            folder = self.find(parent)
            if folder.id in passed:
                raise DurabilityError(f"run {folder.id} is recorded as its own child; nothing was changed")
            passed.add(folder.id)
        return folder

    def summary(self, folder: RunFolder, *, keep: bool = True) -> RunSummary:
        """The current state of a run, from its journal. Without `keep` its events are read again when needed."""
        fold = Fold()
        standing = self._store.standing(folder, each=fold.add, keep=keep)
        if standing.created is None:
            raise JournalCorrupt(str(folder.events), 0, "holds no event")
        foreign = standing.foreign or elsewhere(standing.workspace, str(self.project))
        driven = self._store.is_driven(folder)
        return RunSummary(folder, standing.created, standing.events, fold, driven, foreign)

    def vouched(self, folder: RunFolder) -> RunSummary:
        """The current state of a run; ForeignRun if it is foreign."""
        summary = self.summary(folder)
        if summary.foreign:
            raise ForeignRun(folder.id, summary.foreign)
        return summary

    def vouched_root(self, folder: RunFolder) -> RunSummary:
        """The root of this run's tree; ForeignRun for a foreign run, because its parent cannot be trusted."""
        summary = self.vouched(folder)
        root = self.root_of(folder)
        return summary if root.path == folder.path else self.vouched(root)

    def facts(self, created: Event) -> RunCreated:
        """The facts of a run's first event. What a person typed is included only if this user's key sealed it."""
        facts = RunCreated.of(created)
        folder = self._child(facts.workflow, created.runId)
        if folder is not None and self._store.first_is_own(folder):
            return facts
        models = {name: value for name, value in facts.models.items() if name != "typedBudget"}
        return msgspec.structs.replace(facts, typed=(), models=models)

    def family(self, folder: RunFolder) -> list[RunSummary]:
        """A run and the open child runs below it; the run itself is first."""
        return [self.summary(one, keep=False) for one in self.tree(folder, only_open=True)]

    def tree(self, folder: RunFolder, *, only_open: bool = False) -> list[RunFolder]:
        """A run and the child runs below it; the run itself is first. `only_open`: only those it waits for now."""
        found: dict[Path, RunFolder] = {}
        queue = deque([folder])
        while queue:
            one = queue.popleft()
            if one.path in found or self._store.first(one) is None:
                continue
            found[one.path] = one
            summary = self.summary(one, keep=False)
            named = summary.fold.children.values() if only_open else _children(summary.events)
            queue += [child for name in named if (child := self._child(*name)) is not None]
        return list(found.values())

    def _child(self, workflow: str, run_id: str) -> RunFolder | None:
        """The folder of a child run; None if the id in the journal cannot be a run's."""
        return RunFolder(self._root_of(workflow) / run_id) if is_id(run_id) else None

    def patches(self, folder: RunFolder, *, exact: bool = False) -> Iterator[ShownPatch]:
        """The patches that wait for approval; if there is none, the granted parts of the applied patches."""
        summary = self.summary(folder)
        asked = [Request.of(event) for event in summary.fold.pending.values() if _asks_for_patch(event)]
        taken = [(request.patch, request.files) for request in asked]
        made: dict[str, Reference | None] = {}  # by scope: the newest patch is the one that is applied
        for event in () if asked else summary.events:
            if event.type == "PATCH_PRODUCED":
                made[scope_of(event)] = outcome_of(event).patch
            elif event.type == "PATCH_APPLIED":
                taken.append((made.get(scope_of(event)), outcome_of(event).applied))
        produced = (event for event in summary.events if event.type == "PATCH_PRODUCED")
        made_of = {_path(outcome_of(event).patch): outcome_as(event, PatchProposal) for event in produced}
        for patch, files in taken:
            yield _patch(folder, patch, made_of.get(_path(patch)), files, exact=exact)

    def asked(self, folder: RunFolder) -> Event | None:
        """The pending approval that is not about a patch; None if there is none."""
        pending = self.summary(folder).fold.pending.values()
        asked = (event for event in pending if event.type == "APPROVAL_REQUESTED")
        return next((event for event in asked if Request.of(event).subject != "patch"), None)

    def report_of(self, folder: RunFolder) -> Iterator[str]:
        """The lines of a run's report.md; none if there is no report."""
        try:
            for line in folder.lines(folder.report.name, MOST_REPORT):
                yield line.decode("utf-8", "replace").rstrip("\n")
        except FileNotFoundError:
            return

    def overview(self) -> Iterator[tuple[RunFolder, RunSummary | JournalCorrupt]]:
        """Every run, oldest first; for a damaged run, the error (rule 2)."""
        for folder in self.folders():
            try:
                yield folder, self.summary(folder, keep=False)
            except JournalCorrupt as damage:
                yield folder, damage
            except FileNotFoundError:
                continue  # the run was removed meanwhile


def _asks_for_patch(request: Event) -> bool:
    return request.type == "APPROVAL_REQUESTED" and Request.of(request).subject == "patch"


def _path(patch: Reference | None) -> str:
    return patch.path if patch else ""


def _patch(
    folder: RunFolder, said: Reference | None, made: PatchProposal | None, files: Iterable[ChangedFile], *, exact: bool
) -> ShownPatch:
    """The part of an event's patch that is about these files. `made` is the patch as proposed, if recorded."""
    paths = {file.path for file in files}
    if exact and made is not None and made.exact is not None:
        patch = exact_patch(Reply("", made.exact), folder)
        if not isinstance(patch, Patch):
            raise UsageError(patch.message)
        return ShownPatch(parts_about(patch.diff, paths))
    text = folder.recorded(said, MOST_PATCH).decode("utf-8", "replace")
    masked = tuple(span for span in (made.masked if made else ()) if span.path in paths)
    return ShownPatch(parts_about(text, paths), masked)


def _children(events: Iterable[Event]) -> Iterator[tuple[str, str]]:
    """The workflow and id of each child run that was begun."""
    for event in events:
        if event.type == "PHASE_STARTED" and (step := StepEvent.of(event)).childRunId:
            yield step.workflow, step.childRunId
