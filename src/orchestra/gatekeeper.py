"""The gatekeeper: what stands between a model's patch and the files. Decides purely, applies exactly once.

Rules
1. Nothing is applied that was not granted; every grant and rejection is an event, also the policy's own (S1-74, S1-75,
   C-19).
2. A grant binds to a digest of the exact patch and of the files it was computed against (D-11). If a file changed on
   disk since, the patch is not applied and the run says so.
3. The files' hashes before and after are in PATCH_PRODUCED, before the first byte is written (D-12). After a crash
   each file is one or the other: the apply is completed, or the conflict reported; never repeated blindly.
4. The exact bytes of a patch come from the raw reply. What people read (`*.patch`, events) is redacted; a secret in a
   patch is a reason to ask, never silently altered.
5. A diff that had to be repaired is stored as what will really change, as git applies it, and the event says what was
   repaired. Where only a guess would go on (`doubts`), a person decides; under approval `never` it is refused.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from orchestra.core.context import Step
from orchestra.core.ledger import Ledger
from orchestra.core.records import utf8
from orchestra.core.redact import Redactor
from orchestra.core.run import digest
from orchestra.core.work import (
    Applied,
    ApplyPatch,
    Approval,
    AutoApprove,
    FileStat,
    PatchFile,
    PatchProposal,
    ProposePatch,
    Refusal,
    RefusePatch,
    Reply,
)
from orchestra.patch.apply import apply, read_images, status
from orchestra.patch.diff import FileChange, Refused, parse_diff
from orchestra.patch.locate import compute
from orchestra.patch.prepared import Prepared, PreparedFile
from orchestra.patch.result import Patch, parse_result
from orchestra.patch.safety import risks


class Gatekeeper:
    """Handlers of the patch effects for one workspace."""

    def __init__(self, workspace: Path, watchful: Redactor) -> None:
        """`watchful` finds secrets in patches, whether or not logs are redacted."""
        self._workspace = workspace
        self._watchful = watchful

    async def propose(self, effect: ProposePatch, step: Step) -> PatchProposal:
        """What the patch would do to the files as they are now; writes only the readable `*.patch` (S1-105, S1-108)."""
        ledger = step.ledger
        exact = _exact_patch(effect.reply, ledger)
        if isinstance(exact, Refused):
            return PatchProposal(effect.reply.raw, effect.reply.raw.sha256, (), 0, 0, refusal=_refusal(exact))
        diff, path = exact.diff, ledger.folder.artifact(effect.artifact)
        changes = parse_diff(diff)
        prepared = changes if isinstance(changes, Refused) else _secret_name(changes, ledger) or self._prepare(changes)
        shown = utf8(ledger.redactor.text(_readable(exact, prepared)))
        ledger.disk.publish(path, shown, durable=True)  # D-04: before the event that names it
        reference = ledger.folder.reference(path, shown)
        if isinstance(prepared, Refused):
            refusal = _refusal(prepared)
            return PatchProposal(reference, digest(utf8(diff)), (), 0, 0, refusal=refusal, repaired=exact.repaired)
        assert not isinstance(changes, Refused)
        files = tuple(_file(f) for f in prepared.files)
        found = (*risks(changes), *_secrets(changes, self._watchful), *prepared.doubts)
        analysis = msgspec.json.format(msgspec.json.encode({"risks": found})) + b"\n"
        ledger.disk.publish(path.with_suffix(".gatekeeper-risk.json"), analysis, durable=False)
        return PatchProposal(
            patch=reference,
            digest=digest(utf8(diff + prepared.digest)),  # the patch, and the files it was computed against (D-11)
            files=files,
            added=prepared.added,
            removed=prepared.removed,
            risks=found,
            repaired=exact.repaired,
            doubts=prepared.doubts,
        )

    async def grant(self, effect: AutoApprove, step: Step) -> Approval:
        """The policy's own grant."""
        return Approval(granted=True, by=f"policy (approval: {effect.policy})", digest=effect.digest)

    async def refuse(self, effect: RefusePatch, step: Step) -> Applied:
        """Write down why a patch was not even offered."""
        return Applied(before=(), after=(), digest=effect.digest, refusal=effect.refusal)

    async def apply(self, effect: ApplyPatch, step: Step) -> Applied:
        """Bring every granted file from its recorded `before` to its `after`, whatever a crash left (rule 3)."""
        announced = tuple(FileStat(f.path, f.added, f.removed) for f in effect.files)
        refused = self._apply(effect, step.ledger) or self._unfinished(effect)
        if refused is not None:
            return Applied(before=announced, after=(), digest=effect.digest, refusal=_refusal(refused))
        return Applied(before=announced, after=announced, digest=effect.digest)

    def _unfinished(self, effect: ApplyPatch) -> Refused | None:
        """Look at the disk once more: PATCH_APPLIED is recorded only if every file is as granted (T-2)."""
        for file in status(self._workspace, tuple(map(_prepared_file, effect.files))):
            if file.state != "after":
                return Refused("conflict", file.path, f"{file.path} is not as granted after applying. {file.message}")
        return None

    def _apply(self, effect: ApplyPatch, ledger: Ledger) -> Refused | None:
        found = status(self._workspace, tuple(map(_prepared_file, effect.files)))
        for file in found:
            if file.state == "conflict":
                why = f"{file.path} changed on disk since the patch was computed; nothing was written. {file.message}"
                return Refused("conflict", file.path, why)
        undone = {file.path for file in found if file.state == "before"}
        exact = _exact_patch(effect.reply, ledger)
        changes = exact if isinstance(exact, Refused) else parse_diff(exact.diff)
        if isinstance(changes, Refused):
            return changes
        prepared = self._prepare(tuple(c for c in changes if c.path in undone), half_done=effect.files)
        if isinstance(prepared, Refused):
            return prepared
        granted = {file.path: (file.before, file.after) for file in effect.files if file.path in undone}
        if {file.path: (file.before, file.after) for file in prepared.files} != granted:  # D-11
            return Refused("conflict", "", "what would be written now is not what was granted; nothing was written")
        done = apply(self._workspace, prepared, disk=ledger.disk, scratch=ledger.folder.scratch)
        return done if isinstance(done, Refused) else None

    def _prepare(self, changes: tuple[FileChange, ...], half_done: tuple[PatchFile, ...] = ()) -> Prepared | Refused:
        images = read_images(self._workspace, changes)
        if isinstance(images, Refused):
            return images
        for file in half_done:
            image = images.get(file.path)
            if file.change == "rename" and image is not None and digest(image.data) == file.after:
                images[file.path] = None  # a kill fell between the new name and the old one's removal: go on from there
        return compute(changes, images)


