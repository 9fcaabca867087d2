"""Handlers of ProposeCommit and WriteCommit: they write the net change of a run as a commit.

Rules
1. The net change is computed as `orchestra diff` does it: in the project, or in the copy that the run works in. Files
   that somebody changed since the run are named, and nothing is written.
2. Each file is changed as it is in the parent commit. If the run began with exactly that file, the commit has the run's
   bytes. Else the change must fit by its own lines, never by guessing; a file that does not fit is named.
3. If git stores a text with LF and the files have CRLF, the commit has LF. Other conversions and filters are not done:
   such a file does not fit.
4. The branch that is checked out: the files on disk must be as the run left them, and none of them staged otherwise.
   The index gets the new files, so that `git status` is clean. Any other branch: files and index are not touched.
5. Writing is repeated safely: the same commit has the same name (patch/git/writing.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from orchestra.core.context import Step
from orchestra.core.copies import Copies
from orchestra.core.effects import digest_of
from orchestra.core.errors import OrchestraError
from orchestra.core.ledger import Ledger
from orchestra.core.records import utf8
from orchestra.core.run import digest
from orchestra.core.work import (
    Applied,
    CommitTo,
    FileStat,
    PatchFile,
    PatchProposal,
    ProposeCommit,
    Refusal,
    WriteCommit,
    refused_patch,
)
from orchestra.patch.apply import read_files
from orchestra.patch.diff import parse_diff
from orchestra.patch.git.repository import EXECUTABLE, FILE, Objects, Repository, find_repository
from orchestra.patch.git.status import blob_of, read_index
from orchestra.patch.git.writing import NewFile, build, move, stage, write
from orchestra.patch.hidden import hidden_lines
from orchestra.patch.journaled import applied_in, in_order
from orchestra.patch.locate import Image, compute
from orchestra.patch.prepared import sha256
from orchestra.patch.takeback import TreesOf
from orchestra.patch.undo import NetFile, net_change, paths_of
from orchestra.patch.written import diff_text


class _Change(Struct, frozen=True):
    """A file as it is in the parent commit, and as it becomes."""

    old: NetFile  # with the bytes and modes of the commits
    new: NewFile


class Committing:
    """The handlers, for one project."""

    def __init__(self, copies: Copies, homes: tuple[str, ...], *, trees: TreesOf) -> None:
        self._copies = copies
        self._project = copies.project
        self._homes = homes
        self._trees = trees

    async def propose(self, effect: ProposeCommit, step: Step) -> PatchProposal:
        """What the commit changes against its parent; writes only the readable `*.patch`."""
        ledger = step.ledger
        made = self._changes(effect.runs, effect.to)
        path = ledger.folder.artifact(effect.artifact)
        diffs = {} if isinstance(made, Refusal) else {one.old.path: diff_text(one.old) for one in made}
        shown = utf8(ledger.redactor.text("".join(diffs.values())))
        ledger.disk.publish(path, shown, durable=True)  # D-04: before the event that names it
        reference = ledger.folder.reference(path, shown)
        if isinstance(made, Refusal):
            return refused_patch(reference, digest(utf8(made.message)), made)
        files = tuple(_file(one.old, diffs[one.old.path]) for one in made)
        return PatchProposal(
            patch=reference,
            digest=_digest(files, effect.to),
            files=files,
            added=sum(file.added for file in files),
            removed=sum(file.removed for file in files),
            masked=tuple(span for name, diff in diffs.items() for span in hidden_lines(name, diff, ledger.redactor)),
        )

    async def commit(self, effect: WriteCommit, step: Step) -> Applied:
        """Write the commit, move the branch, and for the branch that is checked out write the index."""
        announced = tuple(FileStat(file.path, file.added, file.removed) for file in effect.files)
        done = self._written(effect, step.ledger)
        if isinstance(done, Refusal):
            return Applied(before=announced, after=(), digest=effect.digest, refusal=done)
        return Applied(before=announced, after=(), digest=effect.digest, commit=done)

    def _written(self, effect: WriteCommit, ledger: Ledger) -> str | Refusal:
        repository = find_repository(self._project, self._homes)
        made = self._changes(effect.runs, effect.to)
        if isinstance(made, Refusal) or repository is None:
            return made if isinstance(made, Refusal) else _gone()
        if _digest(tuple(_file(one.old, diff_text(one.old)) for one in made), effect.to) != effect.digest:
            return Refusal("conflict", "what would be committed now is not what was granted; nothing was written")
        files = tuple(one.new for one in made)
        try:
            with repository.objects() as objects:
                new = build(objects, files, effect.to)
            write(repository, new, ledger.disk)
            refused = move(repository, effect.to, new.commit, ledger.disk)
            if refused is None and effect.to.checkedOut:
                refused = stage(repository, files, ledger.disk)
        except (OrchestraError, OSError) as error:
            return Refusal("io_error", f"the commit cannot be written: {error}")
        return refused or new.commit

    # -- what the commit changes --------------------------------------------------------------------------------------

    def _changes(self, runs: Sequence[str], to: CommitTo) -> tuple[_Change, ...] | Refusal:
        try:
            repository = find_repository(self._project, self._homes)
            if repository is None:
                return _gone()
            net = self._net(runs)
            if isinstance(net, Refusal):
                return net
            with repository.objects() as objects:
                tree = objects.tree_of(to.parent)
                changes = [_in_commit(repository.prefix, file, objects, tree) for file in net]
                wrong = [one for one in changes if isinstance(one, Refusal)]
                if wrong:
                    return wrong[0]
                found = tuple(one for one in changes if isinstance(one, _Change))
                return (self._unready(repository, net, found, objects, tree) if to.checkedOut else None) or found
        except (OrchestraError, OSError) as error:
            return Refusal("conflict", f"{error}; nothing was committed")

    def _net(self, runs: Sequence[str]) -> tuple[NetFile, ...] | Refusal:
        """The net change of the first run (rule 1)."""
        first, *rest = runs
        mine = list(self._trees(first))
        copy = mine[0].copy if mine else ""
        patches = in_order(one for run in mine if run.copy == copy for one in applied_in(run))
        others = (run for other in rest for run in self._trees(other) if run.copy == copy)
        later = in_order(one for run in others for one in applied_in(run))
        images = read_files(self._copies.workspace(copy), paths_of((*patches, *later)))
        if isinstance(images, Refusal):
            return images
        net = net_change(patches, later, images)
        if net.unknown:
            what = f"{', '.join(net.unknown)} changed since the run, whose result cannot be told from that"
            cure = "take the later changes back first, or commit the files yourself"
            return Refusal("conflict", f"{what}; nothing was committed: {cure}", net.unknown[0])
        if not net.files:
            return Refusal("conflict", f"run {first} changed no file; nothing was committed")
        return net.files

    def _unready(
        self,
        repository: Repository,
        net: Sequence[NetFile],
        changes: Sequence[_Change],
        objects: Objects,
        tree: str,
    ) -> Refusal | None:
        """Why the branch that is checked out cannot get the commit (rule 4); None if it can."""
        images = read_files(self._project, (file.path for file in net))
        if isinstance(images, Refusal):
            return images
        other = [file.path for file in net if _data(images[file.path]) != file.after]
        if other:
            what = f"{', '.join(other)} changed since the run, or the run was undone; nothing was committed"
            return Refusal("conflict", f"{what}. A branch of its own can have the result: --branch NAME", other[0])
        entries = read_index(repository.own / "index")
        if entries is None:
            return Refusal("conflict", "the index cannot be changed: a merge is not finished, or it is split or sparse")
        for change in changes:
            entry = entries.get(os.fsencode(change.new.path))
            staged = None if entry is None else (entry.mode, entry.sha.decode())
            if staged not in (objects.find(tree, change.new.path), _staged(change.new)):
                return Refusal(
                    "conflict", f"{change.new.path} is staged with other changes; commit or unstage it", change.new.path
                )
        return None


def _in_commit(prefix: str, file: NetFile, objects: Objects, tree: str) -> _Change | Refusal:
    """What a file's change is to the file in the commit (rules 2, 3)."""
    path = f"{prefix}{file.path}"
    entry = objects.find(tree, path)
    if entry is not None and entry[0] not in (FILE, EXECUTABLE):
        return Refusal("conflict", f"{path} is no ordinary file in the commit; nothing was committed", file.path)
    base = None if entry is None else objects.data(entry[1], b"blob")
    mode = None if entry is None else entry[0] & 0o777
    if base == file.before or (base is None and file.after is None):
        data: bytes | None = file.after
    elif base is not None and file.before is not None and _lf(file.before) == base:
        data = None if file.after is None else _lf(file.after)
    else:
        fitted = _fitted(file, base, mode)
        if isinstance(fitted, Refusal):
            return fitted
        data = fitted
    executable = bool((file.after_mode or 0) & 0o100)
    old = NetFile(path, base, data, mode, None if data is None else 0o755 if executable else 0o644)
    return _Change(old, NewFile(path, data, executable))


