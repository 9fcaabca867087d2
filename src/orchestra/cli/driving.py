"""Drives a run from the command line: chooses the face, drives, shows the end, returns the exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable

import click

from orchestra.app import App
from orchestra.cli.advice import command
from orchestra.cli.asking import agrees, can_ask
from orchestra.cli.face import CommandFace, JsonFace, LineFace, QuietFace
from orchestra.cli.hosting import host
from orchestra.cli.options import Driving
from orchestra.cli.terminal import TerminalFace
from orchestra.cli.text import safe
from orchestra.commands.detached import NotDriven, drive_detached
from orchestra.config.overlay import Overlay
from orchestra.core.engine import RunEnd
from orchestra.core.errors import ForeignRun, JournalCorrupt, NoConsent, OrchestraError, UsageError
from orchestra.core.faces import Launched
from orchestra.core.run import RunFolder
from orchestra.providers.choose import Models
from orchestra.runs.answers import who


class Drive:
    """One command that drives runs: its face and its app."""

    def __init__(
        self,
        how: Driving,
        models: Models | None = None,
        *,
        overlay: Overlay | None = None,
        environment: str = "",
        face: CommandFace | None = None,
    ) -> None:
        """`environment` is what a person typed for the commands of a new run; `face` replaces the one of the flags."""
        self._host = host() if face is None and not how.detach else None
        self.face = face or (self._host.face if self._host else choose_face(how))
        self._on_ask = how.on_ask
        self._detach = how.detach
        self._models = models
        self.app = App(how.project, face=self.face, models=models, overlay=overlay)
        if environment:
            self.app.project.choose_environment(environment)
        self.face.use(self.app)
        self._unheard = False  # stdout or stderr is closed
        self.signals: list[int] = []  # those that came while the newest run was driven
        self._task: asyncio.Task[RunEnd] | None = None  # the drive that goes on

    def drive(
        self, start: Callable[[], RunFolder], *, known: bool = False, accept_drift: frozenset[str] = frozenset()
    ) -> int:
        """Start or find a run, drive it, and return the exit code. `known`: the run exists already; show its id."""
        if self._detach:
            return self._drive_apart(start, accept_drift)
        if self._host is not None:
            self.ask_consent()
            return self._host.take(self, start(), known=known, accept_drift=accept_drift)
        end = self.conduct(start, known=known, accept_drift=accept_drift)
        if self._unheard:  # the exit code is still correct
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
        return end.exit_code

    def refuse_detached(self, what: str) -> None:
        """UsageError with --detach, for a command that must drive the run itself."""
        if self._detach:
            raise UsageError(f"--detach: {what} is driven by this command itself; leave it out")

    def _drive_apart(self, start: Callable[[], RunFolder], accept_drift: frozenset[str]) -> int:
        """Start or find a run, and have another process drive it."""
        self.ask_consent()
        root = self.app.runs.root_of(start())
        if self._models:
            self.app.keep_models(root, self._models)
        options = (
            "--on-ask",
            self._on_ask,
            *(word for key in sorted(accept_drift) for word in ("--accept-drift", key)),
        )
        try:
            pid = drive_detached(
                root, self.app.project.path, options, os.environ, lambda: self.app.project.store.is_driven(root)
            )
        except NotDriven as failed:
            click.echo(safe(str(failed)), err=True, nl=False)
            return failed.exit_code
        if not isinstance(self.face, JsonFace):
            follow, stop = command(self.app, "watch", root.id), command(self.app, "cancel", root.id)
            click.echo(f"process {pid} drives it; follow: {follow}; end it: {stop}", err=True)
        return 0

    def conduct(
        self, start: Callable[[], RunFolder], *, known: bool = False, accept_drift: frozenset[str] = frozenset()
    ) -> RunEnd:
        """The same as `drive`, but returns how the run ended, for a command that prints more afterwards."""
        end, folder = self.finish(start, known=known, accept_drift=accept_drift)
        try:
            self.face.done(end, folder)
            if end.status == "completed" and (text := self._printed(end)):
                sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
        except OSError:
            self._unheard = True
        return end

    def finish(
        self, start: Callable[[], RunFolder], *, known: bool = False, accept_drift: frozenset[str] = frozenset()
    ) -> tuple[RunEnd, RunFolder]:
        """The same as `conduct`, but shows nothing of the end."""
        self.refuse_detached("this run")
        self.ask_consent()
        folder = start()
        return asyncio.run(self.go(folder, known=known, accept_drift=accept_drift)), folder

    async def go(self, folder: RunFolder, *, known: bool = False, accept_drift: frozenset[str] = frozenset()) -> RunEnd:
        """Drive a run in the running event loop, until it stops or a signal comes; returns how it ended."""
        try:
            if known:
                run = self.app.runs.summary(folder)
                self.app.face.tell(Launched(folder, run.workflow, run.facts.parentRunId or ""))
            return await self._drive(folder, accept_drift)
        except OrchestraError as error:
            if isinstance(error, JournalCorrupt | ForeignRun | NoConsent):
                raise  # nothing was driven
            return self._stopped(folder, error.exit_code, str(error))

    def _printed(self, end: RunEnd) -> str:
        """The text that the workflow prints for the run's result; empty with `--json`, which contains it."""
        if isinstance(self.face, JsonFace):
            return ""
        workflow = self.app.workflow_of(end.run_id)
        return safe(workflow.printed(end.result)) if end.result is not None else ""

    def ask_consent(self) -> None:
        """Ask the person at the terminal to agree to the configuration, if they have not; NoConsent if they do not."""
        if self.face.patient and self.app.project.consent.missing:
            if not can_ask(no_input=False):
                self.app.project.consent.require()
            if not agrees(self.app.project.consent):
                raise NoConsent("nothing was started: you did not agree. To agree later: orchestra trust")
            self.app.project.consent.agree(who())

    def interrupt(self, number: int) -> None:
        """Stop what is driven, as this signal does; nothing if nothing is."""
        if self._task is None or (number == signal.SIGINT and self.face.away):
            return
        self.signals.append(number)
        self._task.cancel()

    async def _drive(self, folder: RunFolder, accept_drift: frozenset[str]) -> RunEnd:
        """Drive until the run stops or a signal comes. Pressing Ctrl-C several times still ends in order."""
        driven = self.app.drive(folder, patient=self.face.patient, accept_drift=accept_drift, on_ask=self._on_ask)
        self._task = task = asyncio.ensure_future(driven)
        loop = asyncio.get_running_loop()
        self.signals.clear()
        # Only the main thread gets signals; a command in another one is inside a program that takes them.
        main = threading.current_thread() is threading.main_thread()
        numbers = (signal.SIGINT, signal.SIGTERM) if main else ()
        for number in numbers:
            loop.add_signal_handler(number, self.interrupt, number)
        self.face.stops_by(task.cancel)
        try:
            while not task.done():
                try:
                    await asyncio.wait([task])
                except asyncio.CancelledError:
                    task.cancel()
        finally:
            self._task = None
            for number in numbers:
                loop.remove_signal_handler(number)
                if task.cancelled():  # another Ctrl-C must not cut off the last lines
                    signal.signal(number, signal.SIG_IGN)
        return self._stopped(folder, 3 if self.face.left else 130) if task.cancelled() else task.result()

    def _stopped(self, folder: RunFolder, code: int, message: str = "") -> RunEnd:
        """The end of a drive that did not end the run: interrupted, no budget, no disk space, a refused run."""
        return RunEnd(folder.id, self.app.trees.status(folder), code, message)


def choose_face(how: Driving) -> CommandFace:
    """The face for the flags. Only one at a terminal with a person prompts."""
    if how.as_json:
        return JsonFace(stream=how.stream)
    if how.quiet:
        return QuietFace()
    if can_ask(no_input=how.no_input or how.detach):
        return TerminalFace(stream=how.stream)
    return LineFace(stream=how.stream)
