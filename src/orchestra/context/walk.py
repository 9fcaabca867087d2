"""The files of a workspace that are worth listing, with their sizes and times.

Rules
1. Links are not followed, and no process is started. A folder that cannot be read is left out.
2. `.git`, run folders, what `.gitignore` names, and well-known build and cache folders are left out (ignoring.py). A
   folder `build` is left out only if `.gitignore` names it, or there is none.
3. A name that cannot be shown in one line (a newline, bytes that are no text) is left out.
4. Folders near the root come first. At most `MOST_FILES` files are taken and `MOST_ENTRIES` entries looked at; `more`
   is then true.
"""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import NamedTuple

from orchestra.context.ignoring import BUILDS, CACHES, REPOSITORIES, RUN_FOLDERS, Rules, ignored, rules_of

MOST_FILES = 50_000
MOST_ENTRIES = 400_000
_SKIPPED = REPOSITORIES | RUN_FOLDERS | CACHES | BUILDS | {".idea", ".vscode"}
_SOURCE_TOO = "build"  # often output, in some projects source: where there is a .gitignore, it knows


class Found(NamedTuple):
    """One file of a workspace."""

    path: str
    size: int
    mtime: int  # nanoseconds


class Walked(NamedTuple):
    """The files of a workspace, by path; `more`: there are others that were not looked at (rule 4)."""

    files: tuple[Found, ...]
    more: bool


def walk(root: Path, *, most: int = MOST_FILES, most_entries: int = MOST_ENTRIES) -> Walked:
    """Every file worth listing, sorted by path."""
    queue: deque[tuple[str, Rules]] = deque([("", ())])
    top = os.fspath(root)
    files: list[Found] = []
    looked = 0
    while queue:
        prefix, above = queue.popleft()
        try:
            with os.scandir(f"{top}/{prefix}") as found:
                entries = _bounded(found, most_entries - looked)
        except OSError:
            continue
        looked += len(entries)
        rules = above
        if any(entry.name == ".gitignore" for entry in entries):
            rules = (*above, *rules_of(root / prefix, prefix))
        for entry in sorted(entries, key=lambda entry: entry.name):
            if len(files) > most:
                break  # of a folder with very many files
            path = prefix + entry.name
            if not path.isprintable() or entry.is_symlink():  # rules 1 and 3
                continue
            if entry.is_dir(follow_symlinks=False):
                skipped = entry.name in _SKIPPED and not (entry.name == _SOURCE_TOO and rules)
                if not skipped and not ignored(path + "/", rules):
                    queue.append((path + "/", rules))
            elif entry.is_file(follow_symlinks=False) and not ignored(path, rules):
                files += _stat(path, entry)
        if len(files) >= most or looked >= most_entries:
            return Walked(tuple(sorted(files[:most])), more=bool(queue) or len(files) > most or looked >= most_entries)
    return Walked(tuple(sorted(files)), more=False)


def _bounded(found: os._ScandirIterator[str], most: int) -> list[os.DirEntry[str]]:
    """The entries of a folder, `most` at most."""
    entries: list[os.DirEntry[str]] = []
    for entry in found:
        entries.append(entry)
        if len(entries) >= most:
            break
    return entries


def _stat(path: str, entry: os.DirEntry[str]) -> tuple[Found, ...]:
    """The file's facts; empty if the file was removed meanwhile."""
    try:
        held = entry.stat(follow_symlinks=False)
    except OSError:
        return ()
    return (Found(path, held.st_size, held.st_mtime_ns),)
