"""The patches that journals record as applied: what each changed, and what it kept of the files before.

Rules
1. Only the granted files of a patch count. Paths are those in the project: each run may work in a folder of its own
   (RUN_CREATED.folder). A run in a copy of the project (core/copies.py) changes the copy and not the project: who asks
   for the patches of several runs takes those that share one copy, or the project.
2. Patches of several runs are put in the order of time. Those of one run stay in the order of its journal.
3. What a patch kept (patch/undo.py) is read from the file that its event names, and checked against the event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from orchestra.core.errors import UsageError
from orchestra.core.files import MIB
from orchestra.core.reading import outcome_as
from orchestra.core.records import ArtifactRef, Event
from orchestra.core.run import RunFolder
from orchestra.core.work import Applied, PatchProposal
from orchestra.patch.undo import AppliedPatch, Undo, UndoFile

_MOST_UNDO = 64 * MIB


class Journaled(Struct, frozen=True):
    """A run, the folder in the project and the copy of the project that it works in, and its events."""

    folder: RunFolder
    inside: str
    copy: str
    events: Iterable[Event]


class Timed(Struct, frozen=True):
    """An applied patch, and the event that records it."""

    run_id: str
    event: str
    time: str
    patch: AppliedPatch
    risks: tuple[str, ...] = ()  # what the gate found in it


def applied_in(run: Journaled, *, kept: bool = True) -> Iterator[Timed]:
    """The applied patches of one run. Without `kept`, what they kept is not read: only their files are known."""
    below = f"{run.inside}/" if run.inside else ""
    offered: dict[str, PatchProposal] = {}
    for event in run.events:
        if event.type == "PATCH_PRODUCED" and (proposal := outcome_as(event, PatchProposal)):
            offered[proposal.digest] = proposal
        elif event.type == "PATCH_APPLIED" and (done := outcome_as(event, Applied)):
            granted = {file.path for file in done.after}
            made = offered.get(done.digest)
            files = tuple(file for file in made.files if file.path in granted) if made else ()
            undo = None
            if kept and done.undo is not None:
                undo = _kept(run.folder, done.undo)
            patch = renamed(AppliedPatch(files, undo), lambda path: below + path)
            yield Timed(run.folder.id, event.id, event.ts, patch, made.risks if made else ())


def _kept(folder: RunFolder, undo: ArtifactRef) -> Undo:
    """What a patch kept; UsageError if its file is gone or cannot be read (rule 3)."""
    try:
        return msgspec.json.decode(folder.recorded(undo, _MOST_UNDO), type=Undo)
    except msgspec.DecodeError as error:
        raise UsageError(f"{undo.path} of run {folder.id} cannot be read: {error}") from error


def in_order(patches: Iterable[Timed]) -> tuple[AppliedPatch, ...]:
    """The patches in the order in which they were applied (rule 2)."""
    return tuple(one.patch for one in sorted(patches, key=lambda one: one.time))  # stable


def renamed(patch: AppliedPatch, name: Callable[[str], str]) -> AppliedPatch:
    """The patch with other paths."""
    files = tuple(
        replace(file, path=name(file.path), oldPath=None if file.oldPath is None else name(file.oldPath))
        for file in patch.files
    )
    undo = patch.undo
    if undo is not None:
        undo = Undo(tuple(UndoFile(name(f.path), f.back) for f in undo.files), tuple(map(name, undo.made)))
    return replace(patch, files=files, undo=undo)
