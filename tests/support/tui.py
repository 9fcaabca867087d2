"""`orchestra tui` on a terminal of which everything can be seen: screen, scrollback, cursor, colours, title and modes.

The real program runs in a pty. What it writes goes to `pyte`, a terminal emulator, frame by frame: the program shows
the cursor when the live rows are drawn, and that is the moment at which a person sees them.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pyte
from pyte.screens import Char
from wcwidth import wcswidth

from tests.support.project import PROGRAM, Project
from tests.support.terminal import Terminal

PROMPT = "> "
ENTER, NEW_LINE, UP, LEFT, BACK, TAB = "\r", "\n", "\x1b[A", "\x1b[D", "\x7f", "\t"
CTRL_A, CTRL_C, CTRL_D, CTRL_U = "\x01", "\x03", "\x04", "\x15"
_SHOWN = b"\x1b[?25h"  # the cursor is shown: a frame is complete
_STATUS = re.compile(r" waiting| stopped: /resume")
_KEPT = 10_000  # lines of scrollback


class _Screen(pyte.HistoryScreen):
    """A screen that also counts the live rows: those that are removed to be drawn again."""

    live = 0

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        if how == 0:
            rows = [y for y, row in enumerate(self.display) if row.strip()]
            self.live = max(self.live, rows[-1] - self.cursor.y + 1 if rows else 0)
        super().erase_in_display(how, *args, **kwargs)


class Tui:
    """The terminal UI on one terminal. Used with `with`: no process is left, whatever the test finds."""

    def __init__(
        self,
        project: Project,
        *more: str,
        columns: int = 80,
        rows: int = 24,
        env: Mapping[str, str] | None = None,
        ready: str = "session tui: ",
        program: Sequence[str] = (PROGRAM,),
    ) -> None:
        """Start it; `with` waits until it shows `ready` and its input line."""
        command = [*program, "tui", "--provider", f"scripted:{project.script}", *more]
        self._terminal = Terminal(command, project.path, env=env, size=(columns, rows))
        self._screen = _Screen(columns, rows, history=_KEPT, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self._fed = bytearray()  # of the frame that is not complete
        self.raw = self._terminal.raw
        self.frames: list[tuple[int, int]] = []  # the cursor's cell at the end of each frame
        self._ready = ready
        self._code: int | None = None
        self.cooked = True  # the terminal gave whole lines, with echo, when the program had ended

    def __enter__(self) -> Self:
        try:
            if self._ready:
                self.wait_for(self._ready)
                self.wait(lambda: self.row.startswith(PROMPT))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._code is None:
            if not self._terminal.ended:
                os.kill(self._terminal.pid, signal.SIGKILL)
            self.end()

    # -- what is done -------------------------------------------------------------------------------------------------

    def type(self, keys: str) -> None:
        self._terminal.type(keys)

    def press(self, letter: str) -> None:
        """Answer a prompt by a letter; with Enter if it came too early to count alone (cli/tui/screen.py, rule 3)."""
        early = f"{self.row.rstrip()} {letter}"
        self.type(letter)
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline and self.row.rstrip() != early:
            self.read(0.05)
        self.read(0.2)
        if self.row.rstrip() == early:
            self.type(ENTER)

    def say(self, text: str) -> None:
        """Type a line and Enter, when it can be seen at the input line."""
        self.type(text)
        self.wait(lambda: squeezed(text)[-20:] in squeezed("".join(self.below)))
        self.type(ENTER)

    def paste(self, text: str) -> None:
        """A bracketed paste, as terminals send it."""
        self.type(f"\x1b[200~{text}\x1b[201~")

    def resize(self, columns: int, rows: int) -> None:
        self.read()
        self._screen.resize(rows, columns)
        self._terminal.resize(columns, rows)

    @property
    def has_read(self) -> int:
        """How many bytes the program has read, of all files."""
        counts = Path(f"/proc/{self._terminal.pid}/io").read_text(encoding="ascii")
        return int(counts.partition("rchar: ")[2].split()[0])

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        os.kill(self._terminal.pid, signal.SIGKILL)
        assert self.end() == -signal.SIGKILL

    def leave(self) -> None:
        """`/exit`, with exit code 0."""
        self.type(f"{CTRL_U}/exit{ENTER}")
        assert self.end() == 0

    def end(self, seconds: float = 120) -> int:
        """Wait for its end; its exit code."""
        deadline = time.monotonic() + seconds
        while not self._terminal.ended:
            assert time.monotonic() < deadline, self._shown("it did not end")
            self.read(0.05)
        self.read(0.05)
        self.cooked = self._terminal.cooked
        self._code = self._terminal.end()
        return self._code

    # -- what is seen -------------------------------------------------------------------------------------------------

    def read(self, seconds: float = 0.0) -> bool:
        """Take what was written, and wait for the first of it at most so long; whether there was something."""
        found = False
        while data := self._terminal.read(0.0 if found else seconds):
            found = True
            self._terminal.seen = ""
            self._fed += data
            while (at := self._fed.find(_SHOWN)) >= 0:
                self._feed(at + len(_SHOWN))
                self.frames.append(self.cursor)
        if self._fed and (not found or self._terminal.ended):
            self._feed(len(self._fed))
        return found

    def _feed(self, size: int) -> None:
        data = bytes(self._fed[:size])
        del self._fed[:size]
        self._stream.feed(data)

    def wait_for(self, text: str, seconds: float = 120) -> None:
        """Wait until a text is on the screen; line ends and blanks do not count."""
        wanted = squeezed(text)
        self.wait(lambda: wanted in squeezed("".join(self.rows)), seconds, f"{text!r} was not shown")

    def wait(self, condition: Callable[[], object], seconds: float = 120, why: str = "it did not happen") -> None:
        """Wait until something is so on the screen."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self._shown(why)
            if not self.read(0.05):
                assert not self._terminal.ended or condition(), self._shown(f"it ended: {why}")

    def _shown(self, why: str) -> str:
        return f"{why}; the screen, with the cursor at {self.cursor}:\n" + "\n".join(self.rows)

    @property
    def rows(self) -> list[str]:
        """The rows of the screen."""
        return [row.rstrip() for row in self._screen.display]

    @property
    def row(self) -> str:
        """The row with the cursor, blanks at its end with it."""
        return self._screen.display[self._screen.cursor.y]

    @property
    def below(self) -> list[str]:
        """The rows from the status row on: the status, the input, the menu."""
        rows = self.rows
        at = max(
            (n for n, row in enumerate(rows) if row.startswith((" /help", " run ")) or _STATUS.search(row)), default=0
        )
        return rows[at:]

    @property
    def log(self) -> list[str]:
        """Every line in the scrollback and on the screen."""
        kept = [text_of(line, self._screen.columns).rstrip() for line in self._screen.history.top]
        return [*kept, *self.rows]

    @property
    def scrolled(self) -> int:
        """How many lines the scrollback has."""
        return len(self._screen.history.top)

    @property
    def cursor(self) -> tuple[int, int]:
        """The cell of the cursor: column and row."""
        return self._screen.cursor.x, self._screen.cursor.y

    @property
    def most_live(self) -> int:
        """The most live rows that there were at once."""
        return self._screen.live

    @property
    def title(self) -> str:
        return self._screen.title

    @property
    def modes(self) -> frozenset[int]:
        """The modes of the terminal that are set."""
        return frozenset(self._screen.mode)

    def colours(self, text: str) -> set[str]:
        """The colours of the letters of a text, wherever it is on the screen."""
        found: set[str] = set()
        for y, row in enumerate(self._screen.display):
            at = row.find(text)
            while at >= 0:
                found.update(self.cells(y)[_cells(row[:at]) :][: _cells(text)])
                at = row.find(text, at + 1)
        return found

    def cells(self, y: int) -> list[str]:
        """The colour of each cell of a row."""
        line: Any = self._screen.buffer[y]
        return [line[x].fg for x in range(self._screen.columns)]

    def painted(self) -> set[tuple[str, str]]:
        """Every pair of colours, of letters and behind them, on the screen."""
        lines: Any = self._screen.buffer
        return {(cell.fg, cell.bg) for y in range(self._screen.lines) for cell in lines[y].values()}


def text_of(line: Mapping[int, Char], columns: int) -> str:
    """A line of the scrollback; behind a wide character is an empty cell."""
    return "".join(line[x].data for x in range(columns))


def squeezed(text: str) -> str:
    """A text without blanks and line ends, because a terminal wraps it anywhere."""
    return re.sub(r"\s+", "", text)


def _cells(text: str) -> int:
    return max(0, wcswidth(text))