def _fitted(file: NetFile, base: bytes | None, mode: int | None) -> bytes | Refusal | None:
    """The file of the commit with the change's own lines, if they fit exactly there (rule 2)."""
    changes = parse_diff(diff_text(file))
    image = None if base is None else Image(base, mode or 0)
    found = changes if isinstance(changes, Refusal) else compute(changes, {file.path: image})
    if isinstance(found, Refusal) or found.doubts or len(found.files) != 1:
        what = (
            f"{file.path} was not as in the commit when the run began (it had uncommitted changes, or git converts it)"
        )
        return Refusal("conflict", f"{what}, and the run's change does not fit; nothing was committed", file.path)
    return found.files[0].data


def _lf(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")


def _staged(file: NewFile) -> tuple[int, str] | None:
    """Mode and object of a file as the index has it after the commit."""
    return None if file.data is None else (EXECUTABLE if file.executable else FILE, blob_of(file.data))


def _file(old: NetFile, diff: str) -> PatchFile:
    lines = [line for line in diff.splitlines() if not line.startswith(("+++ ", "--- "))]
    return PatchFile(
        path=old.path,
        change="create" if old.before is None else "delete" if old.after is None else "modify",
        before=None if old.before is None else sha256(old.before),
        after=None if old.after is None else sha256(old.after),
        added=sum(line.startswith("+") for line in lines),
        removed=sum(line.startswith("-") for line in lines),
        mode=old.after_mode,
        beforeMode=old.before_mode,
    )


def _digest(files: Sequence[PatchFile], to: CommitTo) -> str:
    """What the grant binds to: the commit's place, words and files (D-11)."""
    return digest_of([to, [(file.path, file.before, file.after, file.mode) for file in files]])


def _data(image: Image | None) -> bytes | None:
    return None if image is None else image.data


def _gone() -> Refusal:
    return Refusal("conflict", "the project lies in no git repository of yours; nothing was committed")
