"""A git repository, found and read as files: git is never started, and the repository's configuration never read.

Rules
1. A repository may come from anybody: its hooks, filters, drivers, helpers and aliases are programs of whoever made it.
   So its `config` is not opened, and no program is started for it. docs/design/0013-git.md has the reasons.
2. Refs, HEAD and the index are read within bounds, from regular files only. Objects are read by dulwich, from the store
   alone, after a look that there are only regular files.
3. The folder `.git` is searched upwards from the project: not beyond a home folder or the file system, and never in a
   folder of another user (root excepted). A linked worktree counts if the repository names it, too: otherwise a folder
   from anybody could have a commit written into any repository of the user's.
4. What is not understood is refused with a sentence, never guessed: reftable, SHA-256, borrowed objects, a submodule.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from orchestra.core.errors import OddFile, UsageError
from orchestra.core.files import MIB, read_bounded

if TYPE_CHECKING:
    from dulwich.object_store import DiskObjectStore
    from dulwich.objects import Tree

_MOST_REF, _MOST_PACKED, _LONGEST = 4096, 64 * MIB, 4096
_COMMON = "commondir"  # the file of a linked worktree that names the repository's git folder
_COMMIT = re.compile(r"[0-9a-f]{40}")
FILE, EXECUTABLE, LINK, FOLDER, SUBMODULE = 0o100644, 0o100755, 0o120000, 0o040000, 0o160000


class Head(Struct, frozen=True):
    """What is checked out: a branch (empty: none, the head is detached) and its commit (empty: there is none yet)."""

    branch: str
    commit: str


class Repository(Struct, frozen=True):
    """Where a repository is. `own` has HEAD and the index of this worktree, `common` the objects and refs."""

    top: Path
    own: Path
    common: Path
    prefix: str  # the project's folder in the repository, with a slash at its end; empty: its top

    def head(self) -> Head:
        """What is checked out; UsageError if it cannot be read (rule 4)."""
        text = _text(self.own / "HEAD")
        if _COMMIT.fullmatch(text):
            return Head("", text)
        name = text.removeprefix("ref: refs/heads/")
        if name == text or wrong_branch(name) or (self.common / "reftable").exists():
            raise UsageError(f"{self.own / 'HEAD'}: {text[:80]!r} cannot be read; orchestra reads branches in files")
        return Head(name, self.commit_of(name))

    def commit_of(self, branch: str) -> str:
        """The commit of a branch; empty if there is no such branch."""
        ref = f"refs/heads/{branch}"
        try:
            text = _text(self.common / ref)
        except FileNotFoundError:
            text = self._packed(ref)
        if text and not _COMMIT.fullmatch(text):
            raise UsageError(f"{self.common / ref} is no commit: {text[:80]!r}")
        return text

    def in_the_way(self, branch: str) -> str:
        """A branch whose name is a folder of this one's name, or the other way round: git allows only one of them."""
        names = [line.partition(" refs/heads/")[2] for line in self._packed_lines()]
        names += [str(path) for path in Path(branch).parents[:-1] if (self.common / "refs/heads" / path).is_file()]
        names += [f"{branch}/…"] if (self.common / "refs/heads" / branch).is_dir() else []
        return next((n for n in names if n and (f"{n}/".startswith(f"{branch}/") or branch.startswith(f"{n}/"))), "")

    def _packed_lines(self) -> list[str]:
        try:
            return read_bounded(self.common / "packed-refs", _MOST_PACKED).decode("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return []

    def _packed(self, ref: str) -> str:
        lines = self._packed_lines()
        return next((line[: -len(ref) - 1] for line in lines if line.endswith(f" {ref}")), "")

    # -- objects ------------------------------------------------------------------------------------------------------

    def objects(self) -> Objects:
        """The objects of the repository; UsageError if they cannot be read as files (rules 2, 4)."""
        folder = self.common / "objects"
        if (folder / "info" / "alternates").exists():
            raise UsageError(
                f"{folder / 'info/alternates'}: this repository borrows objects, which orchestra cannot read"
            )
        return Objects(folder)


class Objects:
    """The objects of a repository, to be used in a `with`. Nothing is written."""

    def __init__(self, folder: Path) -> None:
        from dulwich.object_store import DiskObjectStore

        pack = folder / "pack"
        odd = (
            [entry.name for entry in os.scandir(pack) if not entry.is_file(follow_symlinks=False)]
            if pack.is_dir()
            else []
        )
        if odd or not folder.is_dir():
            raise UsageError(f"{folder} cannot be read: {odd[0] if odd else 'it'} is no {'file' if odd else 'folder'}")
        self._folder = folder
        self._store: DiskObjectStore = DiskObjectStore(str(folder))

    def __enter__(self) -> Objects:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def data(self, sha: str, kind: bytes) -> bytes:
        """The bytes of an object of this kind; UsageError if it is not there or is another."""
        loose = self._folder / sha[:2] / sha[2:]
        try:
            if loose.is_symlink() or (loose.exists() and not stat.S_ISREG(loose.lstat().st_mode)):
                raise KeyError(sha)
            found = self._store[sha.encode()]  # type: ignore[index]  # a NewType of bytes
            if found.type_name != kind:
                raise KeyError(sha)
            return found.as_raw_string()
        except damage() as error:
            what = f"the repository lacks {kind.decode()} {sha}"
            raise UsageError(f"{what}, or it is damaged ({type(error).__name__}); try: git fsck") from error

    def tree_of(self, commit: str) -> str:
        """The tree of a commit."""
        first, _, _ = self.data(commit, b"commit").partition(b"\n")
        return first.removeprefix(b"tree ").decode("ascii", "replace")

    def tree(self, sha: str) -> Tree:
        """A tree, read; it may be changed in memory."""
        from dulwich.objects import Tree

        found, data = Tree(), self.data(sha, b"tree") if sha else b""
        try:
            found.set_raw_string(data)
            found.items()
        except damage() as error:
            raise UsageError(f"tree {sha} of the repository is damaged; try: git fsck") from error
        return found

    def files(self, tree: str, most: int) -> Iterator[tuple[bytes, int, str]]:
        """All files of a tree: path, mode and object; submodules too. UsageError if there are more than `most` entries.

        A few small trees that name each other can stand for any number of files.
        """
        left = [(b"", tree)]
        count = 0
        while left:
            below, sha = left.pop()
            for entry in self.tree(sha).items():
                count += 1
                if count > most or len(below) > _LONGEST:
                    raise UsageError(f"the commit has more than {most} files, or paths without end")
                path = below + entry.path
                if entry.mode == FOLDER:
                    left.append((path + b"/", entry.sha.decode()))
                else:
                    yield path, entry.mode, entry.sha.decode()

    def find(self, tree: str, path: str) -> tuple[int, str] | None:
        """Mode and object of a path in a tree; None if it is not there."""
        mode = FOLDER
        for name in os.fsencode(path).split(b"/"):
            if mode != FOLDER:
                return None
            try:
                mode, sha = self.tree(tree)[name]
            except KeyError:
                return None
            tree = sha.decode()
        return mode, tree


def damage() -> tuple[type[Exception], ...]:
    """What reading a damaged or hostile object may raise."""
    from dulwich.errors import ApplyDeltaError, ChecksumMismatch, FileFormatException, WrongObjectException

    usual = (KeyError, ValueError, OSError, AssertionError, IndexError, TypeError, EOFError, RecursionError)
    format = (ApplyDeltaError, ChecksumMismatch, FileFormatException, WrongObjectException)
    return (*usual, MemoryError, struct.error, zlib.error, *format)


def find_repository(project: Path, homes: tuple[str, ...]) -> Repository | None:
    """The repository that a project lies in; None if there is none, or it is not this user's (rule 3)."""
    device = project.stat().st_dev
    for folder in (project, *project.parents):
        found = folder.lstat()
        if found.st_dev != device or found.st_uid not in (os.geteuid(), 0):
            return None
        if os.path.lexists(folder / ".git"):
            folders = _git_folders(folder)
            prefix = "" if folder == project else f"{project.relative_to(folder)}/"
            return None if folders is None else Repository(folder, *folders, prefix)
        if str(folder) in homes:
            return None
    return None


def wrong_branch(name: str) -> str:
    """Why this is no name of a branch; empty if it is one (git check-ref-format)."""
    parts = name.split("/")
    if not name or name == "HEAD" or name.startswith("-") or name.endswith(".") or ".." in name or "@{" in name:
        return f"{name!r} is no name for a branch"
    if any(not part or part.startswith(".") or part.endswith(".lock") for part in parts):
        return f"{name!r} is no name for a branch: a part of it is empty, begins with a dot or ends with .lock"
    if re.search(r"[\x00-\x20~^:?*\[\\\x7f]", name):
        return f"{name!r} is no name for a branch: it has a character that git does not allow"
    return ""


def _git_folders(top: Path) -> tuple[Path, Path] | None:
    """The git folder of this worktree and the repository's: both `.git`, or where a file `.git` leads (rule 3)."""
    own = top / ".git"
    if own.is_symlink():
        return None
    if own.is_dir():
        return None if os.path.lexists(own / _COMMON) else (own, own)  # git makes no such file there
    try:
        target = Path(os.path.normpath(top / _text(own).removeprefix("gitdir: ")))
        common = Path(os.path.normpath(target / _text(target / _COMMON)))
        named = _text(target / "gitdir")
    except (OSError, OddFile):
        return None
    ours = os.path.realpath(target / named) == os.path.realpath(own)
    theirs = os.path.realpath(common / "worktrees") == os.path.realpath(target.parent)
    return (target, common) if ours and theirs else None


def _text(path: Path) -> str:
    return read_bounded(path, _MOST_REF).decode("utf-8", "replace").strip()
