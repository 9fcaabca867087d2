"""Writes a patch: stages everything, renames one by one, syncs, reads back; on failure undoes its changes (D-12).

Rules (apply.py has the whole picture)
1. Nothing in the workspace changes before all post-images and pre-images are synced in scratch.
2. A file changes by one rename or unlink, and only if at that moment it still has the text the patch was made for.
3. With scratch on another file system there is one more step: the file is staged again beside its target, under a name
   that follows from its content, so that a second call after a crash takes the same name and leaves nothing behind.
4. Undoing touches only files that still have the bytes this call wrote.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Literal

import msgspec

from orchestra.core.disk import Disk
from orchestra.core.errors import DiskFull
from orchestra.core.work import PatchFile, Refusal
from orchestra.patch.locate import Image
from orchestra.patch.prepared import sha256
from orchestra.patch.tree import Tree, Unsafe

State = Literal["before", "after", "conflict"]

_OURS = re.compile(r"\d{4}\.(?:new|old)")  # our names in scratch
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Target(msgspec.Struct, frozen=True):
    """One path that gets new bytes or is deleted. `umask`: the file is new, so the user's umask applies to its mode."""

    path: str
    before: str | None
    after: str | None
    before_mode: int
    mode: int
    data: bytes | None
    umask: bool = False


def targets_of(file: PatchFile, data: bytes | None = None, *, exact: bool = False) -> Iterator[Target]:
    """The paths a file's change writes: one, or two for a rename. `data` is the new text; only writing needs it.

    `exact`: a file that comes back gets exactly its mode, whatever the umask is.
    """
    was, becomes = file.beforeMode or 0, file.mode or 0
    before = None if file.change == "rename" else file.before
    yield Target(file.path, before, file.after, was, becomes, data, umask=file.change == "create" and not exact)
    if file.oldPath is not None:  # last, so that the text always exists under one of the names
        yield Target(file.oldPath, file.before, None, was, 0, None)


def state_of(target: Target, image: Image | None) -> State:
    """Whether a path is as before, as after, or neither. Of the mode only the x bit is compared."""
    now = None if image is None else sha256(image.data)
    executable = 0 if image is None else image.mode & 0o100
    if now == target.after and (now is None or executable == target.mode & 0o100):
        return "after"
    if now == target.before and (now is None or executable == target.before_mode & 0o100):
        return "before"
    return "conflict"


