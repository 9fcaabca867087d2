"""Finds and reads the runs of a project. Changes and drives nothing.

Rules
1. A run folder may come from anybody. So the amount that is read is limited, and files named in a journal are searched
   only below the run's folder (core/files.py).
2. Runs are read one after the other. When the next run is read, only the summary of the last is in memory.
3. A person names a run as briefly as they like, but never ambiguously: if two runs fit, both are listed, and nothing is
   guessed. The ways to name a run are tried one after the other, the most exact one first.
"""

from __future__ import annotations

import contextlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from orchestra.core.accounts import Spending, children_of
from orchestra.core.errors import DurabilityError, ForeignRun, JournalCorrupt, UsageError
from orchestra.core.events import Events
from orchestra.core.files import MIB
from orchestra.core.reading import RunCreated
from orchestra.core.records import FINAL, Event, is_time
from orchestra.core.run import RunFolder, is_id
from orchestra.core.store import Store
from orchestra.core.tables import Fold
from orchestra.core.text import and_more, brief, clean
from orchestra.core.vouching import elsewhere

_NUMBER = re.compile(r"[0-9]{1,9}")
_TOLD = 10  # runs to choose from
_GOAL = 60  # characters of a goal in that list
_MOST_GOAL = 10_000  # characters of a goal that are searched
_TYPED = ("typedBudget", "typedTime")  # what only this user's own record can say of the models
MOST_REPORT = 256 * MIB


class RunSummary(Struct, frozen=True):
    """One line of `orchestra runs`."""

    folder: RunFolder
    created: Event
    events: Events
    fold: Fold
    driven: bool
    foreign: str = ""  # why the run is foreign; empty if it is not
    spent: Spending = msgspec.field(default_factory=Spending)  # on its own calls
    begun: Sequence[tuple[str, str, str]] = ()  # the child runs that it began: key, workflow and id of each

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

    @property
    def made(self) -> str:
        """When the run was made; a fork's first event has the time of its source."""
        forked = self.facts.forkedFrom
        return forked.made if forked and is_time(forked.made) else self.fold.state.createdAt


class Drivable(Struct, frozen=True):
    """A run that may be driven: it is this user's, and of this project."""

    folder: RunFolder
    created: Event
    events: Events  # read when they are asked for

    @property
    def facts(self) -> RunCreated:
        """The facts that the run recorded when it began."""
        return RunCreated.of(self.created)


