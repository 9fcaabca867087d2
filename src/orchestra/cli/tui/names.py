"""What a typed line means: a message, or a command of the conversation, of `orchestra` or of the UI itself. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Literal

from msgspec import Struct

from orchestra.cli.commands import COMMANDS
from orchestra.cli.conversation import COMMANDS as TURNS
from orchestra.cli.tui.hosted import LOOKING, NOT_HERE, OTHER

_OWN = {
    "/runs": "all runs; with a number or an id: show that run, whoever drives it",
    "/watch": "show a run as it happens, whoever drives it, and answer what it asks",
    "/attach": "the same as /watch",
    "/clear": "begin with an empty screen; the scrollback stays",
    "/web": "the web UI",
    "/help": "these commands; with a name: the help of that command",
    "/exit": "leave; what runs is gone on with later",
}
_NO_WEB = "there is no web UI yet. /runs, /watch RUN and /inbox show the same here"
_OUTSIDE = re.compile(r"\borchestra ([a-z]+(?::[a-z]+)?)")
_WITH_RUN = ("/show", "/cancel")  # of the conversation without a run, of `orchestra` with one

Kind = Literal["turn", "command", "attach", "clear", "help", "absent"]


class Meaning(Struct, frozen=True):
    """What a line means; of a command its name, and what is typed behind it."""

    kind: Kind
    name: str = ""
    rest: str = ""


def meaning_of(text: str) -> Meaning:
    """What a line means. `/context` without a goal is what the newest run sent to models."""
    name, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    if not name.startswith("/") or name.startswith("//"):
        return Meaning("turn")
    if name == "/web":
        return Meaning("absent", rest=_NO_WEB)
    if name == "/help" and rest:
        return _help_of(f"/{rest.split()[0].removeprefix('/')}")
    if name in ("/clear", "/help"):
        return Meaning("clear" if name == "/clear" else "help")
    if name in ("/watch", "/attach") or (name == "/runs" and rest and not rest.startswith("-")):
        return Meaning("attach", rest=rest)
    if name in TURNS and not (name in _WITH_RUN and rest):
        return Meaning("turn")
    known = OTHER.get(name, name[1:])
    if known == "context" and not rest:
        return Meaning("command", "sent")
    if known in COMMANDS:
        return Meaning("command", known, rest)
    return _absent(name)


def _help_of(name: str) -> Meaning:
    """What `/help NAME` means: the help of a command of `orchestra`, else its line in the list."""
    known = OTHER.get(name, name[1:])
    if known in COMMANDS and known not in NOT_HERE and name not in TURNS:
        return Meaning("command", known, "--help")
    return Meaning("help", name) if name in names() else _absent(name)


def _absent(name: str) -> Meaning:
    near = get_close_matches(name, names(), n=3)
    meant = f"; did you mean {' or '.join(near)}?" if near else ";"
    return Meaning(
        "absent", rest=f"there is no command {name}{meant} /help lists them. A message that begins with /: //"
    )


def looks(meaning: Meaning) -> bool:
    """Whether a line only looks: it starts, answers and changes no run, so it may be taken at any time."""
    if meaning.kind == "command":
        return meaning.name in LOOKING or meaning.rest in ("--help", "-h")
    return meaning.kind in ("help", "clear")


def as_typed_here(text: str) -> str:
    """An error's text, whose commands are as a person types them in the UI: `orchestra runs` is `/runs`."""
    ours = COMMANDS.keys() - NOT_HERE
    return _OUTSIDE.sub(lambda said: f"/{said[1]}" if said[1] in ours else said[0], text)


def names() -> dict[str, str]:
    """Every command of the UI -> what it does."""
    turns = {name: one.help for name, one in TURNS.items()}
    others = {name: COMMANDS[of][1] for name, of in OTHER.items()}
    ours = {f"/{name}": what for name, (_, what) in COMMANDS.items() if name not in NOT_HERE}
    return {**ours, **others, **turns, **_OWN}


def help_lines(columns: int, name: str = "") -> Iterator[str]:
    """What `/help` prints, in rows of so many columns; with a name only what that command does."""
    if name:
        yield f"  {TURNS[name].usage if name in TURNS else name}  {names()[name]}"
        return
    listed = {**{one.usage: one.help for one in TURNS.values()}, **_OWN}
    beside = max(len(usage) for usage in listed if len(usage) <= _USAGE) if columns > _NARROW else 0
    for usage, what in listed.items():
        indent = beside + 4 if beside else 6
        rows = textwrap.wrap(what, columns - indent)
        yield f"  {usage:<{beside}}  {rows.pop(0)}" if len(usage) <= beside else f"  {usage}"
        yield from (" " * indent + row for row in rows)
    for text in _KEYS:
        yield from textwrap.wrap(text, columns, initial_indent="  ", subsequent_indent="  ")


_USAGE, _NARROW = 16, 60  # columns of a usage with its text beside it; with less than this, the text is below
_KEYS = (
    "Every command of orchestra works with a slash before it: /loop GOAL --check CMD, /dag, /team, /contracts, /inbox,"
    " /diff, /undo, /apply, /cost, /context, /resume RUN, /approve, /answer, …",
    "Enter sends, Alt-Enter or Ctrl-J begins a new line, Tab completes, @ names a file.",
    "Ctrl-C stops what runs; again, it leaves. // sends a message that begins with /.",
)
