"""Completion at the input line: commands behind a slash, files of the project behind an @."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

_MOST = 50


class Words(Completer):
    """Completes commands and files."""

    def __init__(self, commands: Mapping[str, str], files: Callable[[], Iterable[str]]) -> None:
        """`commands`: a name with its slash -> what it does. `files` lists the project's files."""
        self._commands, self._files = commands, files
        self._listed: list[str] | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        typed = document.text_before_cursor
        if typed.startswith("/") and " " not in typed and "\n" not in typed:
            for name, what in self._commands.items():
                if name.startswith(typed):
                    yield Completion(name, -len(typed), display_meta=what)
            return
        word = document.get_word_before_cursor(WORD=True)
        if word.startswith("@"):
            yield from self._completed(word)

    def _completed(self, word: str) -> Iterable[Completion]:
        if self._listed is None:
            self._listed = sorted(self._files())
        wanted, left = unicodedata.normalize("NFC", word[1:]), _MOST
        for path in self._listed:
            if wanted in unicodedata.normalize("NFC", path):
                yield Completion(f"@{path}", -len(word))
                left -= 1
                if not left:
                    return
