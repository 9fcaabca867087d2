"""The gatekeeper: handlers of the patch effects. It works out what a patch would do, and applies it exactly once.

Rules
1. Nothing is applied that was not granted; every grant and rejection is an event, the policy's own too (S1-74, S1-75,
   C-19).
2. A grant binds to a digest of the exact patch and of the files it was computed against (D-11). If a file changed on
   disk since, the patch is not applied and the refusal names the file.
3. The files' hashes before and after are in PATCH_PRODUCED, before the first byte is written (D-12). After a crash
   each file is one or the other: the apply is completed, or the conflict reported; never repeated blindly.
4. The exact bytes of a patch come from the raw reply. What people read (`*.patch`, events) is redacted; a secret in a
   patch is a reason to ask and never silently altered; the proposal lists the masked parts (patch/hidden.py).
5. Closed to patches: orchestra's own folders, those the configuration names, and environments (`.venv`,
   `node_modules`), under every name and through every link. Files that orchestra obeys (its configuration, and the
   programs and replies named in it) need a person under every approval mode. Links are resolved anew each time.
6. A diff that had to be repaired is stored in the form that git applies, with what will really change; the event lists
   the repairs. If the place of a change is only a guess (`doubts`), a person decides; under approval `never` it is
   refused.
7. A change of lines that the patch's writer was not shown is a reason to ask (patch/unseen.py).
8. A person's own version of a patch (parts of it, or an edited one) is a patch like any other. Its grant is bound to
   what the person saw: if a file has changed since, it is not applied.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import UnsetType

from orchestra.core.context import Step
from orchestra.core.ledger import Ledger
from orchestra.core.names import CONTRACTS, OWN, met_folder
from orchestra.core.reading import outcome_as
from orchestra.core.records import Event, utf8
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder, digest
from orchestra.core.secretfiles import secret_by_name
from orchestra.core.work import (
    Applied,
    ApplyPatch,
    Approval,
    Asking,
    AutoApprove,
    PatchFile,
    PatchProposal,
    ProposePatch,
    Refusal,
    RefusePatch,
    Reply,
    Revise,
    Revision,
    refused_patch,
)
from orchestra.patch.apply import names_beside, read_images
from orchestra.patch.choosing import Part, parts_of
from orchestra.patch.diff import FileChange, parse_diff
from orchestra.patch.granted import Granted
from orchestra.patch.hidden import hidden_lines
from orchestra.patch.locate import compute
from orchestra.patch.markers import enclosed
from orchestra.patch.prepared import Prepared
from orchestra.patch.result import Patch, Unparsable, parse_result
from orchestra.patch.safety import NOTHING, check, guarded, judged_by, risks
from orchestra.patch.sensitive import kind_of
from orchestra.patch.unseen import unseen


class Preview(msgspec.Struct, frozen=True):
    """What a diff would change, and the digest that its grant is bound to (D-11)."""

    prepared: Prepared
    digest: str


class Gatekeeper:
    """Handlers of the patch effects for one workspace."""

    def __init__(
        self,
        workspace: Path,
        watchful: Redactor,
        *,
        closed: Sequence[str],
        installed: Sequence[str] = (),
        code: Mapping[str, str],
        code_folders: Mapping[str, str] = NOTHING,
        approval: Asking | None = None,
    ) -> None:
        """`watchful` finds secrets in patches, whether or not logs are redacted.

        `closed` are the folders, by whole paths, that the configuration closes besides OWN; `installed` those of
        environments, which commands use and patches may not change; `code` are the files that
        orchestra obeys, with what they are, and `code_folders` those that such code imports from. `approval` is the
        project's mode now, if it asks a person more often than the run's.
        """
        self._workspace = workspace
        self._watchful = watchful
        self._closed = (*(f"{workspace}/{folder}" for folder in OWN), *closed)
        self._installed = installed
        self._code = code
        self._code_folders = code_folders
        self._approval = approval
        self._made: set[str] | None = None  # the files that this run has added

    async def propose(self, effect: ProposePatch, step: Step) -> PatchProposal:
        """What the patch would do to the files as they are now; writes only the readable `*.patch` (S1-105, S1-108)."""
        ledger = step.ledger
        exact = exact_patch(effect.reply, ledger.folder)
        if isinstance(exact, Refusal):
            return refused_patch(effect.reply.raw, effect.reply.raw.sha256, exact)
        diff, path = exact.diff, ledger.folder.artifact(effect.artifact)
        changes = parse_diff(diff)
        prepared = changes if isinstance(changes, Refusal) else self._judged(changes, ledger.redactor)
        shown = utf8(ledger.redactor.text(_readable(exact, prepared)))
        ledger.disk.publish(path, shown, durable=True)  # D-04: before the event that names it
        reference = ledger.folder.reference(path, shown)
        if isinstance(prepared, Refusal):
            return refused_patch(reference, digest(utf8(diff)), prepared, repaired=exact.repaired)
        assert not isinstance(changes, Refusal)
        made = self._files_made(ledger)
        judges = {change.path for change in changes if judged_by(change, made)}
        files = tuple(msgspec.structs.replace(f.file, judges=f.file.path in judges) for f in prepared.files)
        beside = names_beside(self._workspace, (c.new for c in changes if c.new is not None and c.new != c.old))
        blind = () if isinstance(effect.shown, UnsetType) else unseen(prepared, effect.shown)
        found = (
            *risks(changes, existing=beside, made=made),
            *_secrets(changes, self._watchful),
            *prepared.doubts,
            *blind,
        )
        code = {name: what for path, what in self._code.items() for name in self._names(path)}
        held = guarded(changes, code, dict(self._folders()))
        analysis = msgspec.json.format(msgspec.json.encode({"risks": (*held, *found)})) + b"\n"
        ledger.disk.publish(path.with_suffix(".gatekeeper-risk.json"), analysis, durable=False)
        return PatchProposal(
            patch=reference,
            digest=digest(utf8(diff + prepared.digest)),  # the patch, and the files it was computed against (D-11)
            files=files,
            added=prepared.added,
            removed=prepared.removed,
            risks=found,
            approval=self._approval,
            guarded=held,
            masked=tuple(span for f in prepared.files for span in hidden_lines(f.file.path, f.diff, ledger.redactor)),
            exact=effect.reply.raw if shown != utf8(_readable(exact, prepared)) else None,
            repaired=exact.repaired,
            doubts=prepared.doubts,
        )

    async def revise(self, effect: Revise, step: Step) -> PatchProposal:
        """What a person's own version of a patch would do now (rule 8). Its exact text is kept like a raw reply."""
        ledger = step.ledger
        stem = effect.review.patch.path.removeprefix("artifacts/").removesuffix(".patch")
        text, raw = enclosed(effect.patch), ledger.folder.artifact(f"{stem}.person.raw.txt")
        ledger.disk.publish(raw, utf8(text), durable=True)
        reply = Reply(text, ledger.folder.reference(raw, utf8(text)))
        proposal = await self.propose(ProposePatch(reply, f"{stem}.person.patch"), step)
        if proposal.refusal is None and proposal.digest != effect.digest:  # D-11
            why = "a file has changed since this version of the patch was approved; nothing was written"
            proposal = msgspec.structs.replace(proposal, refusal=Refusal("conflict", why))
        revision = Revision(reply, effect.by, effect.reason, effect.declined, effect.edited)
        return msgspec.structs.replace(proposal, digest=effect.digest, by="person", revision=revision)

    def offer(self, diff: str, redactor: Redactor) -> tuple[Part, ...] | Refusal:
        """The parts of a patch that a person decides on one by one."""
        made = self.preview(diff, redactor)
        return made if isinstance(made, Refusal) else parts_of(diff, made.prepared, self._prepare)

    def preview(self, diff: str, redactor: Redactor) -> Preview | Refusal:
        """What a diff would do to the files as they are now, and the digest that its grant is bound to."""
        exact = parse_result(enclosed(diff))
        if not isinstance(exact, Patch):
            return Refusal("invalid_patch", exact.message if isinstance(exact, Unparsable) else "it holds no patch")
        changes = parse_diff(exact.diff)
        made = changes if isinstance(changes, Refusal) else self._judged(changes, redactor)
        return made if isinstance(made, Refusal) else Preview(made, digest(utf8(exact.diff + made.digest)))

    def _judged(self, changes: tuple[FileChange, ...], redactor: Redactor) -> Prepared | Refusal:
        """What the changes would do, unless their names alone refuse them."""
        return _secret_name(changes, redactor) or self._shut(changes) or _unveiled(changes) or self._prepare(changes)

    async def grant(self, effect: AutoApprove, step: Step) -> Approval:
        """The policy's own grant."""
        return Approval(granted=True, by=f"policy (approval: {effect.policy})", digest=effect.digest)

    async def refuse(self, effect: RefusePatch, step: Step) -> Applied:
        """Record why a patch was not offered for approval."""
        return Applied(before=(), after=(), digest=effect.digest, refusal=effect.refusal)

    async def apply(self, effect: ApplyPatch, step: Step) -> Applied:
        """Bring every granted file from its recorded `before` to its `after`, whatever a crash left (rule 3)."""

        def prepare(undone: set[str]) -> Prepared | Refusal:
            exact = exact_patch(effect.reply, step.ledger.folder)
            changes = exact if isinstance(exact, Refusal) else parse_diff(exact.diff)
            if isinstance(changes, Refusal):
                return changes
            changes = tuple(c for c in changes if c.path in undone)
            return (self._shut(changes) if changes else None) or self._prepare(changes, half_done=effect.files)

        done = Granted(self._workspace, effect.files, effect.digest, step.ledger).bring(prepare)
        if done.refusal is None:
            _note_made(self._files_made(step.ledger), effect.files)
        return done

    def refused_path(self, path: str) -> str:
        """Why a file of this name is not written without a person's approval (looked.py); empty if it may be."""
        changes = (FileChange("create", None, path, mode="100644"),)
        if refused := self._shut(changes, open_too=(CONTRACTS,)):
            return refused.message
        code = {name: what for file, what in self._code.items() for name in self._names(file)}
        if held := guarded(changes, code, dict(self._folders())):
            return held[0]
        kind = None if met_folder(path, (CONTRACTS,)) else kind_of(path)
        return f"{kind.reason}: bring it as a patch, which a person can approve" if kind else ""

    def _shut(self, changes: tuple[FileChange, ...], open_too: Sequence[str] = ()) -> Refusal | None:
        """Why these changes are refused in this project (rule 5): their names, or where a link leads."""
        opened = {str(self._workspace / folder) for folder in open_too}
        closed = self._inside(tuple(folder for folder in self._closed if folder not in opened))
        if refused := check(changes, closed=closed):
            return refused
        return self.closed_to([path for change in changes for path in change.paths], open_too)

    def closed_to(self, paths: Sequence[str], open_too: Sequence[str] = ()) -> Refusal | None:
        """Why one of these paths cannot be written: it is, or leads to, a closed folder or an environment (rule 5)."""
        opened = {str(self._workspace / folder) for folder in open_too}
        closed = self._inside(tuple(folder for folder in self._closed if folder not in opened))
        installed = self._inside(self._installed)
        for path in paths:
            for name in (path, *self._names(str(self._workspace / path))):
                if folder := met_folder(name, closed):
                    why = f"{path!r}: it leads to {name}, and {folder}/ belongs to orchestra; no patch writes there"
                    return Refusal("path_violation", why, path)
                if folder := met_folder(name, installed):
                    why = f"{path!r}: {folder} is an environment that commands use; change the project's own files"
                    return Refusal("path_violation", f"{why}, and leave installing to a person", path)
        return None

    def _inside(self, folders: Sequence[str]) -> tuple[str, ...]:
        """The names in the workspace of these folders."""
        return tuple(name for folder in folders for name in self._names(folder))

    def _names(self, path: str) -> Iterator[str]:
        """The names of a path in the workspace: as written, and with its links resolved; none if it is outside."""
        for name in dict.fromkeys((os.path.normpath(path), os.path.realpath(path))):
            inside = os.path.relpath(name, self._workspace)
            if inside != os.curdir and inside.split("/")[0] != os.pardir:
                yield inside

    def _folders(self) -> Iterator[tuple[str, str]]:
        """The folders that code imports from, by their names in the workspace; `.` if it lies in one."""
        workspace = os.path.realpath(self._workspace)
        for path, what in self._code_folders.items():
            if f"{workspace}/".startswith(os.path.realpath(path).rstrip("/") + "/"):
                yield ".", what
            yield from ((name, what) for name in self._names(path))

    def _files_made(self, ledger: Ledger) -> set[str]:
        """The files that this run has added: editing one of them changes nothing that was there before."""
        if self._made is None:
            self._made = _made_by(ledger.events)
        return self._made

    def _prepare(self, changes: tuple[FileChange, ...], half_done: tuple[PatchFile, ...] = ()) -> Prepared | Refusal:
        images = read_images(self._workspace, changes)
        if isinstance(images, Refusal):
            return images
        for file in half_done:
            image = images.get(file.path)
            if file.change == "rename" and image is not None and digest(image.data) == file.after:
                images[file.path] = None  # a kill fell between the new name and the old one's removal: go on from there
        return compute(changes, images)


