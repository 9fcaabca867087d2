"""The archive: every run of a project, found and read. It changes nothing and drives nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from orchestra.core.engine import Workflow
from orchestra.core.errors import DurabilityError, JournalCorrupt, UsageError
from orchestra.core.journal import read_first
from orchestra.core.keyring import Keyring
from orchestra.core.machine import Fold
from orchestra.core.records import Event, utc
from orchestra.core.run import RunFolder, is_driven
from orchestra.core.vouching import elsewhere, read_run
from orchestra.core.work import Masked, PatchProposal, Reply
from orchestra.gatekeeper import exact_patch, parts_about
from orchestra.patch.result import Patch


class RunSummary(Struct, frozen=True):
    """One line of `orchestra runs`."""

    folder: RunFolder
    events: list[Event]
    fold: Fold
    driven: bool
    foreign: str = ""  # why nobody vouches for it here; empty if somebody does

    @property
    def created(self) -> Event:
        return self.events[0]

    @property
    def workflow(self) -> str:
        return str(self.created.payload.get("workflow"))

    @property
    def dry(self) -> bool:
        """Whether nothing of it is run (`--dry-run`)."""
        return bool(self.created.payload.get("params", {}).get("dry"))

    @property
    def parent(self) -> str | None:
        parent = self.created.payload.get("parentRunId")
        return str(parent) if parent else None


class ShownPatch(Struct, frozen=True):
    """A patch as a person sees it, and what of it they do not."""

    diff: str
    masked: tuple[Masked, ...] = ()


class Archive:
    """The runs of one project folder."""

    project: Path
    workflows: dict[str, Workflow]
    keyring: Keyring

    def folders(self) -> list[RunFolder]:
        """Every run of this project that was started, oldest first."""
        found: list[tuple[str, RunFolder]] = []
        for root in dict.fromkeys(workflow.root for workflow in self.workflows.values()):
            for name in (n for n in os.listdir(root) if not n.startswith(".")) if root.is_dir() else ():
                folder = RunFolder(root / name)
                if (began := _began(folder)) is not None:
                    found.append((began, folder))
        return [folder for _, folder in sorted(found, key=lambda entry: (entry[0], entry[1].id))]

    def find(self, reference: str) -> RunFolder:
        """A run by its id, a unique prefix of it, or `last`."""
        if not reference:
            raise UsageError("the run's id is empty; give an id, a unique prefix of one, or `last`")
        folders = self.folders()
        if reference == "last":
            if folders:
                return folders[-1]
            raise UsageError(f'no run in {self.project} yet; start one: orchestra loop "GOAL" --check "CMD"')
        matches = [f for f in folders if f.id == reference] or [f for f in folders if f.id.startswith(reference)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            shown = "".join(f"\n  {f.id}" for f in matches[:10])
            raise UsageError(f"{reference!r} fits {len(matches)} runs; give more of the id:{shown}")
        raise UsageError(
            f"no run {reference!r} in {self.project} (orchestra runs lists them; -C DIR names another project)"
        )

    def root_of(self, folder: RunFolder) -> RunFolder:
        """The run at the top of this run's tree."""
        passed = {folder.id}
        while (created := read_first(folder.events)) is not None and (parent := created.payload.get("parentRunId")):
            folder = self.find(str(parent))
            if folder.id in passed:
                raise DurabilityError(f"run {folder.id} says that it is its own child; nothing was changed")
            passed.add(folder.id)
        return folder

    def summary(self, folder: RunFolder) -> RunSummary:
        """What a run is now, folded from its journal."""
        standing = read_run(folder, self.keyring.known)
        foreign = standing.foreign or elsewhere(standing.workspace, str(self.project))
        return RunSummary(folder, standing.events, Fold.of(standing.events), is_driven(folder), foreign)

    def family(self, folder: RunFolder) -> list[RunSummary]:
        """A run and the open child runs below it, itself first."""
        return self.tree(folder, only_open=True)

    def tree(self, folder: RunFolder, *, only_open: bool = False) -> list[RunSummary]:
        """A run and the child runs below it that were begun, itself first; `only_open`: those it waits for now."""
        found: dict[Path, RunSummary] = {}
        queue = [folder]
        while queue:
            one = queue.pop(0)
            if one.path in found or read_first(one.events) is None:
                continue
            summary = found[one.path] = self.summary(one)
            named = [(e.payload.get("workflow"), e.payload["childRunId"]) for e in summary.events if _begins_child(e)]
            children = list(summary.fold.children.values()) if only_open else named
            queue += [child for name in children if (child := self._child(*map(str, name))) is not None]
        return list(found.values())

    def _child(self, workflow: str, run_id: str) -> RunFolder | None:
        """The folder of a child run; None if a journal of anybody's names none that could be one."""
        plain = run_id == os.path.basename(run_id) and run_id not in ("", ".", "..")
        return RunFolder(self.workflows[workflow].root / run_id) if plain and workflow in self.workflows else None

    def patches(self, folder: RunFolder, *, exact: bool = False) -> list[ShownPatch]:
        """The patches a run waits with, or else every patch it applied, as far as a person took it."""
        summary = self.summary(folder)
        taken = [(e.payload["patch"]["path"], e.payload["files"]) for e in _asked(summary, "patch")]
        made: dict[str, str] = {}  # by scope: the newest patch there is the one that is applied there
        for event in summary.events if not taken else ():
            scope = str(event.payload.get("key", "")).rpartition("/")[0]
            if event.type == "PATCH_PRODUCED":
                made[scope] = event.payload["outcome"]["patch"]["path"]
            elif event.type == "PATCH_APPLIED":
                taken.append((made[scope], event.payload["outcome"]["after"]))
        told = (e.payload["outcome"] for e in summary.events if e.type == "PATCH_PRODUCED")
        made_of = {outcome["patch"]["path"]: msgspec.convert(outcome, PatchProposal) for outcome in told}
        return [_patch(folder, path, made_of.get(path), files, exact=exact) for path, files in taken]

    def plan(self, folder: RunFolder) -> dict[str, Any] | None:
        """The plan a run waits with."""
        for event in _asked(self.summary(folder), "plan"):
            return read_plan_file(folder.path / event.payload["patch"]["path"])
        return None

    def summaries(self) -> list[RunSummary]:
        """Every readable run."""
        return [summary for _, summary in self.overview() if isinstance(summary, RunSummary)]

    def overview(self) -> Iterator[tuple[RunFolder, RunSummary | JournalCorrupt]]:
        """Every run, oldest first; of a damaged one, what is wrong with it."""
        for folder in self.folders():
            try:
                yield folder, self.summary(folder)
            except JournalCorrupt as damage:
                yield folder, damage


