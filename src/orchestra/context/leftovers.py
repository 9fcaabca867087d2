"""What a command may leave in the copy of a workspace without it being a change: build output and caches (C-14).

Pure, but for `.gitignore` files and the existence of paths. What happens to leftovers is in `commands/`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from orchestra.context.ignoring import (
    BUILDS,
    CACHES,
    INSTALLED,
    REMEMBERED,
    REPOSITORIES,
    RUN_FOLDERS,
    Rules,
    ignored,
    rules_of,
)


def keepable(paths: Iterable[str], root: Path) -> tuple[str, ...]:
    """Of the leftovers of a command those that later commands may see: build output, and new files.

    Not files of a repository or a run. Nothing that replaces files of the workspace or is added to installed packages:
    its code would run in every later command, without a patch that shows it. No cache: tools trust a .pyc or a result
    of mypy without reading the source.
    """
    closed = REPOSITORIES | REMEMBERED
    open_ = (p for p in paths if p.split("/")[0] not in RUN_FOLDERS and not closed & set(p.split("/")))
    return tuple(p for p in open_ if _name(p) in BUILDS or not os.path.lexists(root / p))


def only_built(paths: Iterable[str], upper: Path) -> tuple[str, ...]:
    """Of these paths what a check leaves to the next check: folders of build output, and no single files."""
    return tuple(p for p in paths if _name(p) not in INSTALLED and _is_folder(upper / p))


def missed(paths: Iterable[str], kept: tuple[str, ...], upper: Path) -> tuple[str, ...]:
    """Of the leftovers that are not kept those that a person may need: programs, installed packages."""
    gone = (p for p in paths if p not in kept and not (REPOSITORIES | REMEMBERED) & set(p.split("/")))
    return tuple(p for p in gone if _name(p) in INSTALLED or _is_program(upper / p))


def builds(paths: Iterable[str]) -> tuple[str, ...]:
    """Of the leftovers those that a person might have meant as a change."""
    return tuple(path for path in paths if _name(path) in BUILDS)


class Leftovers:
    """Whether a path of a workspace is build output or a cache."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._rules: dict[str, Rules] = {}

    def __call__(self, path: str, is_folder: bool) -> bool:
        """Whether `.gitignore`, or the list of well-known folders, names this path or a folder above it."""
        parts = path.split("/")
        folders = parts if is_folder else parts[:-1]
        if folders[:1] and folders[0] in RUN_FOLDERS:
            return True
        for depth, name in enumerate(folders, start=1):
            known = name in REPOSITORIES or name in CACHES
            if known or (name in BUILDS and not (self._root / "/".join(folders[:depth])).exists()):
                return True
        folder = "".join(f"{part}/" for part in parts[:-1])
        return ignored(path + "/" * is_folder, self._rules_of(folder))

    def _rules_of(self, folder: str) -> Rules:
        if folder not in self._rules:
            above = self._rules_of(folder[:-1].rpartition("/")[0] + "/" if "/" in folder[:-1] else "") if folder else ()
            self._rules[folder] = (*above, *rules_of(self._root / folder, folder))
        return self._rules[folder]


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode)


def _is_program(path: Path) -> bool:
    mode = os.lstat(path).st_mode
    return stat.S_ISREG(mode) and bool(mode & stat.S_IXUSR)
