"""The line editor of `orchestra chat` and of all prompts: prompt_toolkit, in the terminal's own scrollback.

Rules
1. Enter sends. A paste never sends: it is inserted with its line breaks. Alt-Enter begins a new line.
2. The cursor moves by what a person sees as one character: a syllable, a flag, a family. The terminal's own cursor is
   where text is inserted, so that an input method composes Hangul in place.
3. Ctrl-C at text discards it, and the Up key brings it back; at an empty line it raises KeyboardInterrupt. Ctrl-D at an
   empty line, or the end of the input, raises EOFError. SIGTERM ends the program with the terminal as it was.
4. What was sent is in the history of the project, masked, in a file that only its owner may read.
5. At the prompt of a run Ctrl-Z stops the program; when it goes on, the prompt is drawn again.
6. Where a letter is an answer, it is one without Enter, as in `git add -p`. One that may have words behind it (`n why`)
   is an answer if nothing follows it soon. A whole line is also one: `y` and Enter, `yes`, a paste.

This module loads prompt_toolkit: it is imported when a chat begins or a prompt is shown, and nowhere else.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History, InMemoryHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle

from orchestra.cli.emoji import PlainEmoji
from orchestra.cli.keys import Letters, editing_keys
from orchestra.core.disk import Disk
from orchestra.core.errors import OddFile
from orchestra.core.files import MIB, open_bounded
from orchestra.core.redact import Redactor

_KEPT = MIB  # bytes of the history that are read


class Terminated(Exception):
    """SIGTERM came while a line was edited."""


class Editor:
    """Reads lines from a person at a terminal."""

    def __init__(self, history: History, commands: Sequence[str]) -> None:
        self._session = _session(history, commands)

    async def read(self, prompt: str) -> str:
        """One line, or several; KeyboardInterrupt, EOFError or Terminated (rule 3)."""
        loop = asyncio.get_running_loop()

        def terminated() -> None:
            self._session.app.exit(exception=Terminated())

        loop.add_signal_handler(signal.SIGTERM, terminated)
        try:
            return await self._session.prompt_async(prompt)
        finally:
            loop.remove_signal_handler(signal.SIGTERM)


class Line:
    """Reads the lines that a person types at the prompts of a run, one at a time."""

    def __init__(self) -> None:
        self._letters = Letters()
        self._session = _session(InMemoryHistory(), (), self._letters)

    async def read(self, prompt: str, letters: str = "") -> str:
        """One line, or one of `letters` (rule 6); KeyboardInterrupt or EOFError (rule 3).

        Signals are left to whoever drives the run.
        """
        self._letters.of = letters
        # A blank at the end is drawn only if it has a style: a program that reads the screen waits for all of it.
        shown = FormattedText([("", prompt[:-1]), ("fg:ansidefault", prompt[-1:])])
        return await self._session.prompt_async(shown, handle_sigint=False, enable_suspend=True)

    def forget_typed(self) -> None:
        """Discard keys that came before the prompt was shown."""
        clear_typeahead(self._session.input)

    def close(self) -> None:
        """End the reading that is under way: it raises EOFError."""
        if self._session.app.is_running:
            self._session.app.exit(exception=EOFError())


def _session(history: History, commands: Sequence[str], letters: Letters | None = None) -> PromptSession[str]:
    output = Vt100_Output.from_pty(sys.stderr, term=os.environ.get("TERM"))
    keys = editing_keys()
    if letters is not None:
        letters.bind(keys)
    output.enable_cpr = False  # nothing here needs the cursor's row, and some terminals never answer
    return PromptSession(
        history=history,
        key_bindings=keys,
        multiline=True,
        completer=_Commands(commands),
        complete_while_typing=False,
        complete_style=CompleteStyle.READLINE_LIKE,
        reserve_space_for_menu=0,
        input_processors=[PlainEmoji()],
        prompt_continuation=lambda width, number, wrapped: " " * width,
        output=output,
    )


class KeptHistory(History):
    """What was sent in a project, one JSON string for each line of a file (rule 4)."""

    def __init__(self, path: Path, disk: Disk, redactor: Redactor) -> None:
        super().__init__()
        self._path, self._disk, self._redactor = path, disk, redactor

    def load_history_strings(self) -> Iterable[str]:
        """The newest line first."""
        return reversed(list(self._lines()))

    def _lines(self) -> Iterator[str]:
        try:
            fd = open_bounded(self._path, 1 << 40)
        except (OSError, OddFile):
            return
        with open(fd, "rb") as file:
            file.seek(max(0, os.fstat(fd).st_size - _KEPT))
            for line in file:
                try:
                    yield msgspec.json.decode(line, type=str)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    continue  # the first one is cut, or a kill tore it

    def store_string(self, string: str) -> None:
        line = msgspec.json.encode(self._redactor.text(string)) + b"\n"
        try:
            fd = self._disk.open_end(self._path)
        except OSError:
            return  # a history that cannot be kept is no reason to refuse a message
        try:
            self._disk.append(fd, line)
        finally:
            os.close(fd)


class _Commands(Completer):
    """Completes the commands of a conversation."""

    def __init__(self, commands: Sequence[str]) -> None:
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        typed = document.text_before_cursor
        return (Completion(one, -len(typed)) for one in self._commands if typed and one.startswith(typed))
