"""The job of an undo, and what it returns. Data only."""

from __future__ import annotations

from msgspec import Struct

from orchestra.core.work import Since


class Job(Struct, frozen=True, omit_defaults=True):
    """What is taken back.

    `runs` are the run itself, then the undos that were made of it: their patches are a part of what its files went
    through. The runs below each of them belong to it.
    """

    run: str = ""
    runs: tuple[str, ...] = ()
    to: Since | None = None  # an event of the run: the files become what they were then; None: before the run


class Undone(Struct, frozen=True):
    """The result of an undo: the restored files, as they are called in the project."""

    run: str
    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()  # those of them that the run had made