def _readable(exact: Patch, prepared: Prepared | Refusal) -> str:
    """The diff that people read: that of the reply; if it had to be repaired, what will really change."""
    if isinstance(prepared, Prepared) and (exact.repaired or prepared.doubts):
        return prepared.diff
    return exact.diff


def kept_diff(ledger: Ledger, artifact: str, diff: str) -> Reply:
    """A diff as a reply for the gate: written to a file of the run, in the form that `exact_patch` reads."""
    text = enclosed(diff)
    data = utf8(text)
    path = ledger.folder.artifact(artifact)
    ledger.disk.publish(path, data, durable=True)
    return Reply(ledger.redactor.text(text), ledger.folder.reference(path, data))


def exact_patch(reply: Reply, folder: RunFolder) -> Patch | Refusal:
    """The patch as the model wrote it: inline if redaction left the reply alone, else from its raw file (rule 4)."""
    text = reply.text
    if digest(utf8(text)) != reply.raw.sha256:
        path = folder.find(reply.raw)
        if path is None:
            why = (
                f"the exact reply ({reply.raw.path}) is gone or was changed, and its redacted copy is no patch to apply"
            )
            return Refusal("conflict", why)
        text = path.read_bytes().decode("utf-8", "replace")
    result = parse_result(text)
    return result if isinstance(result, Patch) else Refusal("invalid_patch", "the reply holds no patch")


