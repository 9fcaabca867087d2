"""Makes a run's own copy of the project (core/copies.py): what a fresh checkout of it would have.

Rules
1. Left out: `.git`, what `.gitignore` names, and what is closed to patches: runs and environments. Commands of the run
   use the project's environment (commands/sandbox.py, rule 4). In a linked worktree of git, `.git` is a file: a copy of
   it would have git in the copy work on the index and the branch of the project.
2. Left out as well: files that are secrets by their names, and everything that is no file, folder or link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from orchestra.context.ignoring import REPOSITORIES, Rules, ignored, rules_of
from orchestra.core.copies import LeftOut, make_copy
from orchestra.core.secretfiles import secret_by_name


def copy_project(root: Path, target: Path, closed: Callable[[str], Iterable[str]]) -> None:
    """Copy a project to a folder that does not exist yet. `closed` returns the closed folders, by whole paths."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    make_copy(root, target, _left_out(root, frozenset(closed(str(root)))))


def is_copied(root: Path, name: str, closed: Callable[[str], Iterable[str]]) -> bool:
    """Whether a copy of the project has this file of it, which exists."""
    left_out, folder = _left_out(root, frozenset(closed(str(root)))), str(root)
    for part in name.split("/"):
        if left_out(folder, [part]):
            return False
        folder = f"{folder}/{part}"
    return True


def _left_out(root: Path, closed: frozenset[str]) -> LeftOut:
    known: dict[str, Rules] = {}  # by folder: the rules that hold in it

    def left_out(folder: str, names: list[str]) -> set[str]:
        prefix = "" if folder == str(root) else os.path.relpath(folder, root) + "/"
        rules = (*known.get(os.path.dirname(folder), ()), *rules_of(Path(folder), prefix))
        known[folder] = rules
        return {name for name in names if _is_left_out(f"{folder}/{name}", prefix + name, rules, closed)}

    return left_out


def _is_left_out(path: str, name: str, rules: Rules, closed: frozenset[str]) -> bool:
    """Rules 1 and 2, for one file or folder. `name` is its path in the project."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return True  # it is gone
    if os.path.basename(path) in REPOSITORIES:
        return True
    if stat.S_ISDIR(mode):
        return path in closed or ignored(f"{name}/", rules)
    return not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)) or ignored(name, rules) or bool(secret_by_name(name))
