"""What a person types at the terminal UI: a message is a turn of the session, `/name` a command; and the end of it.

Rules
1. One thing runs at a time. What is typed meanwhile is taken afterwards; `/exit` is taken at once.
2. Ctrl-C stops what runs: a turn is canceled (cli/conversation.py), another run stays as it is and can go on. At once
   again, or with nothing running and twice, it leaves.
3. No error of a line ends the UI.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import click

from orchestra.cli import options
from orchestra.cli.advice import command
from orchestra.cli.commands import COMMANDS
from orchestra.cli.conversation import COMMANDS as TURNS
from orchestra.cli.conversation import Conversation, Heard, Wishes
from orchestra.cli.driving import Drive
from orchestra.cli.editor import KeptHistory
from orchestra.cli.text import safe
from orchestra.cli.tui.face import TuiFace
from orchestra.cli.tui.hosted import OTHER, Taken, run_command
from orchestra.cli.tui.screen import Screen
from orchestra.cli.tui.words import Words
from orchestra.core.errors import OrchestraError
from orchestra.core.records import FINAL

_AGAIN_S = 2.0
_OWN = {"/clear": "begin with an empty screen; the scrollback stays", "/help": "these commands", "/exit": "leave"}


def names() -> dict[str, str]:
    """Every command of the UI -> what it does."""
    turns = {name: one.help for name, one in TURNS.items()}
    others = {name: COMMANDS[of][1] for name, of in OTHER.items()}
    return {
        **turns,
        **_OWN,
        **others,
        **{f"/{name}": what for name, (_, what) in COMMANDS.items() if f"/{name}" not in turns},
    }


def begin(project: Path, session: str, wishes: Wishes, who: options.Answering, environment: str) -> int:
    """Show the UI until the person leaves; returns the exit code."""
    return asyncio.run(_begin(project, session, wishes, who, environment))


async def _begin(project: Path, session: str, wishes: Wishes, who: options.Answering, environment: str) -> int:
    screen = Screen(Words(names(), lambda: _files(found.path)), colour=not os.environ.get("NO_COLOR"))
    face = TuiFace(screen)
    how = options.Driving(project, as_json=False, no_input=False, quiet=False)
    drive = Drive(how, environment=environment, face=face)
    found = drive.app.project
    with Conversation(drive, session, options.routed(who, found.providers), wishes) as conversation:
        screen.remember(KeptHistory(conversation.history, found.disk, found.redactor))
        return await Talk(screen, face, drive, conversation, tuple(_given(who))).run()


def _given(who: options.Answering) -> Iterator[str]:
    """The flags of the models that were given to the UI: commands inside it have them too."""
    for flag, value in (("--provider", who.provider), ("--model", who.model)):
        if value:
            yield from (flag, value)


def _files(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = [
            name for name in folders if not name.startswith(".") and name not in ("node_modules", "__pycache__")
        ]
        yield from (os.path.relpath(os.path.join(folder, name), root) for name in files)


class Talk:
    """One life of the terminal UI."""

    def __init__(
        self, screen: Screen, face: TuiFace, drive: Drive, conversation: Conversation, given: tuple[str, ...]
    ) -> None:
        self._screen, self._face, self._drive, self._conversation = screen, face, drive, conversation
        self._given = given
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._code: int | None = None
        self._stopped_at = 0.0
        screen.heard, screen.interrupted, screen.left = self._heard, self._interrupted, self._leave

    async def run(self) -> int:
        """Take lines until the person leaves."""
        shown = asyncio.ensure_future(self._screen.run())
        taking = asyncio.ensure_future(self._take())
        await asyncio.wait([shown, taking], return_when=asyncio.FIRST_COMPLETED)
        if not taking.done():
            taking.cancel()
        await asyncio.wait([taking])
        await self._screen.flush() if not shown.done() else None
        self._screen.end()
        await shown
        if not taking.cancelled() and (error := taking.exception()) is not None:
            raise error
        return self._code or 0

    def _signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._leave, 130)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is a key here

    async def _take(self) -> None:
        self._signals()
        await self._screen.drawn.wait()  # lines are printed above rows that are there
        await self._turn(self._conversation.begin())
        while self._code is None:
            self._screen.status.queued = self._lines.qsize()
            text = await self._lines.get()
            try:
                await self._line(text)
            except OrchestraError as error:  # rule 3
                self._screen.line(f"orchestra: {safe(str(error))}")
            self._signals()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def _heard(self, text: str) -> None:
        if text.strip() in ("/exit", "/quit"):
            return self._leave()
        if text.strip():
            self._lines.put_nowait(text)
            self._screen.status.queued = self._lines.qsize()
        return None

    def _interrupted(self) -> None:
        """Ctrl-C at an empty line (rule 2)."""
        again = time.monotonic() - self._stopped_at < _AGAIN_S
        self._stopped_at = time.monotonic()
        if again:
            return self._leave()
        if self._screen.busy:
            while not self._lines.empty():
                self._lines.get_nowait()
            return self._face.stop()
        return self._screen.line("Ctrl-C again leaves; so do Ctrl-D and /exit")

    def _leave(self, code: int = 0) -> None:
        self._code = code
        self._face.stop()
        self._lines.put_nowait("")

    # -- lines --------------------------------------------------------------------------------------------------------

    async def _line(self, text: str) -> None:
        if self._code is not None or not text.strip():
            return None
        for at, row in enumerate(safe(text.strip()).split("\n")):
            self._screen.line(click.style(f"{'>' if at == 0 else ' '} {row}", bold=True))
        name, _, rest = text.strip().partition(" ")
        if name == "/clear":
            return await self._clear()
        if name == "/help":
            return self._help()
        if name.startswith("/") and not name.startswith("//") and name not in TURNS and name in names():
            return await self._command(OTHER.get(name, name[1:]), rest.strip())
        return await self._turn(self._conversation.hear(text))

    async def _turn(self, taken: AsyncIterator[Heard]) -> None:
        """Show what comes of a message or of a command of the conversation."""
        self._begin()
        try:
            async for heard in taken:
                self._face.over()
                for line in heard.lines:
                    self._screen.line(line)
                if heard.answer:
                    self._face.answer(heard.answer)
                if heard.leave is not None and self._code is None:
                    self._code = heard.leave
        finally:
            self._end()

    async def _command(self, name: str, rest: str) -> None:
        taken = await run_command(name, rest, self._face, self._drive.app.project.path, self._given, self._screen.line)
        if taken is not None:
            await self._drive_run(taken)

    async def _drive_run(self, taken: Taken) -> None:
        """Drive a run that a command started or found."""
        self._begin()
        self._face.left = False
        try:
            end = await taken.drive.go(taken.folder, known=taken.known, accept_drift=taken.accept_drift)
            self._face.over()
            self._face.done(end, taken.folder)
            if end.result is not None and end.status == "completed":
                app = taken.drive.app
                for line in safe(app.workflow_of(end.run_id).printed(end.result)).splitlines():
                    self._screen.line(line)
            if end.status not in FINAL.values():
                self._screen.line(f"it stays; go on: {command(taken.drive.app, 'resume', taken.folder.id)}, or /resume")
        finally:
            self._face.use(self._drive.app)
            self._end()

    def _begin(self) -> None:
        status = self._screen.status
        status.since, status.state, status.tokens, status.context = time.monotonic(), "", 0, 0
        status.spent = {}
        self._screen.busy = True
        self._screen.changed()

    def _end(self) -> None:
        self._face.over()
        self._screen.busy = False
        self._screen.status.run = ""
        self._screen.changed()

    # -- commands of its own ------------------------------------------------------------------------------------------

    def _help(self) -> None:
        listed = {**{one.usage: one.help for one in TURNS.values()}, **_OWN}
        width = max(map(len, listed))
        for usage, what in listed.items():
            self._screen.line(f"  {usage:<{width}}  {what}")
        self._screen.line(
            "  Every command of orchestra works with a slash before it: /loop GOAL --check CMD, /dag, /team,"
        )
        self._screen.line("  /contracts, /runs, /inbox, /show, /diff, /undo, /cost, /context, /resume RUN, /answer, …")
        self._screen.line("  Enter sends, Alt-Enter or Ctrl-J begins a new line, Tab completes, @ names a file.")
        self._screen.line("  Ctrl-C stops what runs; again, it leaves. // sends a message that begins with /.")

    async def _clear(self) -> None:
        for _ in range(os.get_terminal_size().lines):
            self._screen.line("")
