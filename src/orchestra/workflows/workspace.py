"""The folder that a run works in: the project, or a folder of its own inside the project.

Rules
1. RUN_CREATED has the folder as `folder`, a path in the project; without it the run works in the project itself.
   `workspace` beside it stays the project's own path, by which a run is vouched for (core/vouching.py). So older runs
   mean what they meant, and a project that was moved and adopted finds the folder again.
2. A child names its folder from its parent's folder, and cannot leave that. A child that names none has its parent's.
3. Refused, before the child exists: a path that is not plain or leads out, through a link, or to something that is no
   folder; a hidden folder; a place that is closed to patches (guard.py); a folder of secrets.
4. What the run is allowed to do stays the project's: policy, configuration, consent, closed folders, environment.
5. The folder is made if it is missing. It is judged again each time the run is driven.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from orchestra.core.errors import UsageError
from orchestra.core.names import has_unseen, is_name
from orchestra.core.secretfiles import secret_by_name
from orchestra.patch.safety import wrong_path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def wrong_folder(root: Path, folder: str, closed: Callable[[str], Iterable[str]]) -> str:
    """Why no run may work in this folder of the project; empty if one may (rule 3).

    `closed` returns the whole paths of the closed folders, seen from a folder of the project.
    """
    return wrong_path(folder) or _closed(root, folder, closed) or _on_disk(root, folder)


def make_folder(root: Path, folder: str) -> None:
    """Make the folder and those above it, as far as they are missing; UsageError if a link or a file is in the way."""
    at = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for name in folder.split("/"):
            try:
                os.mkdir(name, dir_fd=at)
            except FileExistsError:
                pass  # opening it tells whether it is a folder
            below = os.open(name, _FOLDER, dir_fd=at)
            os.close(at)
            at = below
    except OSError as error:
        raise UsageError(f"{root / folder} cannot be made: {error.strerror}") from error
    finally:
        os.close(at)


def _on_disk(root: Path, folder: str) -> str:
    """Why the folder cannot be used as it is on disk; empty if it can, or does not exist yet."""
    place = root
    for name in folder.split("/"):
        place = place / name
        if place.is_symlink():
            return f"{place.relative_to(root)} is a link"
        if not place.is_dir() and os.path.lexists(place):
            return f"{place.relative_to(root)} is not a folder"
    return ""


def _closed(root: Path, folder: str, closed: Callable[[str], Iterable[str]]) -> str:
    """Why the name of this folder is not allowed; empty if it is."""
    parts = folder.split("/")
    if hidden := next((part for part in parts if part.startswith(".")), ""):
        return f"{hidden} is a hidden folder; a run works in folders that people see"
    if has_unseen(folder):
        return "the name has invisible characters; choose another name"
    above = ("/".join((str(root), *parts[:depth])) for depth in range(len(parts)))
    for name in _inside(root, dict.fromkeys(path for place in above for path in closed(place))):
        if _lies_in(parts, name.split("/")):
            return f"{name} is closed: runs and environments are kept there"
    if why := secret_by_name(f"{folder}/file"):
        return f"what lies there is a secret by its name ({why})"
    return ""


def _inside(root: Path, paths: Iterable[str]) -> Iterator[str]:
    """The names in the project of these paths: as written, and with their links resolved."""
    for path in paths:
        for place in dict.fromkeys((os.path.normpath(path), os.path.realpath(path))):
            name = os.path.relpath(place, root)
            if name != os.curdir and name.split("/")[0] != os.pardir:
                yield name


def _lies_in(parts: list[str], closed: list[str]) -> bool:
    """Whether a path is a folder or lies in it, as the strictest file system compares names."""
    return len(parts) >= len(closed) and all(is_name(part, name) for part, name in zip(parts, closed, strict=False))