def _asked(summary: RunSummary, subject: str) -> list[Event]:
    """The approvals of this kind that a run waits for."""
    asked = (e for e in summary.fold.pending.values() if e.type == "APPROVAL_REQUESTED")
    return [event for event in asked if event.payload.get("subject", "patch") == subject]


def _patch(
    folder: RunFolder, path: str, made: PatchProposal | None, files: list[dict[str, Any]], *, exact: bool
) -> ShownPatch:
    """Of a patch what is about these files; `made` is how it was proposed, where the journal tells it."""
    paths = {file["path"] for file in files}
    if exact and made is not None and made.exact is not None:
        patch = exact_patch(Reply("", made.exact), folder)
        if not isinstance(patch, Patch):
            raise UsageError(patch.message)
        return ShownPatch(parts_about(patch.diff, paths))
    file = folder.path / path
    try:
        shown = parts_about(file.read_text(encoding="utf-8", errors="replace"), paths)
    except FileNotFoundError:
        raise UsageError(f"{file} is gone; the raw reply beside it may still hold the patch") from None
    return ShownPatch(shown, tuple(span for span in (made.masked if made else ()) if span.path in paths))


def read_plan_file(path: Path) -> dict[str, Any]:
    """A plan as it was written down."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def _begins_child(event: Event) -> bool:
    return event.type == "PHASE_STARTED" and "childRunId" in event.payload


def _began(folder: RunFolder) -> str | None:
    """When a run began; None if this is no run. A damaged run is still a run: its file's time must do."""
    try:
        created = read_first(folder.events)
        return created.ts if created else None
    except JournalCorrupt:
        return utc(datetime.fromtimestamp(folder.events.stat().st_mtime, UTC))
    except OSError:
        return None
