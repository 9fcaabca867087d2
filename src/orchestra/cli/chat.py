"""`orchestra chat`: a conversation at the terminal, in its own scrollback (S5-18)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestra.cli import options
from orchestra.cli.asking import can_ask
from orchestra.cli.chatface import ChatFace, echo
from orchestra.cli.conversation import COMMANDS, INTERRUPTED, Conversation, Heard, Wishes
from orchestra.cli.driving import Drive
from orchestra.cli.sessionoptions import (
    agent_option,
    max_steps_option,
    mode_option,
    no_stream_option,
    session_option,
)
from orchestra.core.errors import UsageError
from orchestra.workflows.evidence.workflow import sessions_of

if TYPE_CHECKING:
    from orchestra.cli.editor import Editor

_AGAIN = "Ctrl-C again leaves; so do Ctrl-D and /exit"


@click.command(short_help="Talk in a session.")
@session_option
@agent_option
@mode_option
@max_steps_option
@no_stream_option
@options.environment
@options.models
@options.project
def chat(
    session: str,
    agent: str,
    mode: str | None,
    max_steps: int | None,
    no_stream: bool,
    environment: str,
    who: options.Answering,
    project: Path,
) -> int:
    """Talk in a session: each message is a turn of the same loop as `agent:run`, with the same memory.

    Enter sends, Alt-Enter begins a new line. Ctrl-C stops a turn; at an empty line, twice, it leaves, as Ctrl-D does.
    /help lists the commands. The answers go to standard output, everything else to standard error.

    \b
    orchestra chat --session s1
    orchestra chat --session s1 --provider local --agent careful
    """
    if not can_ask(no_input=False):
        raise UsageError(
            "chat needs a terminal. One message without one:"
            f" orchestra chat:turn --session {session} --message TEXT (or the message on standard input)"
        )
    from orchestra.cli.editor import Editor, KeptHistory

    face = ChatFace()
    how = options.Driving(project, as_json=False, no_input=False, quiet=False)
    drive = Drive(how, environment=environment, face=face)
    found = drive.app.project
    wishes = Wishes(agent, mode, max_steps, False if no_stream else None)
    with Conversation(drive, session, options.routed(who, found.providers), wishes) as conversation:
        history = KeptHistory(sessions_of(found).history, found.disk, found.redactor)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # between a line and its turn; both have handlers of their own
        return asyncio.run(_talk(conversation, Editor(history, tuple(COMMANDS)), face))


async def _talk(conversation: Conversation, editor: Editor, face: ChatFace) -> int:
    """Read a line, show what comes of it, until the person leaves; returns the exit code."""
    from orchestra.cli.editor import Terminated

    last = await _shown(conversation.begin(), face)
    armed = last.stopped  # another Ctrl-C leaves
    while last.leave is None:
        try:
            text = await editor.read(f"{conversation.session}> ")
        except KeyboardInterrupt:
            if armed:
                return 0
            click.echo(_AGAIN, err=True)
            armed = True
            continue
        except EOFError:
            return 0
        except Terminated:
            return INTERRUPTED
        last = await _shown(conversation.hear(text), face)
        armed = last.stopped
    return last.leave


async def _shown(taken: AsyncIterator[Heard], face: ChatFace) -> Heard:
    """Show what comes of a line; returns the last of it."""
    last = Heard()
    echo(False)
    try:
        async for last in taken:
            face.over()
            for line in last.lines:
                click.echo(line, err=True, color=face.colour)
            if last.answer:
                face.answer(last.answer)
    finally:
        echo(True)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return last
