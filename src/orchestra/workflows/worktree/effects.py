"""The effects of a worktree: its folder is made with the files of a commit, and removed.

Rules
1. The files are those of the commit, below the project's own folder, without any conversion. No program is started, and
   no configuration of the repository is read (patch/git/repository.py).
2. A link that leads out of the worktree is left out, and so is a submodule. A path that no patch could name is refused.
3. Making it again after a crash begins with an empty folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from orchestra.config.borders import homes
from orchestra.core.context import Step
from orchestra.core.effects import Effect
from orchestra.core.errors import StepFailed, UsageError
from orchestra.core.names import WORKTREES
from orchestra.patch.git.repository import EXECUTABLE, LINK, SUBMODULE, Objects, find_repository
from orchestra.patch.safety import wrong_path
from orchestra.worker.removal import discard
from orchestra.workflows.project import Project

NOT_MADE = "NOT_MADE"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Made(Struct, frozen=True, omit_defaults=True):
    """A worktree: its folder in the project, how many files it has, and the links that it has not."""

    folder: str
    files: int = 0
    without: tuple[str, ...] = ()


class MakeWorktree(Effect[Made], frozen=True):
    """Make the folder of a run with the files of a commit."""

    commit: str

    outcome: ClassVar[Any] = Made


class RemoveWorktree(Effect[Made], frozen=True):
    """Remove the folder, with everything in it."""

    folder: str

    outcome: ClassVar[Any] = Made


class Worktrees:
    """The handlers, for one project."""

    def __init__(self, project: Project) -> None:
        self._project = project

    async def make(self, effect: MakeWorktree, step: Step) -> Made:
        """Fill the folder (rules 1 to 3)."""
        folder = f"{WORKTREES}/{step.ledger.folder.id}"
        place = self._project.path / folder
        try:
            repository = find_repository(self._project.path, homes(self._project.environ))
            if repository is None:
                raise UsageError(f"{self._project.path} lies in no git repository of yours")
            if left := discard(place):
                raise UsageError(f"{place} cannot be emptied: {left[0]}")
            place.mkdir(parents=True, mode=0o755)
            with repository.objects() as objects:
                found = objects.find(objects.tree_of(effect.commit), repository.prefix.rstrip("/"))
                tree = objects.tree_of(effect.commit) if not repository.prefix else found[1] if found else ""
                return _filled(place, folder, objects, tree)
        except (UsageError, OSError) as error:
            raise StepFailed(step.key, NOT_MADE, f"the worktree cannot be made: {error}") from error

    async def remove(self, effect: RemoveWorktree, step: Step) -> Made:
        """Remove the folder. What cannot be removed stays: it is in nobody's way."""
        discard(self._project.path / effect.folder)
        return Made(effect.folder)


def _filled(place: Path, folder: str, objects: Objects, tree: str) -> Made:
    links: dict[str, str] = {}
    count = 0
    for name, mode, sha in objects.files(tree):
        path = os.fsdecode(name)
        if wrong := wrong_path(path):
            raise UsageError(f"the commit has a path that cannot be used: {path!r}: {wrong}")
        if mode == SUBMODULE:
            continue
        data = objects.data(sha, b"blob")
        if mode == LINK:
            links[path] = os.fsdecode(data)
            continue
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(place / path, _NEW, 0o755 if mode == EXECUTABLE else 0o644)
        with open(fd, "wb") as file:
            file.write(data)
        count += 1
    inside = {path: target for path, target in links.items() if _stays_inside(path, target)}
    for path, target in inside.items():  # last: nothing was written through a link
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).symlink_to(target)
    return Made(folder, count + len(inside), tuple(sorted(links.keys() - inside.keys())))


def _stays_inside(path: str, target: str) -> bool:
    """Whether a link leads to a place in the worktree (rule 2)."""
    there = os.path.normpath(os.path.join(os.path.dirname(path), target))
    return not os.path.isabs(target) and there != ".." and not there.startswith("../")
