"""What the terminal UI is shown on: `Screen`, with live rows, or `Plain`, which only appends lines."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from prompt_toolkit.completion import Completer
from prompt_toolkit.history import History

from orchestra.cli.tui.status import Status
from orchestra.cli.tui.tail import Tail


def answer_of(text: str) -> str:
    """What a line typed at a prompt answers: `//` stands for a `/` that begins no command, as in a message."""
    text = text.strip()
    return text[1:] if text.startswith("//") else text


class Surface(Protocol):
    """Prints lines, shows what is alive if it can, and reads what a person types."""

    status: Status
    tail: Tail
    busy: bool  # something runs
    colour: bool
    echoes: bool  # what is typed stays there by itself
    aloud: bool  # a screen reader reads it: tables of answers are printed row by row
    heard: Callable[[str], None]  # is called with what was typed
    aside: Callable[[str], bool]  # takes what was typed at a prompt if it is no answer, such as `/exit`
    interrupted: Callable[[], None]  # Ctrl-C at an empty line
    left: Callable[[int], None]  # the end of the input, with the exit code

    def remember(self, history: History, words: Completer, /) -> None:
        """Use this history of what was typed, and complete with these words."""

    def line(self, text: str, /) -> None:
        """Print a finished line, once. Whatever it contains, nothing but text and its colour reaches the terminal."""

    def clear(self) -> None:
        """Begin with an empty screen; what is above stays in the scrollback."""

    def changed(self) -> None:
        """What is alive is another now."""

    def expect(self) -> None:
        """Nothing runs: a line is expected."""

    def ask(self, text: str, then: Callable[[str], None], keys: str, /) -> None:
        """Ask, and call `then` with the answer. A letter of `keys` may be an answer without Enter."""

    def again(self) -> None:
        """Ask again what is asked: lines were printed meanwhile."""

    def lose(self, why: str, /) -> None:
        """The open prompt is about to be closed because of this, not by the person: an answer is no message."""

    def close(self) -> None:
        """Ask no more."""

    def idle(self) -> None:
        """Nothing more is asked now."""

    async def elsewhere(self, program: Coroutine[Any, Any, Any], /) -> Any:
        """Wait for a program that has the terminal."""

    async def ready(self) -> None:
        """Wait until lines can be printed."""

    def flush(self) -> None:
        """Print what is finished."""

    async def run(self) -> None:
        """Read what is typed until `end`."""

    def end(self) -> None:
        """`run` returns."""