def _secret_name(changes: tuple[FileChange, ...], redactor: Redactor) -> Refusal | None:
    """A refusal if a path contains a secret: such a path could not be recorded."""
    for path in (path for change in changes for path in change.paths):
        if redactor.text(path) != path:
            return Refusal("path_violation", "a file name in the patch holds a secret; choose another name")
    return None


def _unveiled(changes: tuple[FileChange, ...]) -> Refusal | None:
    """A refusal if a file that is hidden from models would get a name under which it is shown."""
    for change in changes:
        if change.kind == "rename" and (why := secret_by_name(change.old or "")) and not secret_by_name(change.path):
            message = (
                f"{change.old} is a secret by its name ({why}) and is not shown to models; {change.path} would be."
                " Choose a name that is one, too, or leave the renaming to a person"
            )
            return Refusal("unsafe", message, change.path)
    return None


def _secrets(changes: tuple[FileChange, ...], redactor: Redactor) -> tuple[str, ...]:
    lines = (line for change in changes for hunk in change.hunks for line in hunk.lines)
    added = "\n".join(line.text for line in lines if line.op == "+")
    return tuple(f"adds a secret: {name}" for name in redactor.found(added))


def _made_by(events: Iterable[Event]) -> set[str]:
    """The files that a run has added, by its journal."""
    made: set[str] = set()
    offered: dict[str, tuple[PatchFile, ...]] = {}
    for event in events:
        if event.type == "PATCH_PRODUCED":
            if proposal := outcome_as(event, PatchProposal):
                offered[proposal.digest] = proposal.files
        elif event.type == "PATCH_APPLIED" and (applied := outcome_as(event, Applied)):
            paths = {file.path for file in applied.after}
            _note_made(made, (file for file in offered.get(applied.digest, ()) if file.path in paths))
    return made


def _note_made(made: set[str], files: Iterable[PatchFile]) -> None:
    for file in files:
        if file.change == "create" or file.oldPath in made:
            made.add(file.path)