def parts_about(diff: str, paths: set[str]) -> str:
    """The parts of a diff about these files; names may be quoted as git does it."""
    parts = re.split(r"^(?=diff --git )", diff, flags=re.MULTILINE)
    changes = [(part, parse_diff(part)) for part in parts]
    return "".join(part for part, made in changes if isinstance(made, Refused) or {c.path for c in made} & paths)


def _readable(exact: Patch, prepared: Prepared | Refused) -> str:
    """What people read: the diff of the reply; if it had to be repaired, what will really change."""
    if isinstance(prepared, Prepared) and (exact.repaired or prepared.doubts):
        return prepared.diff
    return exact.diff


def _exact_patch(reply: Reply, ledger: Ledger) -> Patch | Refused:
    """The patch as the model wrote it: inline if redaction left the reply alone, else from its raw file (rule 4)."""
    text = reply.text
    if digest(utf8(text)) != reply.raw.sha256:
        path = ledger.folder.find(reply.raw)
        if path is None:
            why = (
                f"the exact reply ({reply.raw.path}) is gone or was changed, and its redacted copy is no patch to apply"
            )
            return Refused("conflict", "", why)
        text = path.read_bytes().decode("utf-8", "replace")
    result = parse_result(text)
    return result if isinstance(result, Patch) else Refused("invalid_patch", "", "the reply holds no patch")


def _secret_name(changes: tuple[FileChange, ...], ledger: Ledger) -> Refused | None:
    """A path that holds a secret could not be written down, so it cannot be applied either."""
    for path in (path for change in changes for path in change.paths):
        if ledger.redactor.text(path) != path:
            return Refused("path_violation", "", "a file name in the patch holds a secret; choose another name")
    return None


def _secrets(changes: tuple[FileChange, ...], redactor: Redactor) -> tuple[str, ...]:
    lines = (line for change in changes for hunk in change.hunks for line in hunk.lines)
    added = "\n".join(line.text for line in lines if line.op == "+")
    return tuple(f"adds a secret: {name}" for name in redactor.found(added))


def _file(prepared: PreparedFile) -> PatchFile:
    return PatchFile(
        path=prepared.path,
        change=prepared.kind,
        before=prepared.before,
        after=prepared.after,
        added=prepared.added,
        removed=prepared.removed,
        mode=prepared.mode,
        beforeMode=prepared.before_mode,
        oldPath=prepared.old_path,
    )


def _prepared_file(file: PatchFile) -> PreparedFile:
    return PreparedFile(
        path=file.path,
        kind=file.change,
        old_path=file.oldPath,
        before=file.before,
        after=file.after,
        mode=file.mode,
        data=None,
        added=file.added,
        removed=file.removed,
        diff="",
        before_mode=file.beforeMode,
    )


def _refusal(refused: Refused) -> Refusal:
    return Refusal(reason=refused.reason, message=refused.message, path=refused.path)
