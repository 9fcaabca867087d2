"""Begins the terminal UI: the surface it is shown on, the session it talks in."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import click

from orchestra import __version__
from orchestra.cli import options
from orchestra.cli.advice import typed_as
from orchestra.cli.conversation import Conversation, Wishes
from orchestra.cli.driving import Drive
from orchestra.cli.editor import KeptHistory
from orchestra.cli.tui.face import TuiFace
from orchestra.cli.tui.hosted import OTHER, following
from orchestra.cli.tui.names import names
from orchestra.cli.tui.plain import Plain
from orchestra.cli.tui.screen import Screen
from orchestra.cli.tui.surface import Surface
from orchestra.cli.tui.talk import Talk
from orchestra.cli.tui.words import Words
from orchestra.core.errors import RunLocked

_SESSION = "tui"
_MOST_SESSIONS = 100  # that are tried for a free one


def begin(
    project: Path, session: str | None, wishes: Wishes, who: options.Answering, environment: str, plain: str
) -> int:
    """Show the UI until the person leaves; returns the exit code.

    Without a session, a free one is taken. `plain`: what asks for plain lines; empty: live rows.
    """
    with typed_as("/"):
        return asyncio.run(_begin(project, session, wishes, who, environment, plain))


async def _begin(
    project: Path, session: str | None, wishes: Wishes, who: options.Answering, environment: str, plain: str
) -> int:
    words = Words(names(), lambda: found.files(), lambda *typed: _following(conversation, found.path, *typed))
    screen: Surface
    screen = Plain(plain) if plain else Screen(words, colour=not os.environ.get("NO_COLOR"))
    face = TuiFace(screen)
    how = options.Driving(project, as_json=False, no_input=False, quiet=False)
    drive = Drive(how, environment=environment, face=face)
    found = drive.app.project
    models = options.routed(who, found.providers)
    sessions = [session] if session else [_SESSION, *(f"{_SESSION}-{n}" for n in range(2, _MOST_SESSIONS))]
    with ExitStack() as held:
        conversation = _free(sessions, lambda name: held.enter_context(Conversation(drive, name, models, wishes)))
        screen.line(click.style(f"orchestra {__version__} in {found.path}", dim=True))
        if conversation.session != sessions[0]:
            screen.line(f"session {_SESSION} is open in another process; this is session {conversation.session}")
        screen.remember(KeptHistory(conversation.history, found.disk, found.redactor))
        return await Talk(screen, face, drive, conversation, tuple(_given(who))).run()


def _free(sessions: list[str], enter: Callable[[str], Conversation]) -> Conversation:
    """The first of these sessions that no other process holds; RunLocked if they all are held."""
    for name in sessions[:-1]:
        try:
            return enter(name)
        except RunLocked:
            continue
    return enter(sessions[-1])


def _following(
    conversation: Conversation, path: Path, name: str, words: list[str], begun: str
) -> Iterator[tuple[str, str]]:
    """What may follow a command of the UI, of the conversation, or of `orchestra`."""
    if not words:
        yield from ((one, "") for one in conversation.choices(name) if one.startswith(begun))
    command = "show" if name in ("/watch", "/attach", "/runs") else OTHER.get(name, name[1:])
    yield from following(command, words, begun, path)


def _given(who: options.Answering) -> Iterator[tuple[str, str]]:
    """The flags of models that were given to the UI, with their values: commands inside it have them too."""
    flags = (
        ("--provider", who.provider),
        ("--model", who.model),
        ("--max-budget-usd", who.max_budget_usd),
        ("--max-time", who.max_time),
        *(("--role", f"{name}={spec}") for name, spec in who.roles.items()),
    )
    yield from ((flag, str(value)) for flag, value in flags if value)
