"""The files that a run looks at (core/looks.py): read and written in the project or in the run's folder.

Rules
1. No link is followed, and only a regular file is read or replaced (tree.py). A path that leaves its folder is refused.
2. A file gets its text by one rename, after the text is synced (writer.py), and only if it still holds what was read
   just before. So a kill leaves the old text or the new one, and an edit of that moment is not lost.
3. A look needs no approval, so it may not write what orchestra obeys or runs: `.git`, run folders, environments, the
   configuration, and code that workflows import (gatekeeper.py).
4. A text is at most MOST_TEXT bytes. The files of a tree hash have limits, too: nothing is read without end.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestra.core.context import Step
from orchestra.core.errors import DurabilityError, OddFile, UsageError
from orchestra.core.files import size
from orchestra.core.looks import MOST_TEXT, Hashed, Inside, Seen, WriteFile, written
from orchestra.core.names import folded
from orchestra.core.records import utf8
from orchestra.core.run import RunFolder
from orchestra.patch.locate import Image
from orchestra.patch.prepared import sha256
from orchestra.patch.tree import Tree, Unsafe
from orchestra.patch.writer import Target, Writer

_MODE = 0o644
Hash = Callable[[tuple[str, ...]], Hashed]


class LookedFiles:
    """Handler of WriteFile, and what looks read through."""

    def __init__(self, project: Path, run: RunFolder, *, refused: Callable[[str], str], hash_of: Hash) -> None:
        """`refused` says why a path of the project may not be written; empty if it may. `hash_of` hashes the tree."""
        self._folders: dict[Inside, Path] = {"project": project, "run": run.path}
        self._scratch = run.scratch
        self._refused = refused
        self._hash_of = hash_of

    def read(self, inside: Inside, path: str) -> bytes | None:
        """The bytes of the file; None if there is none."""
        self._refuse(inside, path)
        image = self._image(inside, path)
        return None if image is None else image.data

    def _image(self, inside: Inside, path: str) -> Image | None:
        folder = self._folders[inside]
        with Tree(folder) as tree:
            try:
                image = tree.read(path)
            except Unsafe as unsafe:
                raise OddFile(str(folder / path), f"is looked at, and {unsafe}") from unsafe
        if image is not None and len(image.data) > MOST_TEXT:
            raise OddFile(str(folder / path), f"has {size(len(image.data))}; at most {size(MOST_TEXT)} are looked at")
        return image

    async def hashed(self, globs: tuple[str, ...]) -> Hashed:
        """The digest of the project's files that these globs name; without any, of all."""
        return await asyncio.to_thread(self._hash_of, globs)

    async def __call__(self, effect: WriteFile, step: Step) -> Seen:
        """Write the file, unless it holds the text already."""
        self._refuse(effect.inside, effect.path)
        before = self._image(effect.inside, effect.path)
        seen = written(effect, before.data if before else None, step)  # what a person gives up is kept first
        data = utf8(effect.text)
        if before is None or before.data != data:
            self._write(effect, before, data, step)
        return seen

    def _write(self, effect: WriteFile, before: Image | None, data: bytes, step: Step) -> None:
        folder = self._folders[effect.inside]
        was, mode = (None, _MODE) if before is None else (sha256(before.data), before.mode)
        target = Target(effect.path, was, sha256(data), mode, mode, data, umask=before is None)
        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        room = os.open(self._scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with Tree(folder) as tree:
                refused = Writer(tree, step.ledger.disk, room=room).write([target])
        finally:
            os.close(room)
        if refused is not None:
            raise DurabilityError(
                f"{folder / effect.path} was not written: {refused.message}."
                f" When that is cured: orchestra resume {step.ledger.folder.id}"
            )

    def _refuse(self, inside: Inside, path: str) -> None:
        """UsageError for a path that no look may have (rules 1 and 3)."""
        parts = path.split("/")
        if not path or path.startswith("/") or any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise UsageError(f"{path!r}: a file that is looked at is named by its path below the {_WHERE[inside]}")
        why = self._refused(path) if inside == "project" else _own_file(parts)
        if why:
            raise UsageError(f"{path!r} cannot be looked at: {why}")


_WHERE: dict[Inside, str] = {"project": "project's folder", "run": "run's folder"}


# What orchestra itself keeps in a run's folder (core/run.py), besides artifacts.
_OWN = {"events.ndjson", "state.json", "logs", "inbox", "rules.json", "adopted.json", "report.md", "lock", "scratch"}


def _own_file(parts: Sequence[str]) -> str:
    """Why a path in the run's folder cannot be looked at."""
    own = folded(parts[0]) in _OWN or parts[0].startswith(".")
    return f"{parts[0]} in the run's folder is orchestra's own" if own else ""
