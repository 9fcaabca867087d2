"""Which tracked files have changes that are not committed: the index against the files, and against the commit.

Rules
1. A file whose size, time and mode are as in the index is unchanged, unless it was changed in the moment that the index
   was written. Other files are hashed, as they are and with LF line ends: git may convert those (`core.autocrlf`).
2. The index against the commit: its trees are computed in memory. Only if the root differs are trees read.
3. No filter is run. A file that git stores through a filter (LFS) counts as changed if its time is not the index's.
4. A repository with more than MOST files is not looked at: None.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from orchestra.core.errors import OddFile, UsageError
from orchestra.core.files import MIB, read_bounded
from orchestra.patch.git.repository import EXECUTABLE, FILE, LINK, SUBMODULE, Head, Repository, damage

if TYPE_CHECKING:
    from dulwich.index import IndexEntry

MOST = 50_000
_MOST_INDEX, _MOST_FILE = 256 * MIB, 64 * MIB
_SKIPPED = 0x4000  # skip-worktree, of a sparse checkout
Entries = Mapping[bytes, "IndexEntry"]


def uncommitted(repository: Repository, head: Head) -> tuple[str, ...] | None:
    """The tracked files whose changes are not committed, by their paths in the repository; None: not known."""
    index = repository.own / "index"
    entries = read_index(index)
    if entries is None or len(entries) > MOST:
        return None
    written = index.stat().st_mtime_ns if entries else 0
    changed = dict.fromkeys(
        path for path, entry in entries.items() if _is_changed(repository.top, path, entry, written)
    )
    changed |= dict.fromkeys(_staged(repository, head, entries))
    return tuple(os.fsdecode(path) for path in sorted(changed))


def read_index(path: Path) -> dict[bytes, IndexEntry] | None:
    """The entries of an index, by their paths; None if it cannot be read, or a merge is not finished."""
    from dulwich.index import IndexEntry, read_index_dict_with_version

    try:
        data = read_bounded(path, _MOST_INDEX)
    except FileNotFoundError:
        return {}
    except (OSError, OddFile):
        return None
    file = io.BytesIO(data)
    try:
        entries, _, _ = read_index_dict_with_version(file)
    except (ValueError, AssertionError, IndexError, EOFError, OSError, KeyError, TypeError, struct.error) as error:
        raise UsageError(f"{path} cannot be read ({error}); try: git status") from error
    if file.tell() != len(data) - 20 or not all(isinstance(one, IndexEntry) for one in entries.values()):
        return None  # a split or sparse index, or conflicts
    return {name: entry for name, entry in entries.items() if isinstance(entry, IndexEntry)}


def blob_of(data: bytes) -> str:
    """The name that git gives to a file's bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _is_changed(top: Path, path: bytes, entry: IndexEntry, written: int) -> bool:
    """Whether a file is not as in the index (rule 1)."""
    if entry.mode == SUBMODULE or entry.extended_flags & _SKIPPED:
        return False
    place = os.path.join(os.fsencode(top), path)
    try:
        now = os.lstat(place)
        if entry.mode != _mode(now.st_mode):
            return True
        if now.st_size == entry.size and now.st_mtime_ns == _nanoseconds(entry) and now.st_mtime_ns < written:
            return False
        if entry.mode == LINK:
            return blob_of(os.readlink(place)) != entry.sha.decode()
        data = read_bounded(os.fsdecode(place), _MOST_FILE)
    except (OSError, OddFile):
        return True
    return entry.sha.decode() not in (blob_of(data), blob_of(data.replace(b"\r\n", b"\n")))


def _mode(mode: int) -> int:
    if stat.S_ISLNK(mode):
        return LINK
    return (EXECUTABLE if mode & 0o100 else FILE) if stat.S_ISREG(mode) else 0


def _nanoseconds(entry: IndexEntry) -> int:
    seconds = entry.mtime
    if isinstance(seconds, tuple):
        return seconds[0] * 1_000_000_000 + seconds[1]
    return int(seconds * 1_000_000_000)


def _staged(repository: Repository, head: Head, entries: Entries) -> Iterator[bytes]:
    """The paths at which the index is not as the commit (rule 2)."""
    from dulwich.index import commit_tree
    from dulwich.object_store import MemoryObjectStore

    if not head.commit:
        yield from entries
        return
    try:
        here = commit_tree(MemoryObjectStore(), [(path, one.sha, one.mode) for path, one in entries.items()])
    except damage() as error:
        raise UsageError(f"the index of {repository.top} has paths that no tree can have; try: git status") from error
    with repository.objects() as objects:
        tree = objects.tree_of(head.commit)
        if here.decode() == tree:
            return
        committed = {path: (mode, sha) for path, mode, sha in objects.files(tree, 4 * MOST)}
    for path in {*entries, *committed}:
        now = (entries[path].mode, entries[path].sha.decode()) if path in entries else None
        if now != committed.get(path):
            yield path
