"""Completion at the input line: commands behind a slash, what may follow a command, files of the project behind an @.

What may follow a command is looked up when Tab asks for it, not for each letter: runs are read for it.
"""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Callable, Iterable, Mapping

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

_MOST = 50

Following = Callable[[str, list[str], str], Iterable[tuple[str, str]]]


class Words(Completer):
    """Completes commands and files."""

    def __init__(
        self, commands: Mapping[str, str], files: Callable[[], Iterable[str]], following: Following | None = None
    ) -> None:
        """`commands`: a name with its slash -> what it does. `files` lists the project's files.

        `following`: a command, the words behind it and the begun word -> what that may be, and what is told of it.
        """
        self._commands, self._files, self._following = commands, files, following
        self._listed: list[str] | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        typed = document.text_before_cursor
        if typed.startswith("/") and " " not in typed and "\n" not in typed:
            for name, what in self._commands.items():
                if name.startswith(typed):
                    yield Completion(name, -len(typed), display_meta=what)
            return
        word = document.get_word_before_cursor(WORD=True)
        if typed.startswith("/") and complete_event.completion_requested and self._following is not None:
            yield from self._behind(typed, word)
        if word.startswith("@"):
            yield from self._completed(word)

    def _behind(self, typed: str, word: str) -> Iterable[Completion]:
        """What may follow a command."""
        name, *words = typed[: len(typed) - len(word)].split()
        try:
            words = shlex.split(" ".join(words))
        except ValueError:
            return  # inside a quote
        assert self._following is not None
        for value, what in self._following(name, words, word):
            yield Completion(value, -len(word), display_meta=what)

    def _completed(self, word: str) -> Iterable[Completion]:
        if self._listed is None or word == "@":  # files come and go
            self._listed = sorted(self._files())
        wanted, left = unicodedata.normalize("NFC", word[1:]), _MOST
        for path in self._listed:
            if wanted in unicodedata.normalize("NFC", path):
                yield Completion(f"@{path}", -len(word))
                left -= 1
                if not left:
                    return
