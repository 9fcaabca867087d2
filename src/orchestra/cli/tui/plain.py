"""The terminal UI without live rows: for screen readers (`--screen-reader`, ACCESSIBLE=1), TERM=dumb, and pipes.

Rules
1. Lines are only appended. Nothing is drawn again, and no number ticks: a screen reader would read each of them.
2. The terminal itself edits the line that is typed, and shows it. An answer is a line, with Enter.
3. `> ` stands where a line is expected, when nothing runs. What is typed while something runs is taken too.
4. From a pipe or a file a line is read only when one is expected, or asked for: `printf 'a question\n/cost\n' |
   orchestra tui` does one after the other. Its end leaves, with exit code 3 if an answer was asked for.
5. The first line that comes after a prompt was closed, because the answer came from elsewhere, may be an answer to that
   prompt. It is neither a message nor an answer to the next prompt, but refused; at a terminal until the next prompt is
   shown. A command is taken.
6. At a terminal, a Markdown table of an answer is printed row by row (prose.py): a screen reader would read its bars
   and dashes. Every other line is printed as it is: a person decides by diffs, files and the output of commands.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import click
from prompt_toolkit.completion import Completer
from prompt_toolkit.history import History

from orchestra.cli.text import safe_painted
from orchestra.cli.tui.status import Status
from orchestra.cli.tui.surface import answer_of
from orchestra.cli.tui.tail import Tail
from orchestra.cli.tui.threads import in_thread
from orchestra.core.errors import UsageError

_AT_ONCE = 65_536
_WAITS = 3  # the exit code of a run that waits for a person
_NO_LINE = (
    "the terminal UI needs a terminal, or lines on its standard input. For one question:"
    " orchestra agent:run --session s1 --goal TEXT, or orchestra chat:turn"
)
_NO = ("", "0", "false", "no")
_NO_TERMINAL = "no terminal"


def why_plain(flag: bool, environ: Mapping[str, str]) -> str:
    """What asks for plain lines: the flag, a variable, a pipe; empty if nothing does."""
    if flag:
        return "--screen-reader"
    if environ.get("ACCESSIBLE", "").lower() not in _NO:
        return f"ACCESSIBLE={environ['ACCESSIBLE']}"
    if not (os.isatty(0) and os.isatty(1)):
        return _NO_TERMINAL
    return "TERM=dumb" if environ.get("TERM", "dumb") == "dumb" else ""


class Plain:
    """The surface of the terminal UI without live rows."""

    colour = False

    def __init__(self, why: str) -> None:
        self.status = Status()
        self.tail = Tail()
        self.heard: Callable[[str], None] = lambda text: None
        self.interrupted: Callable[[], None] = lambda: None
        self.left: Callable[[int], None] = lambda code: None
        self.aside: Callable[[str], bool] = lambda text: False
        self.busy = False
        self.echoes = sys.stdin.isatty()
        self.aloud = why != _NO_TERMINAL
        self._reading: asyncio.Task[None] | None = None  # of the next line of a pipe (rule 4)
        self._piped = b""  # what was read of a pipe and not taken yet
        self._empty = True  # no line came
        self._history: History | None = None
        self._typed = b""  # the beginning of a line
        self._ask: tuple[str, Callable[[str], None]] | None = None
        self._settled = ""  # a prompt that was closed, until a line came that may answer it (rule 5)
        self._prompted = False  # the last line is a prompt
        self._over = asyncio.Event()
        self.line(f"plain lines ({why}): nothing is drawn again; every answer ends with Enter")

    def remember(self, history: History, words: Completer) -> None:
        """Keep what is typed in this history; nothing completes."""
        self._history = history

    # -- what is shown ------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Append a line."""
        for line in click.unstyle(safe_painted(text)).split("\n"):
            self._write(f"\n{line}\n" if self._prompted else f"{line}\n")
            self._prompted = False

    def clear(self) -> None:
        """Nothing: lines are only appended (rule 1)."""

    def changed(self) -> None:
        """Nothing: what is alive is not shown."""

    def expect(self) -> None:
        """Show where to type (rule 3)."""
        if self.echoes:
            self._settled = ""
            self._prompt("> ")
        self._want()

    def _want(self) -> None:
        """A line is expected: read one, if the input is no terminal (rule 4)."""
        if not self.echoes and self._reading is None:
            self._reading = asyncio.ensure_future(self._next())

    async def _next(self) -> None:
        data = await in_thread(self._next_line)
        self._reading = None
        if not data or (self._ask is not None and not data.endswith(b"\n")):
            # a line that was cut off is no answer: its first word may be one
            self.left(_WAITS if self._ask is not None else 0)
            return
        self._empty = False
        self._take(data.decode("utf-8", "replace").strip())

    def _next_line(self) -> bytes:
        while b"\n" not in self._piped and (data := os.read(0, _AT_ONCE)):
            self._piped += data
        line, end, self._piped = self._piped.partition(b"\n")
        return line + end

    def _prompt(self, text: str) -> None:
        self._write(("\n" if self._prompted else "") + safe_painted(text))
        self._prompted = True

    def _write(self, text: str) -> None:
        if sys.__stdout__ is not None:  # else it is closed
            sys.__stdout__.write(text)
            sys.__stdout__.flush()

    # -- what is typed ------------------------------------------------------------------------------------------------

    def ask(self, text: str, then: Callable[[str], None], keys: str) -> None:
        """Ask in a line of its own, and call `then` with the line that is typed (rule 2)."""
        self._ask = (text, then)
        if self.echoes:
            self._settled = ""
        self._prompt(text)
        self._want()

    def again(self) -> None:
        """Ask again, below the lines that were printed meanwhile."""
        if self._ask is not None:
            self._prompt(self._ask[0])
            self._want()

    def lose(self, why: str) -> None:
        """Nothing: a line that comes too late is refused by the name of its prompt (rule 5)."""

    def close(self) -> None:
        """Ask no more."""
        if self._ask is not None:
            self._settled = self._ask[0].strip()
            self._ask = None

    def idle(self) -> None:
        """Nothing: a line is expected when what runs is over."""

    def _read(self) -> None:
        data = os.read(0, _AT_ONCE)
        if not data:
            self.left(0)
            return
        *lines, self._typed = (self._typed + data).split(b"\n")
        for line in lines:
            self._prompted = False
            self._take(line.decode("utf-8", "replace").strip())

    def _refuse(self, text: str) -> None:
        """Refuse a line that may answer a prompt that was closed (rule 5), by the name of the prompt."""
        asked, self._settled = self._settled, ""
        self.line(f"not taken: {text!r}. It came for the prompt {asked!r}, which was answered elsewhere or is over")
        self.again()
        if self._ask is None and not self.busy:
            self.expect()

    def _take(self, text: str) -> None:
        if self._settled and (not text.startswith("/") or text.startswith("//")):
            self._refuse(text)
            return
        self._settled = ""
        if self._ask is not None:
            _, then = self._ask
            if not self.aside(text):  # else it is asked again when that was told
                self._ask = None
                then(answer_of(text))
            return
        if text and self._history is not None:
            self._history.append_string(text)
        self.heard(text)
        if not text and not self.busy:
            self.expect()

    async def elsewhere(self, program: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a program that has the terminal."""
        if not self.echoes:
            return await program
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
        """Nothing: every line is printed at once."""

    async def run(self) -> None:
        """Read what is typed until `end`."""
        if not self.echoes:
            await self._over.wait()
            if self._empty:
                raise UsageError(_NO_LINE)
            return
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
