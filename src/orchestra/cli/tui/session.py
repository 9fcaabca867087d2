"""Opens the project and the session of the terminal UI, whose input line is there already, and talks in it."""

from __future__ import annotations

import asyncio
import io
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from pathlib import Path

import click

from orchestra import __version__
from orchestra.cli import options
from orchestra.cli.conversation import Conversation, Wishes
from orchestra.cli.driving import Drive
from orchestra.cli.editor import KeptHistory
from orchestra.cli.tui.early import Early, Flags
from orchestra.cli.tui.face import TuiFace
from orchestra.cli.tui.hosted import OTHER, following
from orchestra.cli.tui.names import as_typed_here, names
from orchestra.cli.tui.surface import Surface
from orchestra.cli.tui.talk import Talk
from orchestra.cli.tui.words import Words
from orchestra.core.errors import RunLocked

_SESSION = "tui"
_MOST_SESSIONS = 100  # that are tried for a free one


async def talk(flags: Flags, screen: Surface, shown: asyncio.Task[None], early: Early) -> int:
    """Talk until the person leaves; returns the exit code. `shown` is the task that shows the screen."""
    face = TuiFace(screen)
    how = options.Driving(flags.project, as_json=False, no_input=False, quiet=False)
    drive = Drive(how, environment=flags.environment, face=face)
    found = drive.app.project
    with _printed_above(screen):
        models = options.routed(flags.who, found.providers)
    wishes = Wishes(flags.agent, flags.mode, flags.max_steps, flags.stream)
    wanted = flags.session
    sessions = [wanted] if wanted else [_SESSION, *(f"{_SESSION}-{n}" for n in range(2, _MOST_SESSIONS))]
    with ExitStack() as held:

        async def opened() -> Conversation:
            def entered(name: str) -> Conversation:
                return held.enter_context(Conversation(drive, name, models, wishes, needs_model=False))

            return _free(sessions, entered)

        if found.consent.missing:
            _leave_signals()
            conversation = await screen.elsewhere(opened())
        else:
            conversation = await opened()
        screen.line(click.style(f"orchestra {__version__} in {found.path}", dim=True))
        if conversation.lacks:
            screen.line(as_typed_here(conversation.lacks))
        if conversation.session != sessions[0]:
            screen.line(f"session {_SESSION} is open in another process; this is session {conversation.session}")
        words = Words(names(), found.files, lambda *begun: _following(conversation, found.path, *begun))
        screen.remember(KeptHistory(conversation.history, found.disk, found.redactor), words)
        return await Talk(screen, face, drive, conversation, tuple(_given(flags.who))).run(shown, early)


def _leave_signals() -> None:
    """Let signals end the program, as everywhere: a question for consent blocks the event loop."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().remove_signal_handler(number)


@contextmanager
def _printed_above(screen: Surface) -> Iterator[None]:
    """Print what is meant for standard error above the live rows, if it is the same terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with redirect_stderr(io.StringIO()) as said:
        yield
    for line in said.getvalue().splitlines():
        screen.line(line)


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