class Changed(Exception):
    """Another program changed the file while the patch was written."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.refused = Refusal("conflict", f"{path} was changed by someone else while the patch was applied", path)


class Writer:
    """Writes the files of one call. `room` is the scratch folder; `_done` lists this call's changes, in order."""

    def __init__(self, tree: Tree, disk: Disk, *, room: int, made: Collection[str] | None = None) -> None:
        """`made` are the folders that are removed if deleting a file empties them; None: all."""
        self._made = made
        self._tree = tree
        self._disk = disk
        self._room = room
        self._images: dict[int, Image] = {}
        self._done: list[tuple[int, Target]] = []

    def write(self, targets: Sequence[Target]) -> Refusal | None:
        """Bring every target to `after`, or all of this call's targets back to `before`."""
        try:
            todo = [(i, t) for i, t in enumerate(targets) if state_of(t, self._tree.read(t.path)) != "after"]
            for number, target in todo:
                self._stage(number, target)
            for number, target in todo:
                self._put(number, target)
            self._sync_folders(todo)
            self._verify(targets)
        except (Unsafe, Changed) as found:
            return self._taken_back(found.refused)
        except OSError as error:
            where = self._done[-1][1].path if self._done else ""
            return self._taken_back(Refusal("io_error", f"the patch could not be written: {error}", where))
        except DiskFull as full:
            full.add_note(self._take_back())
            raise
        for target in targets:
            if target.after is None:
                self._tree.prune(target.path, self._made)
        self._clean()
        return None

    def _stage(self, number: int, target: Target) -> None:
        image = self._tree.read(target.path)
        if state_of(target, image) != "before":
            raise Changed(target.path)
        if image is not None:
            self._images[number] = image
            self._create(self._room, f"{number:04}.old", image.data, mode=image.mode)
        if target.data is not None:
            mode = target.mode if image is None else _bits(image.mode, executable=bool(target.mode & 0o100))
            self._create(self._room, f"{number:04}.new", target.data, mode=mode, umask=target.umask)

    def _put(self, number: int, target: Target) -> None:
        image = self._tree.read(target.path)
        if state_of(target, image) != "before":
            raise Changed(target.path)
        self._done.append((number, target))  # before the change: if that fails half-way, undoing checks the file itself
        if target.data is None:
            self._remove(target.path)
        else:
            mode = target.mode if image is None else _bits(image.mode, executable=bool(target.mode & 0o100))
            self._install(f"{number:04}.new", target.path, data=target.data, mode=mode, umask=target.umask)

    def _install(self, staged: str, path: str, *, data: bytes, mode: int, umask: bool = False) -> None:
        """Move the staged file to its path."""
        name = path.rsplit("/", 1)[-1]
        with self._tree.folder_of(path, create=True) as folder:
            try:
                self._disk.replace(staged, name, src_dir_fd=self._room, dst_dir_fd=folder)
            except OSError as error:
                if error.errno != errno.EXDEV or folder is None:
                    raise
                beside = f".orchestra-{sha256(data)[-16:]}.tmp"  # rule 3
                try:
                    self._create(folder, beside, data, mode=mode, umask=umask)
                    self._disk.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
                except (OSError, DiskFull):
                    self._disk.unlink(beside, dir_fd=folder)
                    raise

    def _remove(self, path: str) -> None:
        with self._tree.folder_of(path) as folder:
            if folder is not None:
                self._disk.unlink(path.rsplit("/", 1)[-1], dir_fd=folder)

    def _create(self, folder: int, name: str, data: bytes, *, mode: int, umask: bool = False) -> None:
        """Write and sync a new file; a left-over of an earlier call under this name is removed first."""
        try:
            fd = os.open(name, _NEW, mode & 0o777, dir_fd=folder)
        except FileExistsError:
            self._disk.unlink(name, dir_fd=folder)
            fd = os.open(name, _NEW, mode & 0o777, dir_fd=folder)
        try:
            if not umask:
                os.fchmod(fd, mode & 0o777)
            self._disk.append(fd, data)
            self._disk.sync(fd)
        finally:
            os.close(fd)

    def _sync_folders(self, todo: Sequence[tuple[int, Target]]) -> None:
        """Sync the folders, so that renames and new folders survive a power cut."""
        paths = [target.path for _, target in todo] + self._tree.made
        for path in {path.rpartition("/")[0]: path for path in paths}.values():
            with self._tree.folder_of(path) as folder:
                if folder is not None:
                    self._disk.sync(folder)

    def _verify(self, targets: Sequence[Target]) -> None:
        for target in targets:
            if state_of(target, self._tree.read(target.path)) != "after":
                raise Changed(target.path)

    def _taken_back(self, refused: Refusal) -> Refusal:
        return msgspec.structs.replace(refused, message=f"{refused.message}. {self._take_back()}")

    def _take_back(self) -> str:
        """Undo this call's changes from the kept pre-images; return a sentence on the result."""
        left: list[str] = []
        for number, target in reversed(self._done):
            try:
                if state_of(target, self._tree.read(target.path)) == "after":
                    image = self._images.get(number)
                    if image is None:
                        self._remove(target.path)
                    else:
                        self._install(f"{number:04}.old", target.path, data=image.data, mode=image.mode)
            except (OSError, DiskFull, Unsafe):
                left.append(target.path)
        self._tree.unmake()
        if left:
            return f"These files could not be taken back and are as patched: {', '.join(left)}; applying again goes on"
        return "Nothing was changed" if not self._done else "All files are as they were before"

    def _clean(self) -> None:
        for name in sorted(os.listdir(self._room)):
            if _OURS.fullmatch(name):
                self._disk.unlink(name, dir_fd=self._room)


def _bits(mode: int, *, executable: bool) -> int:
    """The permission bits of the new file: those of the old, with the x bits changed only if necessary."""
    if executable == bool(mode & 0o100):
        return mode
    return mode | (mode & 0o444) >> 2 if executable else mode & ~0o111
