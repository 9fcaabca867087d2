"""A diff that orchestra made, kept in a file of the run as a reply for the gate; and the net change of a child run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from orchestra.core.context import Step
from orchestra.core.errors import StepFailed
from orchestra.core.ledger import Ledger
from orchestra.core.records import utf8
from orchestra.core.work import KeepNet, NetKept, Refusal, Reply
from orchestra.patch.apply import read_files
from orchestra.patch.journaled import Journaled, applied_in, in_order, renamed
from orchestra.patch.markers import PATCH_BEGIN, PATCH_END
from orchestra.patch.undo import net_change, paths_of
from orchestra.patch.written import diff_of

NO_DIFF = "NO_DIFF"  # the error of a result that cannot be had as a diff


def kept_diff(diff: str, artifact: str, ledger: Ledger) -> Reply:
    """Write a diff to a file of the run, between the marks that the gate reads."""
    body = diff.rstrip("\n")  # only newlines: a context line may be a single space
    text = f"{PATCH_BEGIN}\n{body}\n{PATCH_END}\n"
    data = utf8(text)
    path = ledger.folder.artifact(artifact)
    ledger.disk.publish(path, data, durable=True)
    return Reply(ledger.redactor.text(text), ledger.folder.reference(path, data))


class NetOfChild:
    """Handler of KeepNet, for one project. `trees` gives a run and the runs below it."""

    def __init__(self, project: Path, trees: Callable[[str], Iterable[Journaled]]) -> None:
        self._project = project
        self._trees = trees

    async def __call__(self, effect: KeepNet, step: Step) -> NetKept:
        """The net change of a run that works in a folder of its own, with paths from there."""
        inside = f"{effect.folder}/"
        timed = (one for run in self._trees(effect.run) for one in applied_in(run))
        patches = tuple(renamed(patch, lambda path: path.removeprefix(inside)) for patch in in_order(timed))
        images = read_files(self._project / effect.folder, paths_of(patches))
        if isinstance(images, Refusal):
            raise StepFailed(step.key, NO_DIFF, images.message)
        net = net_change(patches, (), images)
        made = diff_of(net.files)
        if net.unknown or made.refused:
            why = made.refused[0].message if made.refused else f"{', '.join(net.unknown)} changed since"
            raise StepFailed(step.key, NO_DIFF, f"the result of {effect.folder} cannot be brought over: {why}")
        return NetKept(kept_diff(made.diff, effect.artifact, step.ledger) if made.diff else None)
