"""The runs of a project, found and read. Nothing is changed or driven here.

Rules
1. A run folder may be anybody's: what is read of it is bounded, and what a journal names is looked for below its own
   folder only (core/files.py).
2. Many runs are read one after the other: nothing of one but its summary is in memory when the next is read.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from orchestra.core.errors import DurabilityError, ForeignRun, JournalCorrupt, UsageError
from orchestra.core.events import Events
from orchestra.core.files import MIB
from orchestra.core.journal import first_is_own, read_first
from orchestra.core.keyring import Keyring
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
from orchestra.core.records import Event, utc
from orchestra.core.run import EVENTS, RunFolder, is_driven
from orchestra.core.tables import Fold
from orchestra.core.vouching import elsewhere, read_run
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
    foreign: str = ""  # why nobody vouches for it here; empty if somebody does

    @property
    def facts(self) -> RunCreated:
        """What it recorded of itself when it began."""
        return RunCreated.of(self.created)

    @property
    def workflow(self) -> str:
        return self.facts.workflow

    @property
    def dry(self) -> bool:
        """Whether nothing of it is run (`--dry-run`)."""
        return self.facts.params.dry

    @property
    def parent(self) -> str | None:
        return self.facts.parentRunId or None


class ShownPatch(Struct, frozen=True):
    """A patch as a person sees it, and what of it they do not."""

    diff: str
    masked: tuple[Masked, ...] = ()


class Runs:
    """The runs of one project folder."""

    def __init__(
        self, project: Path, roots: Callable[[], Iterable[Path]], root_of: Callable[[str], Path], keyring: Keyring
    ) -> None:
        """`roots` are the folders that runs lie in, `root_of` the one for runs of a workflow."""
        self.project = project
        self.keyring = keyring
        self._roots_now = roots
        self._root_of = root_of

    def folders(self) -> list[RunFolder]:
        """Every run of this project that was started, oldest first."""
        found = [(began, folder) for folder in self._named("") if (began := _began(folder)) is not None]
        return [folder for _, folder in sorted(found, key=lambda entry: (entry[0], entry[1].id))]

    def find(self, reference: str) -> RunFolder:
        """A run by its id, a unique prefix of it, or `last`."""
        if not reference:
            raise UsageError("the run's id is empty; give an id, a unique prefix of one, or `last`")
        if reference == "last":
            if folders := self.folders():
                return self._newest(folders)
            raise UsageError(f"no run in {self.project} yet; orchestra --help lists the commands that start one")
        matches = self._called(reference) or [f for f in self._named(reference) if _began(f) is not None]
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
        """The folders that runs lie in."""
        return list(dict.fromkeys(self._roots_now()))

    def _called(self, run_id: str) -> list[RunFolder]:
        """The runs of exactly this id."""
        folders = [RunFolder(root / run_id) for root in self.roots] if _is_id(run_id) else []
        return [folder for folder in folders if _began(folder) is not None]

    def _named(self, prefix: str) -> Iterator[RunFolder]:
        """The folders whose names begin so and that have a journal; what it is worth is another question."""
        for root in self.roots:
            try:
                with os.scandir(root) as entries:
                    for entry in entries:
                        if entry.name.startswith(prefix) and _is_id(entry.name) and _has_journal(entry.path):
                            yield RunFolder(root / entry.name)
            except (FileNotFoundError, NotADirectoryError):
                continue

    def _newest(self, folders: list[RunFolder]) -> RunFolder:
        """The newest run that is not foreign: a forged one may say that it is of tomorrow. Without one, the newest."""
        for folder in reversed(folders):
            try:
                if not self.summary(folder, keep=False).foreign:
                    return folder
            except JournalCorrupt:
                return folder
        return folders[-1]

    def first_of(self, run_id: str) -> Event | None:
        """The first event of a run; None if it is not here, as of a child that came without its parent."""
        try:
            return read_first(self.find(run_id).events)
        except UsageError:
            return None

    def refuse_links(self) -> None:
        """Runs are kept in folders (D-06): behind a link, evidence would lie where patches and commands reach it."""
        for root in (root for root in self.roots if root.is_relative_to(self.project)):
            depth = len(root.relative_to(self.project).parts)
            for folder in (root, *root.parents)[:depth]:
                if folder.is_symlink():
                    cure = "remove it, or name another folder in paths.runs"
                    raise UsageError(f"{folder} is a link, and runs are kept in folders: {cure}")

    def root_of(self, folder: RunFolder) -> RunFolder:
        """The run at the top of this run's tree."""
        passed = {folder.id}
        while parent := RunCreated.of(read_first(folder.events)).parentRunId:
            folder = self.find(parent)
            if folder.id in passed:
                raise DurabilityError(f"run {folder.id} says that it is its own child; nothing was changed")
            passed.add(folder.id)
        return folder

    def summary(self, folder: RunFolder, *, keep: bool = True) -> RunSummary:
        """What a run is now, folded from its journal. Without `keep` its events are read again when they are wanted."""
        fold = Fold()
        standing = read_run(folder, self.keyring.known, each=fold.add, keep=keep)
        if standing.created is None:
            raise JournalCorrupt(str(folder.events), 0, "holds no event")
        foreign = standing.foreign or elsewhere(standing.workspace, str(self.project))
        return RunSummary(folder, standing.created, standing.events, fold, is_driven(folder), foreign)

    def vouched(self, folder: RunFolder) -> RunSummary:
        """What a run is now; ForeignRun if nobody vouches for it."""
        summary = self.summary(folder)
        if summary.foreign:
            raise ForeignRun(folder.id, summary.foreign)
        return summary

    def vouched_root(self, folder: RunFolder) -> RunSummary:
        """The run at the top of this run's tree; a foreign run, which may name anybody's as its parent, has none."""
        summary = self.vouched(folder)
        root = self.root_of(folder)
        return summary if root.path == folder.path else self.vouched(root)

    def facts(self, created: Event) -> RunCreated:
        """What a run recorded of itself when it began. What a person typed counts only if this user's key made it."""
        facts = RunCreated.of(created)
        folder = self._child(facts.workflow, created.runId)
        if folder is not None and first_is_own(folder.events, self.keyring.known):
            return facts
        models = {name: value for name, value in facts.models.items() if name != "typedBudget"}
        return msgspec.structs.replace(facts, typed=(), models=models)

    def family(self, folder: RunFolder) -> list[RunSummary]:
        """A run and the open child runs below it, itself first."""
        return [self.summary(one, keep=False) for one in self.tree(folder, only_open=True)]

    def tree(self, folder: RunFolder, *, only_open: bool = False) -> list[RunFolder]:
        """A run and the child runs below it that were begun, itself first; `only_open`: those it waits for now."""
        found: dict[Path, RunFolder] = {}
        queue = deque([folder])
        while queue:
            one = queue.popleft()
            if one.path in found or read_first(one.events) is None:
                continue
            found[one.path] = one
            summary = self.summary(one, keep=False)
            named = summary.fold.children.values() if only_open else _children(summary.events)
            queue += [child for name in named if (child := self._child(*name)) is not None]
        return list(found.values())

    def _child(self, workflow: str, run_id: str) -> RunFolder | None:
        """The folder of a child run; None if a journal of anybody's names none that could be one."""
        return RunFolder(self._root_of(workflow) / run_id) if _is_id(run_id) else None

    def patches(self, folder: RunFolder, *, exact: bool = False) -> Iterator[ShownPatch]:
        """The patches a run waits with, or else every patch it applied, as far as a person took it."""
        summary = self.summary(folder)
        asked = [Request.of(event) for event in summary.fold.pending.values() if _asks_for_patch(event)]
        taken = [(request.patch, request.files) for request in asked]
        made: dict[str, Reference | None] = {}  # by scope: the newest patch there is the one that is applied there
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
        """The approval that a run waits for and that is not about a patch; None if there is none."""
        pending = self.summary(folder).fold.pending.values()
        asked = (event for event in pending if event.type == "APPROVAL_REQUESTED")
        return next((event for event in asked if Request.of(event).subject != "patch"), None)

    def report_of(self, folder: RunFolder) -> Iterator[str]:
        """The report a run left, line by line; nothing if it left none."""
        try:
            for line in folder.lines(folder.report.name, MOST_REPORT):
                yield line.decode("utf-8", "replace").rstrip("\n")
        except FileNotFoundError:
            return

    def overview(self) -> Iterator[tuple[RunFolder, RunSummary | JournalCorrupt]]:
        """Every run, oldest first; of a damaged one, what is wrong with it (rule 2)."""
        for folder in self.folders():
            try:
                yield folder, self.summary(folder, keep=False)
            except JournalCorrupt as damage:
                yield folder, damage
            except FileNotFoundError:
                continue  # it was removed meanwhile


