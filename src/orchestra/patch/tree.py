"""The workspace reached through directory file descriptors: no step of a path is ever followed through a symlink.

Rules
1. Every component is opened relative to its folder with O_NOFOLLOW; a symlink anywhere on the way is `Unsafe`, even one
   that leads back inside (`git apply --index` and libgit2 were seen to write outside through one, MS-6.10).
2. Only regular files are read. Folders, devices, pipes and sockets in a file's place are `Unsafe`.
3. A path that is not a plain relative path never reaches the operating system: the last check after safety.py.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestra.core.work import Refusal
from orchestra.patch.locate import Image

MAX_FILE_BYTES = 16 * 1024 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Unsafe(Exception):
    """A path must not be touched. The package turns the exception into its `Refusal`; callers never see it."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(why)
        self.refused = Refusal("unsafe", f"{path}: {why}", path)


class Tree:
    """An open workspace folder."""

    def __init__(self, root: Path) -> None:
        self._fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # the user chose the root
        self.made: list[str] = []  # folders created on the way

    def __enter__(self) -> Tree:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    @contextmanager
    def folder_of(self, path: str, *, create: bool = False) -> Iterator[int | None]:
        """The folder a path's last name is in, as a file descriptor; None if it is not there."""
        parts = _parts(path)
        fd: int | None = os.dup(self._fd)
        try:
            for depth in range(1, len(parts)):
                if fd is not None:
                    above = fd
                    fd = None  # closed below, whatever happens
                    try:
                        fd = self._enter(above, "/".join(parts[:depth]), create=create)
                    finally:
                        os.close(above)
            yield fd
        finally:
            if fd is not None:
                os.close(fd)

    def _enter(self, above: int, path: str, *, create: bool) -> int | None:
        name = path.rsplit("/", 1)[-1]
        if create:
            try:
                os.mkdir(name, dir_fd=above)
                self.made.append(path)
            except FileExistsError:
                pass  # the folder exists already
        try:
            return os.open(name, _FOLDER, dir_fd=above)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            kind = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
            why = "is a symbolic link; patches do not follow links" if stat.S_ISLNK(kind) else "is not a folder"
            raise Unsafe(path, why) from None

    def read(self, path: str) -> Image | None:
        """The file as it is now; None if there is none."""
        name = _parts(path)[-1]
        with self.folder_of(path) as folder:
            if folder is None:
                return None
            try:
                kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            except FileNotFoundError:
                return None
            if not stat.S_ISREG(kind):
                why = (
                    "is a symbolic link; patches do not follow links" if stat.S_ISLNK(kind) else "is not a regular file"
                )
                raise Unsafe(path, why)
            fd = os.open(name, _FILE, dir_fd=folder)
        with os.fdopen(fd, "rb") as file:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_FILE_BYTES:
                raise Unsafe(path, f"is not a regular file of at most {MAX_FILE_BYTES // 1024 // 1024} MiB")
            return Image(file.read(), stat.S_IMODE(facts.st_mode))

    def beside(self, path: str) -> list[str] | None:
        """The names in the folder that a path's last name is in; None if the folder is not there."""
        with self.folder_of(path) as folder:
            return None if folder is None else os.listdir(folder)

    def prune(self, path: str, only: Collection[str] | None = None) -> None:
        """Remove the folders above a deleted file that are empty now; never the root. `only`: no others than these."""
        parts = _parts(path)
        for depth in range(len(parts) - 1, 0, -1):
            folder = "/".join(parts[:depth])
            if (only is not None and folder not in only) or not self._remove_folder(folder):
                return  # the folder stays, or is not empty

    def unmake(self) -> None:
        """Remove the folders this tree created, where they are still empty."""
        for folder in reversed(self.made):
            self._remove_folder(folder)

    def _remove_folder(self, path: str) -> bool:
        """Remove an empty folder; return whether that worked. A folder that is still used is no error."""
        try:
            with self.folder_of(path) as above:
                if above is not None:
                    os.rmdir(path.rsplit("/", 1)[-1], dir_fd=above)
        except FileNotFoundError:
            return True
        except (OSError, Unsafe):
            return False
        return True


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise Unsafe(path, "is not a plain relative path")
    return parts
