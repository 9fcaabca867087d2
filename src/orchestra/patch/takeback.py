"""Handlers of ProposeTakeBack and TakeBack: they restore what the patches of some runs have changed.

Rules
1. The patches are those that the journals of the runs, and of the runs below them, record as applied, in the order of
   time (patch/journaled.py). A run that is foreign is refused: its journal may name anything.
2. Paths are compared in the project: each run has its own folder (RUN_CREATED.folder). A path outside the folder of the
   run that takes back is refused, and so is one that is closed to patches. What a run changed in a copy of the project
   (core/copies.py) is not in the project.
3. Taking back is a patch like any other: produced, granted by the policy, applied exactly once, and it keeps what it
   replaces. So a take-back can be taken back. What is computed is in patch/undo.py.
4. With `below`, also the patches of the run's own steps whose keys begin so are taken back, and of their child runs.
5. With `since`, only patches that came after this event are taken back. It is an event of the first of the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import UnsetType
from msgspec.structs import replace

from orchestra.core.context import Step
from orchestra.core.errors import OrchestraError
from orchestra.core.ledger import Ledger
from orchestra.core.reading import StepEvent, key_of
from orchestra.core.records import utf8
from orchestra.core.run import digest
from orchestra.core.work import Applied, PatchProposal, ProposeTakeBack, Refusal, Since, TakeBack, refused_patch
from orchestra.patch.apply import read_files
from orchestra.patch.granted import Granted
from orchestra.patch.hidden import hidden_lines
from orchestra.patch.journaled import Journaled, Timed, applied_in, in_order, renamed
from orchestra.patch.prepared import Prepared, prepared
from orchestra.patch.undo import AppliedPatch, folders_made, paths_of, taken_back

TreesOf = Callable[[str], Iterable[Journaled]]  # a run and the runs below it, by its id; raises for a foreign one
ClosedTo = Callable[[Sequence[str]], Refusal | None]


class TakingBack:
    """The handlers, for one workspace.

    `inside` is its path in the project, empty for the project itself; `copy` is the copy of the project that it is in.
    """

    def __init__(self, workspace: Path, inside: str, copy: str, *, trees: TreesOf, closed: ClosedTo) -> None:
        self._workspace = workspace
        self._inside = f"{inside}/" if inside else ""
        self._copy = copy
        self._trees = trees
        self._closed = closed

    async def propose(self, effect: ProposeTakeBack, step: Step) -> PatchProposal:
        """What taking back would do to the files as they are now; writes only the readable `*.patch`."""
        ledger = step.ledger
        patches = self._patches(effect, ledger)
        made = patches if isinstance(patches, Refusal) else self._prepared(patches)
        path = ledger.folder.artifact(effect.artifact)
        text = "" if isinstance(made, Refusal) else made.diff
        shown = utf8(ledger.redactor.text(text))
        ledger.disk.publish(path, shown, durable=True)  # D-04: before the event that names it
        reference = ledger.folder.reference(path, shown)
        if isinstance(made, Refusal):
            told = replace(made, message=f"{made.message}; nothing was taken back")
            return refused_patch(reference, digest(utf8(told.message)), told)
        return PatchProposal(
            patch=reference,
            digest=digest(utf8(made.diff + made.digest)),
            files=tuple(part.file for part in made.files),
            added=made.added,
            removed=made.removed,
            masked=tuple(span for f in made.files for span in hidden_lines(f.file.path, f.diff, ledger.redactor)),
        )

    async def apply(self, effect: TakeBack, step: Step) -> Applied:
        """Restore every file from its recorded `before` to its `after`, whatever a crash left."""
        patches = self._patches(effect, step.ledger)

        def prepare(undone: set[str]) -> Prepared | Refusal:
            made = patches if isinstance(patches, Refusal) else self._prepared(patches)
            if isinstance(made, Refusal):
                return made
            return prepared([part for part in made.files if part.file.path in undone])

        folders = frozenset() if isinstance(patches, Refusal) else folders_made(patches)
        return Granted(self._workspace, effect.files, effect.digest, step.ledger).bring(prepare, made=folders)

    def _prepared(self, patches: Sequence[AppliedPatch]) -> Prepared | Refusal:
        paths = paths_of(patches)
        if refused := self._closed(paths):
            return refused
        images = read_files(self._workspace, paths)
        return images if isinstance(images, Refusal) else taken_back(patches, images)

    def _patches(self, effect: ProposeTakeBack | TakeBack, ledger: Ledger) -> tuple[AppliedPatch, ...] | Refusal:
        """The applied patches that the effect is about, by their paths here, in the order of application (rule 1)."""
        try:
            here = (run for run in self._journals(effect, ledger) if run.copy == self._copy)
            found = [patch for run in here for patch in applied_in(run)]
            if not isinstance(effect.since, UnsetType):
                found = _after(found, effect.runs[0], effect.since)
        except OrchestraError as error:
            return Refusal("conflict", f"{error}")
        ordered = in_order(found)
        outside = [path for path in paths_of(ordered) if not path.startswith(self._inside)]
        if outside:
            why = f"{', '.join(outside)}: outside {self._inside or '.'}, where this run works"
            return Refusal("path_violation", why, outside[0])
        return tuple(renamed(patch, lambda path: path.removeprefix(self._inside)) for patch in ordered)

    def _journals(self, effect: ProposeTakeBack | TakeBack, ledger: Ledger) -> Iterator[Journaled]:
        """The runs that the effect is about, and the runs below them."""
        trees = list(effect.runs)
        if not isinstance(effect.below, UnsetType):  # rule 4
            part = [event for event in ledger.events if key_of(event).startswith(effect.below)]
            trees += (StepEvent.of(event).childRunId for event in part if event.type == "PHASE_STARTED")
            yield Journaled(ledger.folder, self._inside.rstrip("/"), self._copy, part)
        for run in (one for tree in dict.fromkeys(filter(None, trees)) for one in self._trees(tree)):
            own = run.folder.id == ledger.folder.id  # its last events may not be on disk yet
            yield replace(run, events=ledger.events) if own else run


def _after(patches: Iterable[Timed], run_id: str, since: Since) -> list[Timed]:
    """The patches that came after an event of this run: in its own journal by their ids, in others by their times."""
    return [one for one in patches if (one.event > since.event if one.run_id == run_id else one.time > since.time)]