def _asks_for_patch(request: Event) -> bool:
    return request.type == "APPROVAL_REQUESTED" and Request.of(request).subject == "patch"


def _path(patch: Reference | None) -> str:
    return patch.path if patch else ""


def _patch(
    folder: RunFolder, said: Reference | None, made: PatchProposal | None, files: Iterable[ChangedFile], *, exact: bool
) -> ShownPatch:
    """Of the patch an event names what is about these files; `made` is how it was proposed, if the journal tells it."""
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
    """The child runs that were begun: workflow and id."""
    for event in events:
        if event.type == "PHASE_STARTED" and (step := StepEvent.of(event)).childRunId:
            yield step.workflow, step.childRunId


def _began(folder: RunFolder) -> str | None:
    """When a run began; None if this is no run. A damaged run is still a run: its file's time must do."""
    try:
        created = read_first(folder.events)
        return created.ts if created else None
    except JournalCorrupt:
        return utc(datetime.fromtimestamp(os.lstat(folder.events).st_mtime, UTC))
    except OSError:
        return None


def _has_journal(path: str) -> bool:
    """Whether there is something in the journal's place: a folder may hold very many that are no runs."""
    return os.path.lexists(f"{path}/{EVENTS}")


def _is_id(name: str) -> bool:
    """Whether this may be a run's id: the name of a folder that is not hidden."""
    return name == os.path.basename(name) and not name.startswith(".") and "\0" not in name and name != ""
