"""What is said to a provider that is a program, and how that went. Data only: commands/program.py runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct


class Talk(Struct, frozen=True, kw_only=True):
    """A program that is asked something on stdin and heard on stdout, in a home made for it."""

    run: str  # for which run; may be empty
    arguments: tuple[str, ...]
    env: Mapping[str, str]
    stdin: bytes
    timeout_ms: int
    on_bytes: Callable[[bytes], bool]
    home: Mapping[str, bytes]  # files it finds there
    back: tuple[str, ...] = ()  # those that are read again however it ended
    on_back: Callable[[str, bytes], None] = lambda name, data: None  # and who gets them: hostile until looked at


class Ended(Struct, frozen=True, kw_only=True):
    """How it went."""

    exit_code: int | None = None
    problem: str = ""  # why it did not run
    stderr: str = ""


Converse = Callable[[str, Talk], Awaitable[Ended]]  # the program's name, what to say
