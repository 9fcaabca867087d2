"""A call of a provider that is a program, and its end. Data only: commands/program.py runs the program."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct


class Talk(Struct, frozen=True, kw_only=True):
    """One call of a program: the prompt on stdin, the reply on stdout, a home folder made for the call."""

    run: str  # the id of the run; empty outside a run
    arguments: tuple[str, ...]
    env: Mapping[str, str]
    stdin: bytes
    timeout_ms: int
    on_bytes: Callable[[bytes], bool]
    home: Mapping[str, bytes]  # the files in its home folder
    back: tuple[str, ...] = ()  # files of `home` that are read again, however the program ended
    on_back: Callable[[str, bytes], None] = lambda name, data: None  # gets them; their content is not trusted


class Ended(Struct, frozen=True, kw_only=True):
    """How the program ended."""

    exit_code: int | None = None
    problem: str = ""  # why the program did not run
    stderr: str = ""


Converse = Callable[[str, Talk], Awaitable[Ended]]  # the program's name, the call
