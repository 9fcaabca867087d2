"""What a person types at the terminal UI: a message is a turn of the session, `/name` a command; and the end of it.

Rules
1. One thing runs at a time. What is typed meanwhile is taken afterwards; `/exit`, and a command that only looks, are
   taken at once. A run that is only shown is left for what is typed. At a prompt a line that begins with one slash is
   never an answer: a command that does not only look is refused.
2. Ctrl-C stops what runs: a turn is canceled (cli/conversation.py), another run stays as it is and can go on, one that
   is only shown is left alone. At once again, or with nothing running and twice, it leaves.
3. To leave stops nothing for good: a turn is finished by the next UI, a run waits for `/resume`.
4. No error of a line ends the UI: it is printed on the screen. A pipe that ends after one has its exit code.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from orchestra.app import App
from orchestra.cli.advice import command
from orchestra.cli.conversation import Conversation, Heard
from orchestra.cli.driving import Drive
from orchestra.cli.hosting import SHELL, commands_begin_with
from orchestra.cli.program import failure
from orchestra.cli.text import safe
from orchestra.cli.tui.attach import Attached
from orchestra.cli.tui.early import INTERRUPTED, Early
from orchestra.cli.tui.face import TuiFace
from orchestra.cli.tui.hosted import Given, Hosting, Taken, run_command
from orchestra.cli.tui.names import Meaning, as_typed_here, help_lines, looks, meaning_of
from orchestra.cli.tui.surface import Surface
from orchestra.cli.tui.threads import in_thread
from orchestra.core.errors import OrchestraError, RunLocked, UsageError
from orchestra.core.records import FINAL
from orchestra.providers.choose import NoModel
from orchestra.runs.find import Member

_AGAIN_S = 2.0
_COUNT_S = 5.0  # from one count of what waits to the next
_WAITS = 3  # the exit code of a run that waits for a person


class Talk:
    """One session of the terminal UI, from its start to `/exit`."""

    def __init__(self, screen: Surface, face: TuiFace, drive: Drive, conversation: Conversation, given: Given) -> None:
        """`given` are the flags of models, with their values, that the UI was given: commands inside it have them."""
        self._screen, self._face, self._drive, self._conversation = screen, face, drive, conversation
        self._given = given
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._code: int | None = None
        self._failed_with = 0  # the exit code of the newest error: for who wrote the lines, if that was a program
        self._stopped_at = 0.0
        self._stop: Callable[[int], None] = lambda number: None  # stops what runs, as this signal does
        self._attached: Attached | None = None
        self._hosting = asyncio.Lock()  # one command at a time: its output is caught
        self._looks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()  # something was done here: what waits is counted at once
        screen.heard, screen.interrupted, screen.left = self._heard, self._interrupted, self._leave
        screen.aside = self._aside

    @property
    def _app(self) -> App:
        return self._drive.app

    async def run(self, shown: asyncio.Task[None], early: Early) -> int:
        """Take lines until the person leaves, first those that were sent before. `shown` shows the screen."""
        asyncio.get_running_loop().set_exception_handler(self._broken)
        for text in early.lines:
            self._heard(text)
        taking, counting = asyncio.ensure_future(self._take()), asyncio.ensure_future(self._count())
        await asyncio.wait([shown, taking], return_when=asyncio.FIRST_COMPLETED)
        for task in (taking, counting, *self._looks):
            task.cancel()
        await asyncio.wait([taking])
        self._screen.flush()
        self._screen.end()
        await shown
        if not taking.cancelled() and (error := taking.exception()) is not None:
            raise error
        return self._code or (0 if sys.stdin.isatty() else self._failed_with)

    def _signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._leave, INTERRUPTED)
        loop.add_signal_handler(signal.SIGINT, self._interrupted)

    async def _take(self) -> None:
        self._signals()
        text = ""
        while self._code is None:
            try:
                await (self._line(text) if text else self._turn(self._conversation.begin()))
            except Exception as error:  # rule 4
                self._failed(error)
            finally:
                self._face.use(self._app)
                self._signals()
            if self._code is None:
                self._changed.set()
                self._screen.expect()
                text = await self._lines.get()
                self._screen.status.queued = self._lines.qsize()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def _aside(self, text: str) -> bool:
        """Take a line that was typed at a prompt and begins with one slash: it is no answer (rule 1)."""
        if not text.startswith("/") or text.startswith("//"):
            return False
        if not self._at_once(text):
            self._echo(text)
            meaning, name = meaning_of(text), text.split()[0]
            why = f"{name} is not taken while an answer is asked for; // begins an answer with /"
            self._screen.line(f"orchestra: {safe(meaning.rest if meaning.kind == 'absent' else why)}")
            self._screen.again()
        return True

    def _at_once(self, text: str) -> bool:
        """Take a line that needs not wait for what runs or asks: `/exit`, or a command that only looks."""
        if text in ("/exit", "/quit"):
            self._leave()
            return True
        meaning = meaning_of(text)
        if not looks(meaning):
            return False
        look = asyncio.ensure_future(self._look(text, meaning))
        self._looks.add(look)
        look.add_done_callback(self._looks.discard)
        return True

    def _heard(self, text: str) -> None:
        text = text.strip()
        if not text:
            return
        at_once = text in ("/exit", "/quit") or (self._screen.busy and self._attached is None)
        if at_once and self._at_once(text):
            return
        self._lines.put_nowait(text)
        self._screen.status.queued = self._lines.qsize()
        if self._attached is not None:
            self._attached.leave()

    def _interrupted(self) -> None:
        """Ctrl-C at an empty line (rule 2)."""
        again = time.monotonic() - self._stopped_at < _AGAIN_S
        self._stopped_at = time.monotonic()
        if again:
            return self._leave()
        if self._screen.busy:
            self._discard_queued()
            return self._stop(signal.SIGINT)
        self._screen.line("Ctrl-C again leaves; so do Ctrl-D and /exit")
        return self._screen.expect()

    def _discard_queued(self) -> None:
        """What was sent while something runs is not taken any more: the person stops what runs, or leaves."""
        while not self._lines.empty():
            if text := self._lines.get_nowait():
                self._screen.line(click.style(f"not sent: {safe(text)}", dim=True))
        self._screen.status.queued = 0

    def _leave(self, code: int = 0) -> None:
        self._code = code
        self._discard_queued()
        self._stop(signal.SIGTERM)  # rule 3
        self._lines.put_nowait("")

    # -- lines --------------------------------------------------------------------------------------------------------

    async def _line(self, text: str) -> None:
        self._echo(text)
        meaning = meaning_of(text)
        match meaning.kind:
            case "turn":
                await self._turn(self._conversation.hear(text))
            case "command":
                await self._command(meaning)
            case "attach":
                await self._attach(meaning.rest)
            case "clear":
                self._screen.clear()
            case "help":
                self._help(meaning.name)
            case "absent":
                raise UsageError(meaning.rest)

    def _help(self, name: str) -> None:
        for line in help_lines(shutil.get_terminal_size().columns - 1, name):
            self._screen.line(line)

    def _echo(self, text: str) -> None:
        if self._screen.echoes:
            return
        for at, row in enumerate(safe(text).split("\n")):
            self._screen.line(click.style(f"{'>' if at == 0 else ' '} {row}", bold=True))

    async def _turn(self, taken: AsyncIterator[Heard]) -> None:
        """Show what comes of a message or of a command of the conversation."""
        self._begin(self._drive.interrupt)
        try:
            async for heard in taken:
                self._face.over()
                for line in heard.lines:
                    self._screen.line(as_typed_here(line) if line.startswith("orchestra: ") else line)
                self._failed_with = heard.failed or self._failed_with
                if heard.answer:
                    self._face.answer(heard.answer)
                if heard.leave is not None and self._code is None:
                    self._code = heard.leave
        finally:
            self._end()

    async def _look(self, text: str, meaning: Meaning) -> None:
        """Run a command that only looks, while something runs."""
        self._echo(text)
        try:
            if meaning.kind == "clear":
                self._screen.clear()
            elif meaning.kind == "help":
                self._help(meaning.name)
            else:
                async with self._hosting:
                    await run_command(self._hosted(), meaning.name, meaning.rest, self._path, self._given)
        except Exception as error:  # rule 4
            self._failed(error)
        finally:
            self._screen.again()

    def _broken(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error that nothing waited for, such as one of a key (rule 4)."""
        error = context.get("exception")
        self._failed(error if isinstance(error, Exception) else RuntimeError(context["message"]))

    def _failed(self, error: Exception) -> None:
        message, self._failed_with, _ = failure(error)
        if isinstance(error, NoModel):
            return self._screen.line(f"orchestra: {as_typed_here(error.in_one_line)}")
        for line in message.split("\n"):
            self._screen.line(as_typed_here(line))
        return None

    async def _command(self, meaning: Meaning) -> None:
        host = self._hosted()
        self._begin(lambda number: self._stop_command(host))
        try:
            async with self._hosting:
                await run_command(host, meaning.name, meaning.rest, self._path, self._given)
            if host.taken is not None:
                await self._drive_run(host.taken)
        finally:
            self._end()

    def _stop_command(self, host: Hosting) -> None:
        if not host.interrupt() and self._code is None:
            self._screen.line("this command ends by itself; Ctrl-C again leaves the UI")

    def _hosted(self) -> Hosting:
        return Hosting(self._face, self._screen, self._hosting)

    @property
    def _path(self) -> Path:
        return self._app.project.path

    async def _drive_run(self, taken: Taken) -> None:
        """Drive a run that a command started or found."""
        self._stop = taken.drive.interrupt
        self._face.left = False
        app = taken.drive.app
        self._face.use(app)
        try:
            end = await taken.drive.go(taken.folder, known=taken.known, accept_drift=taken.accept_drift)
            self._face.over()
            with commands_begin_with("/" if self._code is None else SHELL):
                self._face.done(end, taken.folder)
            if end.result is not None and end.status == "completed":
                self._face.answer(safe(app.workflow_of(end.run_id).printed(end.result)))
            waits = end.exit_code in (_WAITS, RunLocked.exit_code)  # else the lines above tell how to go on
            if waits and end.status not in FINAL.values() and self._code is None:
                self._screen.line(f"it stays; to go on with it here: {command(app, 'resume', taken.folder.id)}")
        finally:
            came = taken.drive.signals
            if (signal.SIGTERM in came or came.count(signal.SIGINT) > 1) and self._code is None:
                self._leave(INTERRUPTED if signal.SIGTERM in came else 0)

    async def _attach(self, run: str) -> None:
        """Show a run that any process drives; drive it on, if it is answered here and no process does (attach.py)."""
        app = self._app
        folder = app.meant.to_look_at(run or None)
        self._attached = attached = Attached(app, self._face, folder)
        self._begin(lambda number: attached.leave())
        self._face.left = False
        try:
            await attached.show()
            self._face.over()
            if attached.end is not None:
                self._face.done(attached.end, folder)
                if attached.end.status == "completed":
                    self._face.answer(safe(app.workflow_of(folder.id).printed(attached.end.result)))
            elif attached.left:
                self._screen.line(f"left run {folder.id} as it is; to see it again: {command(app, 'watch', folder.id)}")
            self._attached = None
            if attached.answered:
                root = app.runs.vouched_root(folder).folder
                await self._drive_run(Taken(self._drive, root, known=True, accept_drift=frozenset()))
        finally:
            self._attached = None
            self._screen.status.since = 0.0  # how long it was looked at is not how long it took
            self._end()

    def _begin(self, stop: Callable[[int], None]) -> None:
        """Something runs, which `stop` stops."""
        self._stop = stop
        self._screen.status.since = time.monotonic()
        self._screen.busy = True
        self._screen.changed()

    def _end(self) -> None:
        self._stop = lambda number: None
        self._face.over()
        self._screen.flush()  # before the live rows become fewer: the cursor stays in its cell
        self._screen.busy = False
        self._screen.status.end(time.monotonic())
        self._screen.changed()

    # -- what waits ---------------------------------------------------------------------------------------------------

    async def _count(self) -> None:
        """Count what waits in the project, again and again: other processes start runs, and answer them.

        It is done in a thread, because there may be many runs, and takes half a percent of the time at most.
        """
        while True:
            self._changed.clear()
            began = time.monotonic()
            await self._count_once()
            pause = max(_COUNT_S, 200 * (time.monotonic() - began))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), pause)

    async def _count_once(self) -> None:
        def count() -> tuple[int, int]:
            app = App(self._path)
            waits = stopped = 0
            for run in app.meant.unended():
                requests = app.trees.requests(run.folder, (Member(run),))
                waits += sum(not one.answered for one in requests)
                stopped += not requests and not run.driven
            return waits, stopped

        status = self._screen.status
        before = status.waits, status.stopped
        try:
            status.waits, status.stopped = await in_thread(count)
        except (OrchestraError, OSError):
            return  # a run that cannot be read is told by the commands about it
        if (status.waits, status.stopped) != before:
            self._screen.changed()
