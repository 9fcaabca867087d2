"""The job of an apply, and what it returns. Data only."""

from __future__ import annotations

from msgspec import Struct

from orchestra.core.work import CommitTo


class Job(Struct, frozen=True, omit_defaults=True):
    """What is committed: the net change of a run. `runs` are the run itself, then the undos that were made of it."""

    run: str = ""
    runs: tuple[str, ...] = ()
    to: CommitTo | None = None


class Committed(Struct, frozen=True):
    """The result of an apply: the commit, its branch, and its files as they are called in the repository."""

    run: str
    commit: str
    branch: str
    files: tuple[str, ...]
