"""The contents of a project's files as one digest, for steps that hold for these files only (core/looks.py).

Rules
1. The files are those worth listing (walk.py): no link is followed; `.git`, run folders, what `.gitignore` names and
   build output are left out. Globs choose among them, each as a line of a `.gitignore` (globs.py).
2. The digest is of paths and bytes, not of times: a file that was only touched is the same.
3. There are limits. A tree that exceeds one has no digest: UsageError, with the limit.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from orchestra.context.walk import MOST_FILES, walk
from orchestra.core.errors import OddFile, UsageError
from orchestra.core.files import MIB, read_below, size
from orchestra.core.globs import Globs
from orchestra.core.looks import Hashed
from orchestra.core.names import CONTRACTS

MOST_BYTES = 512 * MIB


def tree_hash(root: Path, globs: tuple[str, ...] = (), *, without: str = "\0") -> Hashed:
    """The digest of the files below `root` that one of the globs names; without globs, of all.

    `without` those whose path begins so.
    """
    chosen = Globs(globs) if globs else None
    found = walk(root)
    named = (file for file in found.files if chosen is None or chosen(file.path))
    files = [file for file in named if not file.path.startswith(without)]
    total = sum(file.size for file in files)
    if found.more or total > MOST_BYTES:
        limit = f"{MOST_FILES:,} files" if found.more else size(MOST_BYTES)
        raise UsageError(f"{root} has more than {limit}: too much for one digest. Name fewer files by globs")
    whole = hashlib.sha256()
    count = 0
    for file in files:
        try:
            data = read_below(root, file.path, MOST_BYTES)
        except (OSError, OddFile):
            continue  # gone, or no longer a file
        count += 1
        whole.update(os.fsencode(file.path) + b"\0" + hashlib.sha256(data).digest())
    return Hashed(f"sha256:{whole.hexdigest()}", count, globs)


def tested_tree(root: Path) -> str:
    """The digest of the files that a test run is about: all but the contracts; empty if they are too many for one."""
    try:
        return tree_hash(root, without=f"{CONTRACTS}/").digest
    except UsageError:
        return ""
