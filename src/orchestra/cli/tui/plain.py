"""The terminal UI without live rows: for screen readers (`--screen-reader`, ACCESSIBLE=1) and for TERM=dumb.

Rules
1. Lines are only appended. Nothing is drawn again, and no number ticks: a screen reader would read each of them.
2. The terminal itself edits the line that is typed, and shows it. An answer is a line, with Enter.
3. `> ` stands where a line is expected, when nothing runs. What is typed while something runs is taken too.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import click
from prompt_toolkit.history import History

from orchestra.cli.text import safe_painted
from orchestra.cli.tui.status import Status
from orchestra.cli.tui.tail import Tail

_AT_ONCE = 65_536
_NO = ("", "0", "false", "no")


def why_plain(flag: bool, environ: Mapping[str, str]) -> str:
    """What asks for plain lines: the flag, else a variable; empty if nothing does."""
    if flag:
        return "--screen-reader"
    if environ.get("ACCESSIBLE", "").lower() not in _NO:
        return f"ACCESSIBLE={environ['ACCESSIBLE']}"
    return "TERM=dumb" if environ.get("TERM", "dumb") == "dumb" else ""


class Plain:
    """The surface of the terminal UI without live rows."""

    echoes = True
    colour = False

    def __init__(self, why: str) -> None:
        self.status = Status()
        self.tail = Tail()
        self.heard: Callable[[str], None] = lambda text: None
        self.interrupted: Callable[[], None] = lambda: None
        self.left: Callable[[], None] = lambda: None
        self.busy = False
        self._history: History | None = None
        self._typed = b""  # the beginning of a line
        self._ask: tuple[str, Callable[[str], None]] | None = None
        self._prompted = False  # the last line is a prompt
        self._over = asyncio.Event()
        self.line(f"plain lines ({why}): nothing is drawn again; every answer ends with Enter")

    def remember(self, history: History) -> None:
        """Keep what is typed in this history."""
        self._history = history

    # -- what is shown ------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Append a line."""
        self._write(("\n" if self._prompted else "") + click.unstyle(safe_painted(text)) + "\n")
        self._prompted = False

    def clear(self) -> None:
        """Nothing: lines are only appended (rule 1)."""

    def changed(self) -> None:
        """Nothing: what is alive is not shown."""

    def expect(self) -> None:
        """Show where to type (rule 3)."""
        self._prompt("> ")

    def _prompt(self, text: str) -> None:
        self._write(("\n" if self._prompted else "") + safe_painted(text))
        self._prompted = True

    def _write(self, text: str) -> None:
        sys.__stdout__.write(text)  # type: ignore[union-attr]  # of a terminal
        sys.__stdout__.flush()  # type: ignore[union-attr]

    # -- what is typed ------------------------------------------------------------------------------------------------

    def ask(self, text: str, then: Callable[[str], None], keys: str) -> None:
        """Ask in a line of its own, and call `then` with the line that is typed (rule 2)."""
        self._ask = (text, then)
        self._prompt(text)

    def close(self) -> None:
        """Ask no more."""
        self._ask = None

    def idle(self) -> None:
        """Nothing: a line is expected when what runs is over."""

    def _read(self) -> None:
        data = os.read(0, _AT_ONCE)
        if not data:
            self.left()
            return
        *lines, self._typed = (self._typed + data).split(b"\n")
        for line in lines:
            self._prompted = False
            self._take(line.decode("utf-8", "replace").strip())

    def _take(self, text: str) -> None:
        if self._ask is not None:
            (_, then), self._ask = self._ask, None
            then(text)
            return
        if text and self._history is not None:
            self._history.append_string(text)
        self.heard(text)
        if not text and not self.busy:
            self.expect()

    async def elsewhere(self, program: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a program that has the terminal."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(0)
        try:
            return await program
        finally:
            loop.add_reader(0, self._read)

    # -- the beginning and the end ------------------------------------------------------------------------------------

    async def ready(self) -> None:
        """Lines can be printed at once."""

    def flush(self) -> None:
        """Everything is printed already."""

    async def run(self) -> None:
        """Read what is typed until `end`."""
        loop = asyncio.get_running_loop()
        loop.add_reader(0, self._read)
        try:
            await self._over.wait()
        finally:
            loop.remove_reader(0)

    def end(self) -> None:
        """`run` returns."""
        self._over.set()
        if self._prompted:
            self._write("\n")
