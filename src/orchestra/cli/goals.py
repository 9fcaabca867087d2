"""Where a goal, an intent or a request comes from: the command line, standard input (`-`), `@FILE` or an editor.

Rules
1. An empty goal is refused: it would be paid for.
2. The editor is opened only where a person can be asked: without a goal, or with --edit, which brings along the text
   that was given.
3. What a person types on the command line is the goal, but for a lone `-` and a word that begins with `@`.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import click

from orchestra.cli.asking import can_ask, on_terminal
from orchestra.cli.hosting import host
from orchestra.commands import personal
from orchestra.core.errors import OddFile, UsageError
from orchestra.core.files import read_bounded
from orchestra.core.records import utf8

_MOST = 1 << 20  # bytes of a goal
_BELOW = "# ---- Write the {0} above this line. Nothing below it is read. An empty {0} starts nothing. ----"
_WAYS = "`-` reads it from standard input, @FILE from a file, --edit from your editor"
Command = Callable[..., int]


def goal_argument(name: str, example: str) -> Callable[[Command], Command]:
    """The argument with the goal, and --edit. The command gets the goal's text as `name`."""

    def wrapped(function: Command) -> Command:
        @functools.wraps(function)
        def called(*arguments: Any, edit: bool, **given: Any) -> int:
            no_input = bool(getattr(given.get("how"), "no_input", False))
            typed = given.pop(name)
            if typed is None and not can_ask(no_input=no_input) and not edit:
                raise UsageError(f"Missing argument '{name.upper()}': {_WAYS}")
            text = _text(name, typed, edit=edit, no_input=no_input).strip()
            if not text:
                raise UsageError(f"the {name} is empty; say what to reach: {example}")
            return function(*arguments, **given, **{name: text})

        edits = click.option("-e", "--edit", is_flag=True, help=f"Write the {name} in your editor ($VISUAL, $EDITOR).")
        return click.argument(name, required=False, metavar=f"[{name.upper()}]")(edits(called))

    return wrapped


def _text(name: str, typed: str | None, *, edit: bool, no_input: bool) -> str:
    """The text of a goal, as valid Unicode. `name` is what messages call it."""
    if typed == "-" and host() is not None:
        raise UsageError(f"`-` reads standard input, which is this terminal: type the {name}, or give @FILE")
    if typed == "-":
        data = sys.stdin.buffer.read(_MOST + 1)
        if len(data) > _MOST:
            raise UsageError(f"the {name} on standard input is longer than {_MOST} bytes")
        typed = _decoded(name, data, "standard input")
    elif typed is not None and typed.startswith("@"):
        typed = _file(name, os.path.expanduser(typed[1:]), typed)
    if edit or typed is None:
        return _edited(name, typed or "", no_input=no_input)
    return utf8(typed).decode()


def _file(name: str, path: str, typed: str) -> str:
    try:
        return _decoded(name, read_bounded(path, _MOST, follow=True), path)
    except (OSError, OddFile) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"the {name} {typed} names a file, and that cannot be read: {why}. To give a {name} that"
            " itself begins with @, use standard input (`-`)"
        ) from error


def _decoded(name: str, data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"the {name} from {where} is not UTF-8 text (byte {error.start})") from error


def _edited(name: str, begun: str, *, no_input: bool) -> str:
    """What the person wrote in their editor; empty if they wrote nothing."""
    if not can_ask(no_input=no_input):
        raise UsageError("--edit: there is no person at a terminal to write it")
    below = _BELOW.format(name)
    text = on_terminal(personal.edit(f"{begun}\n\n{below}\n", f"{name}.txt"))
    return utf8(text.partition(below)[0]).decode()
