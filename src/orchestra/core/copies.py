"""A run's own copy of the project: the run changes the copy, and its changes reach the project later, as one patch.

Rules
1. The copy is the folder `workspace` in the folder of the run it was made for. RUN_CREATED has its path as `copy`, from
   the project's folder. Child runs of that run work in the same copy.
2. It is made before the run's first event: a run that exists has its copy. What an earlier process left is made anew.
3. A fork gets a copy of the copy as it is then, because the old run keeps its own.
4. It is removed with the run's folder.
5. A run's first event may be anybody's, if a person adopted the run. So a path counts only if it is the folder
   `workspace` of a run in one of the project's folders of runs.

What of a project is copied is decided in workflows/copying.py.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from orchestra.core.errors import UsageError
from orchestra.core.run import is_id

_NAME = "workspace"
LeftOut = Callable[[str, list[str]], set[str]]  # a folder and its names -> the names that are not copied


def copy_of(run: Path) -> Path:
    """The copy of the run with this folder (rule 1)."""
    return run / _NAME


def owner_of(path: str) -> str:
    """The id of the run that a copy was made for, from its path in RUN_CREATED; empty without a path."""
    return os.path.basename(os.path.dirname(path))


def path_of(project: str | Path, copy: Path) -> str:
    """The path of a copy as RUN_CREATED has it."""
    return os.path.relpath(copy, project)


class Copies(Struct, frozen=True):
    """Where the copies of one project are: below the folders of its runs."""

    project: Path
    roots: tuple[Path, ...]

    def found(self, path: str) -> Path:
        """The copy that RUN_CREATED names; UsageError if it is gone, or no copy of a run of the project (rule 5)."""
        copy = Path(os.path.normpath(self.project / path))
        if copy.name != _NAME or not is_id(copy.parent.name) or copy.parent.parent not in self.roots:
            raise UsageError(f"the run works in {path}, and that is no copy of the project")
        if copy.is_symlink() or copy.parent.is_symlink() or not copy.is_dir():
            raise UsageError(f"the run works in {copy}, its copy of the project, and that is gone; start a new run")
        return copy

    def workspace(self, path: str) -> Path:
        """The folder that a run works in: the copy that RUN_CREATED names, or the project without one."""
        return self.found(path) if path else self.project


NO_COPIES = Copies(Path(), ())


def make_copy(source: Path, target: Path, left_out: LeftOut | None = None) -> None:
    """Copy a folder: all of it or nothing (rule 2). Links stay links."""
    making = target.with_name(f".{target.name}.tmp")
    for there in (making, target):
        if there.exists():
            shutil.rmtree(there)
    try:
        shutil.copytree(source, making, symlinks=True, ignore=left_out)
        os.replace(making, target)
    except OSError as error:  # shutil.Error too: it is an OSError
        raise UsageError(f"{source} cannot be copied to {target}: {_why(error)}") from error


def _why(error: OSError) -> str:
    """The first reason of a copy that failed: shutil collects them."""
    if isinstance(error, shutil.Error) and error.args and error.args[0]:
        name, _, why = error.args[0][0]
        return f"{name}: {why}"
    return str(error.strerror or error)
