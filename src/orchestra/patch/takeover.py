"""Handler of TakeOver: what a run changed in its copy of the project (core/copies.py), as a diff for the gate.

Rules
1. The changes are those of the patches that the run, and the runs below it, applied in the copy: exactly what was
   granted there. What else happened to the copy is not taken.
2. The diff is from the files as they were when the copy was made (patch/undo.py) to the files as they are now. So an
   edit of the project since then is not reverted: the gate finds the place of each change, or refuses it.
3. If the copy has a file that is not as the patches left it, the step fails and names the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from orchestra.core.context import Step
from orchestra.core.copies import Copies
from orchestra.core.errors import OrchestraError, StepFailed
from orchestra.core.work import Refusal, TakenOver, TakeOver
from orchestra.patch.apply import read_files
from orchestra.patch.gatekeeper import kept_diff
from orchestra.patch.journaled import Journaled, Timed, applied_in, in_order
from orchestra.patch.locate import Image
from orchestra.patch.prepared import PreparedFile
from orchestra.patch.takeback import TreesOf
from orchestra.patch.undo import AppliedPatch, paths_of, taken_back
from orchestra.patch.written import diff_of

NOT_TAKEN = "NOT_TAKEN_OVER"
_NO_COPY = Refusal("conflict", "the run did not work in a copy of the project")


class _Changed(Struct, frozen=True):
    """A changed file of the copy (patch/written.py: WrittenFile)."""

    path: str
    before: bytes | None
    after: bytes | None
    before_mode: int | None
    after_mode: int | None


class TakingOver:
    """The handler, for one project."""

    def __init__(self, copies: Copies, *, trees: TreesOf) -> None:
        self._copies = copies
        self._trees = trees

    async def __call__(self, effect: TakeOver, step: Step) -> TakenOver:
        """The diff of everything that the run changed in its copy."""
        try:
            copy, applied = _applied(list(self._trees(effect.run)))
            diff = self._diff(copy, in_order(applied)) if copy else _NO_COPY
        except OrchestraError as error:
            raise StepFailed(step.key, NOT_TAKEN, str(error)) from error
        if isinstance(diff, Refusal):
            raise StepFailed(step.key, NOT_TAKEN, diff.message)
        if not diff:
            return TakenOver()
        risks = tuple(dict.fromkeys(risk for one in applied for risk in one.risks))
        return TakenOver(kept_diff(step.ledger, effect.artifact, diff), risks)

    def _diff(self, copy: str, patches: Sequence[AppliedPatch]) -> str | Refusal:
        now = read_files(self._copies.found(copy), paths_of(patches))
        if isinstance(now, Refusal):
            return now
        before = taken_back(patches, now)
        if isinstance(before, Refusal):
            return before
        written = diff_of(_changed(part, now) for part in before.files)
        return next(iter(written.refused), written.diff)


def _applied(runs: Sequence[Journaled]) -> tuple[str, list[Timed]]:
    """The copy that the first of these runs works in, and the patches that they applied there (rule 1)."""
    copy = runs[0].copy if runs else ""
    return copy, [patch for run in runs if run.copy == copy for patch in applied_in(run)]


def _changed(part: PreparedFile, images: Mapping[str, Image | None]) -> _Changed:
    now, path = images[part.file.path], part.file.path
    return _Changed(path, part.data, now.data if now else None, part.file.mode, now.mode if now else None)
