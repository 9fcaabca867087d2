"""Writing to a repository: objects, a branch, the index. Each exactly once, whatever a crash left.

Rules
1. Objects are written as loose files. They have their content as their name, so writing one again changes nothing.
2. A branch and the index are changed as git does it: a `.lock` file that does not exist is made, whole, and renamed. A
   lock with exactly our bytes is our own, left by a crash, and is used. Any other is git's: nothing is changed.
3. A branch is moved only from the commit that was expected. Nothing is overwritten, and no hook is run.
4. No link is followed below the git folder: a folder that is one is refused.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from orchestra.core.disk import Disk
from orchestra.core.errors import OddFile
from orchestra.core.files import MIB, read_bounded
from orchestra.core.work import CommitTo, Refusal
from orchestra.patch.git.repository import EXECUTABLE, FILE, FOLDER, Objects, Repository
from orchestra.patch.git.status import blob_of, read_index

if TYPE_CHECKING:
    from dulwich.index import IndexEntry
    from dulwich.objects import Tree

_MOST_LOCK = 256 * MIB
_NONE = "0" * 40


class NewFile(Struct, frozen=True):
    """A file of the new commit; `data` is None for one that is gone."""

    path: str  # in the repository
    data: bytes | None
    executable: bool


class Written(Struct, frozen=True):
    """The objects of a new commit, by their names, and the commit's own name."""

    commit: str
    objects: Mapping[str, tuple[bytes, bytes]]  # kind and content


def build(objects: Objects, files: tuple[NewFile, ...], to: CommitTo) -> Written:
    """A commit of these files on top of its parent. The same input gives the same commit."""
    made: dict[str, tuple[bytes, bytes]] = {}
    tree = _tree(objects, objects.tree_of(to.parent), {tuple(f.path.split("/")): f for f in files}, made)
    zone = f"{'-' if to.zone < 0 else '+'}{abs(to.zone) // 3600:02d}{abs(to.zone) % 3600 // 60:02d}"
    who = f"{to.name} <{to.email}> {to.seconds} {zone}"
    text = f"tree {tree}\nparent {to.parent}\nauthor {who}\ncommitter {who}\n\n{to.message}"
    commit = _keep(made, b"commit", text.encode("utf-8", "replace"))
    return Written(commit, made)


def write(repository: Repository, new: Written, disk: Disk) -> None:
    """Write the objects that are not there yet (rule 1)."""
    for name, (kind, content) in new.objects.items():
        path = repository.common / "objects" / name[:2] / name[2:]
        if not path.exists():
            _refuse_links(repository.common, path)
            data = zlib.compress(b"%s %d\0" % (kind, len(content)) + content)
            disk.publish(path, data, durable=True, mode=0o444)


def move(repository: Repository, to: CommitTo, commit: str, disk: Disk) -> Refusal | None:
    """Move the branch to the commit, or make it; a refusal if somebody else moved it (rules 2, 3)."""
    now = repository.commit_of(to.branch)
    if now == commit:
        return None
    expected = to.parent if to.checkedOut else ""
    if now != expected:
        what = "was moved meanwhile" if to.checkedOut else "exists already"
        return Refusal("conflict", f"branch {to.branch} {what}; nothing was changed")
    path = repository.common / "refs" / "heads" / to.branch
    data = f"{commit}\n".encode()
    refused = _replace(repository.common, path, data, disk, lambda: repository.commit_of(to.branch) == expected)
    if refused is None:
        _note(repository, to, expected or _NONE, commit)
    return refused


def stage(repository: Repository, files: tuple[NewFile, ...], disk: Disk) -> Refusal | None:
    """Put the files into the index, as they are in the commit now. Other entries stay as they are."""
    from dulwich.index import Stage, write_index

    path = repository.own / "index"
    entries = read_index(path)
    if entries is None:
        return Refusal("conflict", f"{path} cannot be changed: a merge is not finished, or it is split or sparse")
    wanted = dict(entries)
    for file in files:
        name = os.fsencode(file.path)
        if file.data is None:
            wanted.pop(name, None)
            continue
        entry = _entry(repository.top / file.path, file)
        if name not in wanted or (wanted[name].sha, wanted[name].mode) != (entry.sha, entry.mode):
            wanted[name] = entry
    if wanted == entries:
        return None
    out = io.BytesIO()
    write_index(out, [wanted[name].serialize(name, Stage.NORMAL) for name in sorted(wanted)])
    data = out.getvalue()
    whole = data + hashlib.sha1(data, usedforsecurity=False).digest()
    return _replace(repository.own, path, whole, disk, lambda: read_index(path) == entries)


