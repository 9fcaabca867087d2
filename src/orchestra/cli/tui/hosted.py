"""Commands of `orchestra` inside the terminal UI: `/loop fix it --check "pytest -q"` is the command `orchestra loop`.

Rules
1. A command runs in a thread, so that the screen stays alive. What it prints is caught, and printed as lines while it
   goes on; what it asks is asked at the input line. A run that it starts is driven by the UI.
2. The words before the first option of a command with a goal are the goal, quoted or not.
3. An error of a command is raised where it is waited for.
4. The thread does not outlive the UI (threads.py).
5. One command at a time, because its output is caught. One that asks lets others run until the person has answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import shlex
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import ShellComplete

from orchestra.cli.commands import COMMANDS
from orchestra.cli.driving import Drive
from orchestra.cli.face import CommandFace
from orchestra.cli.program import CommandTable, program
from orchestra.cli.tui.surface import Surface
from orchestra.cli.tui.threads import in_thread
from orchestra.core.errors import UsageError
from orchestra.core.run import RunFolder

OTHER = {"/team": "orchestrate", "/cost": "audit"}  # names of the terminal UI for commands
_TYPED = {name: typed for typed, name in OTHER.items()}  # how a command is named here
NOT_HERE = frozenset({"chat", "tui", "agent:tui", "agent:run", "chat:turn", "eval", "tool", "completion"})
# Commands that only look, and may do so while a run is driven: they never start or answer one.
LOOKING = frozenset({"status", "inbox", "runs", "list", "show", "diff", "report", "audit", "sent", "context", "inspect",
                     "trace", "lineage", "requests", "logs", "compare", "models", "help", "policy"})  # fmt: skip
_LIMITS = ("--max-budget-usd", "--max-time")
Given = tuple[tuple[str, str], ...]  # flags, each with its value
_OPTION = re.compile(r"(?:^|\s)(?=--?[A-Za-z])")


class Taken:
    """A run that a command started or found, to be driven by the UI."""

    def __init__(self, drive: Drive, folder: RunFolder, *, known: bool, accept_drift: frozenset[str]) -> None:
        self.drive, self.folder, self.known, self.accept_drift = drive, folder, known, accept_drift


class Hosting:
    """What a command finds as the object of its context (cli/hosting.py). Its methods are called in the thread."""

    hosts = True

    def __init__(self, face: CommandFace, screen: Surface, alone: asyncio.Lock) -> None:
        """`alone` is held while the command runs."""
        self.face = face
        self._alone = alone
        self.taken: Taken | None = None
        self._screen, self._loop = screen, asyncio.get_running_loop()
        self._asked: asyncio.Future[str] | None = None

    def take(self, drive: Drive, folder: RunFolder, *, known: bool, accept_drift: frozenset[str]) -> int:
        self.taken = Taken(drive, folder, known=known, accept_drift=accept_drift)
        return 0

    def line(self, text: str) -> None:
        """Print a line of the command."""
        with contextlib.suppress(RuntimeError):  # the UI was left
            self._loop.call_soon_threadsafe(self._screen.line, text)

    def ask(self, question: str) -> str:
        return asyncio.run_coroutine_threadsafe(self._answer(question), self._loop).result()

    async def _answer(self, question: str) -> str:
        asked: asyncio.Future[str] = self._loop.create_future()
        self._asked = asked
        self._screen.ask(question, asked.set_result, "")
        self._alone.release()
        try:
            return await asked
        finally:
            await self._alone.acquire()
            self._screen.idle()

    def elsewhere(self, program: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(self._screen.elsewhere(program), self._loop).result()

    def interrupt(self) -> bool:
        """Answer nothing to what the command asks; False if it asks nothing. Called by the UI."""
        if self._asked is None or self._asked.done():
            return False
        self._screen.close()
        self._asked.set_result("")
        return True


class _Caught(io.RawIOBase):
    """Standard output and error of a command: whole lines go to `line`."""

    def __init__(self, line: Callable[[str], None]) -> None:
        self._line = line
        self._begun = b""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True  # the lines are for a person: in colour, fitted to the terminal's width

    def write(self, data: Any) -> int:
        *whole, self._begun = (self._begun + bytes(data)).split(b"\n")
        for line in whole:
            self._line(line.decode("utf-8", "replace"))
        return len(data)

    def rest(self) -> None:
        """The last line, if nothing ended it."""
        if self._begun:
            self.write(b"\n")


def words_of(name: str, rest: str, *, goal: bool) -> list[str]:
    """The arguments of a command (rule 2); UsageError if a quote is not closed."""
    try:
        if not goal or rest.startswith(('"', "'")):
            return shlex.split(rest)
        found = _OPTION.search(rest)
        at = found.start() if found else len(rest)
        return [*filter(None, [rest[:at].strip()]), *shlex.split(rest[at:])]
    except ValueError as error:
        raise UsageError(f"/{name}: a quote is not closed ({error})") from error


def following(name: str, words: list[str], begun: str, project: Path) -> Iterator[tuple[str, str]]:
    """What may follow a command and the words behind it, as a shell completes it: runs, options, values."""
    command = COMMANDS.get(name)
    if command is None:
        return
    takes = {option for parameter in _command(name).params for option in parameter.opts}
    where = ("-C", str(project)) if "-C" in takes else ()
    completer = ShellComplete(program, {}, "orchestra", "")
    for item in completer.get_completions([name, *where, *words], begun):
        yield str(item.value), item.help or ""


def _command(name: str) -> click.Command:
    """A command of `orchestra`."""
    table = program
    assert isinstance(table, CommandTable)
    command = table.get_command(click.Context(table), name)
    assert command is not None
    return command


async def run_command(host: Hosting, name: str, rest: str, project: Path, given: Given) -> None:
    """Run a command until it ends; its lines are printed by `host`, which has the run that it wants driven.

    `given` are flags that the UI itself was given, for commands that call models. Its limits are for runs that begin
    here: a run that goes on has its own.
    """
    if name in NOT_HERE or name not in COMMANDS:
        raise UsageError(f"/{name} needs a terminal of its own: orchestra {name}")
    if name == "logs" and {"-f", "--follow"} & set(rest.split()):
        raise UsageError("/logs -f: to read along with a run, /watch RUN")
    command = _command(name)
    takes = {option for parameter in command.params for option in parameter.opts}
    wants = {one.name for one in command.params if isinstance(one, click.Argument)}
    starts, goal = "run" not in wants, "--edit" in takes or "goal" in wants
    models = (part for flag in given if flag[0] in takes and (starts or flag[0] not in _LIMITS) for part in flag)
    where = ("-C", str(project)) if "-C" in takes else ()
    arguments = [*models, *where, *words_of(name, rest, goal=goal)]
    await in_thread(lambda: _invoke(command, name, arguments, host))


def _invoke(command: click.Command, name: str, arguments: list[str], host: Hosting) -> None:
    """Run a command in this thread (rule 1)."""
    caught = _Caught(host.line)
    out = io.TextIOWrapper(caught, "utf-8", errors="replace", write_through=True)  # type: ignore[type-var]
    shown = _TYPED.get(name, f"/{name}")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            with command.make_context(shown, arguments, obj=host, help_option_names=["-h", "--help"]) as ctx:
                command.invoke(ctx)
        except (click.exceptions.Exit, SystemExit):
            pass
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.ctx.get_help() if error.ctx else "")
        finally:
            caught.rest()
