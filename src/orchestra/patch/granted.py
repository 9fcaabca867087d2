"""Bringing granted files from their recorded `before` to their `after`: the common end of applying and taking back.

Rules
1. The hashes of every file are in the journal before the first byte is written (D-12). After a crash each file is one
   or the other: the rest is completed, or the conflict reported; never repeated blindly.
2. What would be written now must be what was granted (D-11), to the hash.
3. What the files were before is kept in the run, durable, before the first byte is written (patch/undo.py).
4. Applied is returned without a refusal only if every file was read back and is as granted (T-2).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from orchestra.core.effects import digest_of
from orchestra.core.ledger import Ledger
from orchestra.core.records import ArtifactRef
from orchestra.core.text import some
from orchestra.core.work import Applied, FileStat, PatchFile, Refusal
from orchestra.patch.apply import apply, prune, status
from orchestra.patch.prepared import Prepared
from orchestra.patch.undo import undo_of


class Granted:
    """Files that may be changed, in one workspace. `digest` is the granted one."""

    def __init__(self, workspace: Path, files: Sequence[PatchFile], digest: str, ledger: Ledger) -> None:
        self._workspace = workspace
        self._files = files
        self._digest = digest
        self._ledger = ledger

    def bring(
        self, prepare: Callable[[set[str]], Prepared | Refusal], *, made: Collection[str] | None = None
    ) -> Applied:
        """Change the files, or report why not. `prepare` computes the new texts of the paths that are still to do.

        With `made` earlier patches are taken back (patch/apply.py).
        """
        announced = tuple(FileStat(f.path, f.added, f.removed) for f in self._files)
        refused = self._write(prepare, made) or self._unfinished()
        if refused is not None:
            return Applied(before=announced, after=(), digest=self._digest, refusal=refused)
        prune(self._workspace, self._files, made)
        return Applied(before=announced, after=announced, digest=self._digest, undo=self._kept())

    def _write(self, prepare: Callable[[set[str]], Prepared | Refusal], made: Collection[str] | None) -> Refusal | None:
        found = status(self._workspace, self._files)
        for file in found:
            if file.state == "conflict":
                already = some([one.path for one in found if one.state == "after"])
                written = f"written before a kill: {already}" if already else "nothing was written"
                why = f"{file.path} changed on disk since the patch was computed; {written}. {file.message}"
                return Refusal("conflict", why, file.path)
        undone = {file.path for file in found if file.state == "before"}
        prepared = prepare(undone)
        if isinstance(prepared, Refusal):
            return prepared
        granted = {file.path: (file.before, file.after) for file in self._files if file.path in undone}
        if {part.file.path: (part.file.before, part.file.after) for part in prepared.files} != granted:  # D-11
            return Refusal("conflict", "what would be written now is not what was granted; nothing was written")
        if len(undone) == len(self._files):  # else an attempt that was cut short has kept it
            self._ledger.disk.publish(self._undo, undo_of(prepared, self._new_folders()), durable=True)
        done = apply(self._workspace, prepared, disk=self._ledger.disk, scratch=self._ledger.folder.scratch, made=made)
        return done if isinstance(done, Refusal) else None

    def _unfinished(self) -> Refusal | None:
        """Check the disk once more: PATCH_APPLIED is recorded only if every file is as granted (T-2)."""
        for file in status(self._workspace, self._files):
            if file.state != "after":
                return Refusal("conflict", f"{file.path} is not as granted after applying. {file.message}", file.path)
        return None

    # -- what the files were before -----------------------------------------------------------------------------------

    @property
    def _undo(self) -> Path:
        """The file with what this patch replaces. Unmasked like a raw reply, and like it for its owner only."""
        name = digest_of([self._digest, [file.path for file in self._files]])[7:23]
        return self._ledger.folder.artifact(f"undo/{name}.json")

    def _kept(self) -> ArtifactRef | None:
        try:
            return self._ledger.folder.reference(self._undo, self._undo.read_bytes())
        except OSError:
            return None  # an older version began this patch, and kept nothing

    def _new_folders(self) -> Iterator[str]:
        """The folders that do not exist yet and that the patch makes."""
        for path in (file.path for file in self._files if file.after is not None):
            parts = path.split("/")
            for folder in ("/".join(parts[:depth]) for depth in range(1, len(parts))):
                if not os.path.isdir(self._workspace / folder):
                    yield folder
