"""Reads lines at prompts, one at a time, while the event loop goes on; and waits for the person's own programs.

Rules
1. prompt_toolkit (cli/editor.py) is loaded for the first prompt and not before.
2. What a line leads to is called in the same task: it may ask for the next line, or start a program.
3. A prompt that was closed calls nothing. When no line is read any more, `idle` is called.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from orchestra.cli.editor import Line


class Reads(Protocol):
    """Reads what a person says to a face, one thing at a time."""

    away: bool  # an editor or a pager has the terminal

    @property
    def busy(self) -> bool: ...

    def forget_typed(self) -> None: ...

    def ask(self, text: str, then: Callable[[str], None], /, *, keys: str = "") -> None: ...

    def start(self, work: Coroutine[Any, Any, None], /) -> None: ...

    def close(self) -> None: ...

    async def elsewhere(self, program: Coroutine[Any, Any, Any], /) -> Any: ...


class Prompter:
    """The prompt of a terminal face. `left` is called when the input ends, `broken` with an unexpected error."""

    def __init__(
        self, *, left: Callable[[], None], idle: Callable[[], None], broken: Callable[[BaseException], None]
    ) -> None:
        self._left, self._idle, self._broken = left, idle, broken
        self._typed: Line | None = None
        self._task: asyncio.Task[None] | None = None
        self._number = 0  # grows when a prompt is closed
        self.away = False  # an editor or a pager has the terminal

    @property
    def busy(self) -> bool:
        """Whether a line is read, or a program is waited for."""
        return self._task is not None

    def forget_typed(self) -> None:
        """Discard what was typed before the question."""
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
        self._line().forget_typed()

    def ask(self, text: str, then: Callable[[str], None], *, keys: str = "") -> None:
        """Read a line, and call `then` with it. A letter of `keys` is an answer without Enter."""
        self.start(self._read(text, then, keys))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a task that reads a line, or waits for a program."""
        task = asyncio.ensure_future(work)
        task.add_done_callback(self._ended)
        self._task = task

    def close(self) -> None:
        """Ask no more: the line that is read is discarded."""
        self._number += 1
        if self._typed is not None:
            self._typed.close()
        if self._task is None:
            self._idle()

    async def elsewhere(self, program: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a program that has the terminal: Ctrl-C is meant for it."""
        self.away = True
        try:
            return await program
        finally:
            self.away = False

    def _line(self) -> Line:
        if self._typed is None:
            from orchestra.cli.editor import Line

            self._typed = Line()
        return self._typed

    async def _read(self, text: str, then: Callable[[str], None], keys: str) -> None:
        number = self._number
        try:
            line = await self._line().read(text, keys)
        except EOFError:  # the end of the input; or the prompt was closed
            return self._left() if number == self._number else None
        except KeyboardInterrupt:  # the terminal gave Ctrl-C as a key
            os.kill(os.getpid(), signal.SIGINT)
            return None
        said = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")  # bytes that are no text
        return then(said.strip()) if number == self._number else None

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._task is not task:  # another line is read
            return
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken(error)
        elif not task.cancelled():
            self._idle()
