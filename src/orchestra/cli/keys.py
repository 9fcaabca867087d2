"""The keys of all input lines: how a line is edited, and letters that are answers by themselves (prompt_toolkit).

The rules are those of cli/editor.py, which reads lines with these keys; the terminal UI has them at its input line.
"""

from __future__ import annotations

import asyncio
from typing import Any

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from wcwidth import iter_graphemes

_WITH_WORDS = "nadr"  # letters that may have words behind them
_SOON_S = 0.5


class Letters:
    """The letters that are answers without Enter, if there are any (editor.py, rule 6)."""

    def __init__(self) -> None:
        self.of = ""

    def bind(self, keys: KeyBindings) -> None:
        """Have a buffer take them."""
        at_prompt = has_focus(DEFAULT_BUFFER) & Condition(lambda: bool(self.of))
        empty = Condition(lambda: not get_app().current_buffer.text)

        @keys.add("enter", filter=at_prompt & empty)
        def nothing(event: KeyPressEvent) -> None:
            """Enter behind a letter that was an answer already."""

        @keys.add("<any>", filter=at_prompt & empty)
        def typed(event: KeyPressEvent) -> None:
            buffer, letter = event.current_buffer, event.data
            buffer.insert_text(letter)
            if letter not in self.of or event.key_processor.input_queue:  # a whole line comes
                return
            if letter in _WITH_WORDS:
                self.take_soon(event.app, buffer, letter)
            else:
                buffer.validate_and_handle()

    def take_soon(self, app: Application[Any], buffer: Buffer, letter: str) -> None:
        """Take a letter in the buffer as the answer if nothing follows it soon."""
        asyncio.get_running_loop().call_later(_SOON_S, self._take, app, buffer, letter)

    def _take(self, app: Application[Any], buffer: Buffer, letter: str) -> None:
        """Take a letter as the answer, unless something followed it."""
        if app.is_running and self.of and buffer.text == letter:
            buffer.validate_and_handle()


def before(text: str, position: int) -> int:
    """How many code points the character before a position has (editor.py, rule 2)."""
    start = text.rfind("\n", 0, position) + 1
    pieces = list(iter_graphemes(text[start:position]))
    return len(pieces[-1]) if pieces else min(1, position)


def after(text: str, position: int) -> int:
    """How many code points the character after a position has (editor.py, rule 2)."""
    end = text.find("\n", position)
    return len(next(iter_graphemes(text[position : end if end >= 0 else None]), text[position : position + 1]))


def editing_keys() -> KeyBindings:
    """The keys of rules 1 to 3 of editor.py."""
    keys = KeyBindings()
    here = has_focus(DEFAULT_BUFFER)  # not while searching

    @keys.add("enter", filter=here)
    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter", filter=here)
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("backspace", filter=here)
    def delete_before(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.delete_before_cursor(before(buffer.text, buffer.cursor_position))

    @keys.add("delete", filter=here)
    def delete_after(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.delete(after(buffer.text, buffer.cursor_position))

    @keys.add("left", filter=here)
    @keys.add("c-b", filter=here)
    def left(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.cursor_position -= before(buffer.text, buffer.cursor_position)

    @keys.add("right", filter=here)
    @keys.add("c-f", filter=here)
    def right(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.cursor_position += after(buffer.text, buffer.cursor_position)

    @keys.add("c-c", filter=here)
    @keys.add("<sigint>")
    def interrupt(event: KeyPressEvent) -> None:
        _discard(event.app) if event.current_buffer.text else event.app.exit(exception=KeyboardInterrupt())

    return keys


def _discard(app: Application[str]) -> None:
    """Empty the line; the Up key brings its text back (editor.py, rule 3)."""
    app.current_buffer.append_to_history()
    app.current_buffer.reset()