def _entry(place: Path, file: NewFile) -> IndexEntry:
    """The entry of a file. If the file on disk has other bytes, its size and times are unknown, so that git looks."""
    from dulwich.index import IndexEntry

    assert file.data is not None
    mode, name = EXECUTABLE if file.executable else FILE, blob_of(file.data).encode()
    if not _has(place, file.data):
        return IndexEntry((0, 0), (0, 0), 0, 0, mode, 0, 0, 0, name)  # type: ignore[arg-type]  # a NewType of bytes
    now = place.lstat()
    changed, modified = (divmod(time, 1_000_000_000) for time in (now.st_ctime_ns, now.st_mtime_ns))
    size = now.st_size & 0xFFFFFFFF
    owner = (now.st_uid, now.st_gid)
    return IndexEntry(changed, modified, now.st_dev, now.st_ino, mode, *owner, size, name)  # type: ignore[arg-type]


def _tree(
    objects: Objects, old: str, files: Mapping[tuple[str, ...], NewFile], made: dict[str, tuple[bytes, bytes]]
) -> str:
    """The tree with these files changed, and the trees below it; empty if nothing is left in it."""
    tree = objects.tree(old)
    folders: dict[str, dict[tuple[str, ...], NewFile]] = {}
    for (name, *rest), file in files.items():
        key = os.fsencode(name)
        if rest:
            folders.setdefault(name, {})[tuple(rest)] = file
        elif file.data is not None:
            blob = _keep(made, b"blob", file.data)
            tree[key] = (EXECUTABLE if file.executable else FILE, blob.encode())  # type: ignore[assignment]
        elif key in tree:
            del tree[key]
    for name, below in folders.items():
        key = os.fsencode(name)
        inner = _tree(objects, _folder_in(tree, key), below, made)
        if inner:
            tree[key] = (FOLDER, inner.encode())  # type: ignore[assignment]
        elif key in tree:
            del tree[key]
    return _keep(made, b"tree", tree.as_raw_string()) if len(tree) else ""


def _folder_in(tree: Tree, name: bytes) -> str:
    """The tree of this name in a tree; empty if there is none."""
    if name not in tree or tree[name][0] != FOLDER:
        return ""
    return tree[name][1].decode()


def _keep(made: dict[str, tuple[bytes, bytes]], kind: bytes, content: bytes) -> str:
    name = hashlib.sha1(b"%s %d\0" % (kind, len(content)) + content, usedforsecurity=False).hexdigest()
    made[name] = (kind, content)
    return name


def _replace(top: Path, path: Path, data: bytes, disk: Disk, still: Callable[[], bool]) -> Refusal | None:
    """Replace a file under git's own lock, if under the lock it is `still` what it was (rule 2)."""
    lock = Path(f"{path}.lock")
    _refuse_links(top, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = top / f"orchestra-{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}.tmp"
    disk.write(str(whole), data, durable=True, mode=0o644)
    try:
        os.link(whole, lock)
    except FileExistsError:
        if not _has(lock, data):
            os.unlink(whole)
            return Refusal("conflict", f"{lock} exists: git, or another program, is changing the repository")
    os.unlink(whole)
    if not still():
        os.unlink(lock)
        return Refusal("conflict", f"{path} was changed meanwhile; nothing was written to it")
    try:
        disk.replace(str(lock), str(path))
    except OSError:
        os.unlink(lock)
        raise
    disk.sync_folder(path.parent)
    return None


def _has(path: Path, data: bytes) -> bool:
    try:
        return read_bounded(path, _MOST_LOCK) == data
    except (OSError, OddFile):
        return False


def _refuse_links(top: Path, path: Path) -> None:
    """OddFile if a folder between `top` and a file is a link (rule 4)."""
    for folder in reversed(path.relative_to(top).parents[:-1]):
        place = top / folder
        if os.path.lexists(place) and not stat.S_ISDIR(place.lstat().st_mode):
            raise OddFile(str(place), "a link or a file, and a folder is needed")


def _note(repository: Repository, to: CommitTo, old: str, commit: str) -> None:
    """Add a line to the branch's reflog, and to HEAD's, where git keeps one. It is only for people."""
    who = f"{to.name} <{to.email}> {to.seconds} +0000"
    line = f"{old} {commit} {who}\tcommit (orchestra): {to.message.splitlines()[0]}\n".encode("utf-8", "replace")
    logs = [repository.common / "logs" / "refs" / "heads" / to.branch]
    logs += [repository.own / "logs" / "HEAD"] if to.checkedOut else []
    for log in logs:
        try:
            fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue  # git keeps none here
        try:
            os.write(fd, line)
        finally:
            os.close(fd)
