"""Where a commit may go in a project's repository, and in whose name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from orchestra.core.errors import UsageError
from orchestra.patch.git.identity import Identity, identity
from orchestra.patch.git.repository import find_repository, wrong_branch


class CommitPlace(Struct, frozen=True):
    """A branch, the commit that it goes on from, and who commits."""

    branch: str
    parent: str
    who: Identity


def commit_place(
    project: Path, homes: tuple[str, ...], environ: Mapping[str, str], branch: str, began: str
) -> CommitPlace:
    """The place of a commit: a new branch, from the commit where the run began; without a name, what is checked out."""
    repository = find_repository(project, homes)
    if repository is None:
        raise UsageError(
            f"{project} lies in no git repository of yours; to have the change as a file: orchestra diff RUN"
        )
    head = repository.head()
    if branch:
        if wrong := wrong_branch(branch):
            raise UsageError(f"--branch: {wrong}")
        if repository.commit_of(branch):
            raise UsageError(f"--branch: {branch} exists already; choose another name")
        if other := repository.in_the_way(branch):
            raise UsageError(f"--branch: {branch} cannot be beside branch {other}; choose another name")
        parent = began or head.commit
    elif not head.branch:
        raise UsageError("--commit: no branch is checked out (HEAD is detached); use --branch NAME")
    else:
        parent = head.commit
    if not parent:
        raise UsageError("the repository has no commit yet; make the first one with git")
    return CommitPlace(branch or head.branch, parent, identity(environ))
