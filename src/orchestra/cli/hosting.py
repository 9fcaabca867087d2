"""A command inside another program of ours: the terminal UI has the terminal, asks, and drives what a command starts.

Rules
1. The host is the object of the command's click context. A command finds it by `host`, and needs to know no more of it.
2. A hosted command runs in a thread of its own. What it prints is caught; what it asks is asked by its host, which
   blocks that thread only.
3. Commands that lines name begin as a person types them there: `/resume` in the terminal UI, `orchestra resume` in a
   shell.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

import click

if TYPE_CHECKING:
    from orchestra.cli.driving import Drive
    from orchestra.cli.face import CommandFace
    from orchestra.core.run import RunFolder

SHELL = "orchestra "
_BEGINNING: ContextVar[str] = ContextVar("beginning", default=SHELL)  # how a command begins where its line is read


class Host(Protocol):
    """A program that runs commands inside itself."""

    hosts: bool

    @property
    def face(self) -> CommandFace: ...

    def ask(self, question: str, /) -> str:
        """Ask the person, and wait for what is said; empty if nothing is."""

    def elsewhere(self, program: Coroutine[Any, Any, Any], /) -> Any:
        """Wait for a program that has the terminal, such as an editor."""

    def take(self, drive: Drive, folder: RunFolder, /, *, known: bool, accept_drift: frozenset[str]) -> int:
        """Drive a run that a command started or found; returns the exit code of the command."""


def host() -> Host | None:
    """The program that the running command is inside of; None if the command is the program."""
    ctx = click.get_current_context(silent=True)
    found = ctx.obj if ctx else None
    return found if getattr(found, "hosts", False) else None


@contextmanager
def commands_begin_with(beginning: str) -> Iterator[None]:
    """Let the commands that lines name begin so (rule 3)."""
    token = _BEGINNING.set(beginning)
    try:
        yield
    finally:
        _BEGINNING.reset(token)


def how_commands_begin() -> str:
    """How a command that a line names begins (rule 3)."""
    return _BEGINNING.get()