class Member(Struct, frozen=True):
    """A run of a tree (runs/tree.py has what is done with them)."""

    summary: RunSummary
    path: tuple[str, ...] = ()  # the keys of the child runs that lead here, from the run that was asked for
    kept: bool = False  # a settled child of the run that this tree was forked from: nothing of it is open or paid here

    @property
    def folder(self) -> RunFolder:
        return self.summary.folder

    @property
    def key(self) -> str:
        """The path as text; empty for the run that was asked for."""
        return clean("/".join(self.path)).replace("\n", "\\n")


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

    def open_of(self, workflow: str, most: int) -> Iterator[RunSummary]:
        """The runs of a workflow that a person started and that have not ended, among so many of the last by id."""
        for folder in sorted(self._store.runs(self.roots), key=lambda one: one.id)[-most:]:
            began = self.began(folder)
            if began.workflow == workflow and not began.parentRunId:
                with contextlib.suppress(JournalCorrupt, OSError):
                    summary = self.summary(folder, keep=False)
                    if summary.fold.state.status not in FINAL.values() and not summary.foreign:
                        yield summary

    def find(self, reference: str) -> RunFolder:
        """A run by its id, its number (`12` or `@12`), or `last`; else by the beginning or the end of its id, or by
        words of its goal, if these fit one run only (rule 3).

        Child runs, undos and applies are meant only if nothing else fits.
        """
        if not reference.strip():
            raise UsageError("the run's id is empty; give an id, a number, a unique part of an id, or `last`")
        if reference == "last":
            if folders := self.folders():
                return self._newest(folders)
            raise UsageError(f"no run in {self.project} yet; orchestra --help lists the commands that start one")
        if exact := self._called(reference):  # an exact id is looked up, never searched for
            return self._one(reference, exact)
        ways = (self._numbered, self._beginning, self._ending, self._about)
        return self._one(reference, next((found for way in ways if (found := way(reference))), []))

    def _numbered(self, reference: str) -> list[RunFolder]:
        """The runs with this number; those of this user if there are any."""
        digits = reference.removeprefix("@")
        if not _NUMBER.fullmatch(digits):
            return []
        return self._ours(one for one in self.folders() if self.began(one).number == int(digits))

    def _beginning(self, reference: str) -> list[RunFolder]:
        """The runs whose ids begin so. A child's id begins like its root's, and the root is meant."""
        return self._roots_of(self._begun(self._store.runs(self.roots, reference)))

    def _ending(self, reference: str) -> list[RunFolder]:
        """The runs whose ids end with these whole words."""
        ends = tuple(f"{mark}{unicodedata.normalize('NFC', reference)}" for mark in "-_")
        return self._roots_of(self._begun(one for one in self._store.runs(self.roots) if one.id.endswith(ends)))

    def _about(self, reference: str) -> list[RunFolder]:
        """The root runs of this user in whose goals each of these words begins a word."""
        wanted = _words(reference)
        found = (one for one in self.folders() if self._is_started(one))
        return self._ours(
            one for one in found if all(any(w.startswith(v) for w in _words(self.began(one).goal)) for v in wanted)
        )

    def _roots_of(self, folders: Iterable[RunFolder]) -> list[RunFolder]:
        """The runs among these that a person started for their own sake; all of them, if there is none."""
        fitting = list(folders)
        return [one for one in fitting if self._is_started(one)] or fitting

    def _ours(self, folders: Iterable[RunFolder]) -> list[RunFolder]:
        """Those of the runs that this user's key began; all, if there are none: others can choose goals and numbers."""
        fitting = list(folders)
        return [one for one in fitting if self._store.first_is_own(one)] or fitting

    def _one(self, reference: str, matches: list[RunFolder]) -> RunFolder:
        """The only run of these; UsageError if there is none, or more than one."""
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise UsageError(f"{reference!r} fits {len(matches)} runs; give the number or id:{self.told(matches)}")
        raise UsageError(
            f"no run {reference!r} in {self.project} (orchestra runs lists them; -C DIR names another project)"
        )

    def told(self, folders: Iterable[RunFolder]) -> str:
        """Some runs to choose from, the newest first, one a line: number, id and goal."""
        newest = sorted(folders, key=lambda one: (self._store.began(one) or "", one.id), reverse=True)
        lines = [f"\n  {number_text(self.began(one).number):>5} {one.id}  {_goal(self.began(one))}" for one in newest]
        return "".join(lines[:_TOLD]) + and_more(lines, _TOLD, "\n  ")

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
        """The newest run that a person started and that is not foreign: a forged one may have a future date.

        If there is none, the newest that a person started; else the newest of all.
        """
        started = [folder for folder in folders if self._is_started(folder)] or folders
        for folder in reversed(started):
            try:
                if not self.summary(folder, keep=False).foreign:
                    return folder
            except JournalCorrupt:
                return folder
        return started[-1]

    def _is_started(self, folder: RunFolder) -> bool:
        """Whether a person started the run for its own sake: no child run, no undo, no apply."""
        began = self.began(folder)
        return not began.parentRunId and not began.aside

    def began(self, folder: RunFolder) -> RunCreated:
        """What a run recorded when it began; an empty record if its first line is damaged or gone."""
        try:
            return RunCreated.of(self._store.first(folder))
        except (JournalCorrupt, OSError):
            return RunCreated()

    def first_of(self, run_id: str) -> Event | None:
        """The first event of a run; None if the run is not here, such as the parent of a copied child run."""
        folder = self.exactly(run_id)
        return self._store.first(folder) if folder is not None else None

    def exactly(self, run_id: str) -> RunFolder | None:
        """The run with exactly this id; None if it is not here. No other run is looked at."""
        found = self._called(run_id)
        return found[0] if len(found) == 1 else None

    def greatest_number(self) -> int:
        """The greatest number of this user's runs; 0 if there is none."""
        return max((self.began(one).number for one in self.folders() if self._store.first_is_own(one)), default=0)

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
            folder = self._one(parent, self._called(parent))
            if folder.id in passed:
                raise DurabilityError(f"run {folder.id} is recorded as its own child; nothing was changed")
            passed.add(folder.id)
        return folder

    def summary(self, folder: RunFolder, *, keep: bool = True) -> RunSummary:
        """The current state of a run, from its journal. Without `keep` its events are read again when needed."""
        fold, spent, begun = Fold(), Spending(), list[tuple[str, str, str]]()

        def each(event: Event) -> None:
            fold.add(event)
            spent.add(event)
            if event.type == "PHASE_STARTED":
                begun.extend(children_of((event,)))

        standing = self._store.standing(folder, each=each, keep=keep)
        if standing.created is None:
            raise JournalCorrupt(str(folder.events), "holds no event")
        foreign = standing.foreign or elsewhere(standing.workspace, str(self.project))
        driven = self._store.is_driven(folder)
        return RunSummary(folder, standing.created, standing.events, fold, driven, foreign, spent, begun)

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

    def drivable_root(self, folder: RunFolder) -> Drivable:
        """The root of this run's tree, to be driven. Only its first event is read; ForeignRun as in `vouched_root`."""
        found = self._drivable(folder)
        root = self.root_of(folder)
        return found if root.path == folder.path else self._drivable(root)

    def _drivable(self, folder: RunFolder) -> Drivable:
        standing = self._store.vouched(folder)
        if standing.created is None:
            raise JournalCorrupt(str(folder.events), "holds no event")
        if foreign := standing.foreign or elsewhere(standing.workspace, str(self.project)):
            raise ForeignRun(folder.id, foreign)
        return Drivable(folder, standing.created, standing.events)

    def facts(self, created: Event) -> RunCreated:
        """The facts of a run's first event. What a person typed is included only if this user's key sealed it."""
        facts = RunCreated.of(created)
        folder = self.child(facts.workflow, created.runId)
        return trusted(facts, own=folder is not None and self._store.first_is_own(folder))

    def members(
        self, folder: RunFolder, *, only_open: bool = False, damaged: dict[str, JournalCorrupt] | None = None
    ) -> Iterator[Member]:
        """A run and the child runs below it, each before its own children, in the order in which they were begun.

        A child belongs to the run that its first event names. A fork also names the settled children of the run it
        was forked from: these are `kept`. `only_open`: only the run's own children that it waits for now.
        A damaged child is put into `damaged` by its id, and passed over with what is below it; else JournalCorrupt.
        """
        if self._store.first(folder) is None:
            return
        root = Member(self.summary(folder, keep=False))
        yield root
        passed = {folder.path}
        left = [self._children(root, only_open=only_open, damaged=damaged)]  # no recursion: a forged tree may be deep
        while left:
            member = next(left[-1], None)
            if member is None:
                left.pop()
            elif member.folder.path not in passed:
                passed.add(member.folder.path)
                yield member
                left.append(self._children(member, only_open=only_open, damaged=damaged))

    def _children(
        self, parent: Member, *, only_open: bool, damaged: dict[str, JournalCorrupt] | None
    ) -> Iterator[Member]:
        """The child runs right below a run that were begun."""
        summary = parent.summary
        named = summary.begun
        if only_open:
            named = [(key, workflow, run_id) for key, (workflow, run_id) in summary.fold.children.items()]
        for key, workflow, run_id in named:
            child = self.child(workflow, run_id)
            try:
                if child is None or (created := self._store.first(child)) is None:
                    continue
                others = RunCreated.of(created).parentRunId != parent.folder.id
                if only_open and others:
                    continue
                below = self.summary(child, keep=False)
            except JournalCorrupt as damage:
                if damaged is None:
                    raise
                damaged[run_id] = damage
                continue
            yield Member(below, (*parent.path, key), parent.kept or others)

    def tree(self, folder: RunFolder) -> list[RunFolder]:
        """The folders of a run and of all child runs below it; the run itself is first."""
        return [member.folder for member in self.members(folder)]

    def child(self, workflow: str, run_id: str) -> RunFolder | None:
        """The folder of a child run; None if the id in the journal cannot be a run's."""
        return RunFolder(self._root_of(workflow) / run_id) if is_id(run_id) else None

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


def trusted(facts: RunCreated, *, own: bool) -> RunCreated:
    """The facts of a run; without what a person typed, unless this user's `own` key sealed them."""
    if own:
        return facts
    models = {name: value for name, value in facts.models.items() if name not in _TYPED}
    return msgspec.structs.replace(facts, typed=(), models=models)


def number_text(number: int) -> str:
    """The number of a run as a person types it; `-` for a run without one."""
    return f"@{number}" if number else "-"


def _goal(began: RunCreated) -> str:
    return brief(began.goal, _GOAL)


def _words(text: str) -> list[str]:
    """The words of a text, for comparing."""
    return unicodedata.normalize("NFC", text[:_MOST_GOAL]).casefold().split()
