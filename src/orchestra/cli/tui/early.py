"""What a person types before the program is loaded: the command line, keys before the input line is there, first lines.

Rules
1. Keys that were typed while the terminal still gave whole lines come to the input line as keys, arrows too.
2. Of these, Enter behind a single line sends it. Several lines may be a paste: they stay at the input line, not sent.
3. A line that is sent before the program is loaded is kept, and taken when it is. Ctrl-C at an empty line, and Ctrl-D,
   leave at once.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import NamedTuple

from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress

from orchestra.cli.options import Answering
from orchestra.cli.text import safe
from orchestra.cli.tui.surface import Surface

INTERRUPTED = 130  # the exit code
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Flags(NamedTuple):
    """What was typed on the command line. Without a session, a free one is taken."""

    project: Path
    session: str | None
    agent: str
    mode: str | None
    max_steps: int | None
    stream: bool | None
    who: Answering
    environment: str


def take_early_keys(keys: Input) -> str:
    """Give an input, which is in raw mode, the keys that are there already (rule 1).

    Returns the beginning of a line that the terminal has echoed, as it shows it.
    """
    found = b""
    while select.select([0], [], [], 0)[0] and (data := os.read(0, 4096)):
        found += data
    text = found.decode("utf-8", "surrogateescape")
    typed = text.replace("\n", "\r") if text.count("\n") == 1 else text  # rule 2
    typed = typed.replace("\0", "\x04")  # Linux: Ctrl-D, of a terminal that gave whole lines
    presses: list[KeyPress] = []
    parser = Vt100Parser(presses.append)
    parser.feed(typed)
    parser.flush()
    store_typeahead(keys, presses)
    return _CONTROL.sub(lambda one: f"^{chr(ord(one[0]) ^ 64)}", text.rpartition("\n")[2])


class LateHistory(History):
    """The history of an input line that is there before the project is open."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: History | None = None
        self._known = asyncio.Event()

    def become(self, history: History) -> None:
        """Use this history from now on; it gets the lines that were sent meanwhile."""
        for text in self.get_strings():
            history.append_string(text)
        self._kept = history
        self._known.set()

    async def load(self) -> AsyncGenerator[str, None]:
        await self._known.wait()
        assert self._kept is not None
        async for text in self._kept.load():
            yield text

    def get_strings(self) -> list[str]:
        return super().get_strings() if self._kept is None else self._kept.get_strings()

    def append_string(self, string: str) -> None:
        if self._kept is None:
            super().append_string(string)
        else:
            self._kept.append_string(string)

    def load_history_strings(self) -> Iterable[str]:
        return ()

    def store_string(self, string: str) -> None:
        """Nothing: the history that this one becomes stores it."""


class Early:
    """What a person does at a surface until the program is loaded (rule 3)."""

    def __init__(self, screen: Surface) -> None:
        self.lines: list[str] = []
        self.left: int | None = None  # the exit code
        self._screen = screen
        screen.heard = self._heard
        screen.interrupted = lambda: self.leave(INTERRUPTED)
        screen.left = self.leave

    def _heard(self, text: str) -> None:
        if not text.strip():
            return
        self.lines.append(text)
        self._screen.status.queued = len(self.lines)
        self._screen.changed()

    def leave(self, code: int = 0) -> None:
        """Remove the live rows; the program ends with this exit code."""
        if self.left is None:
            self.left = code
            for text in self.lines:
                self._screen.line(f"not sent: {safe(text.strip())}")
            self._screen.end()
