"""Commands of `orchestra` inside the terminal UI: `/loop fix it --check "pytest -q"` is the command `orchestra loop`.

Rules
1. What a command prints is caught, and printed as lines. A run that it starts is driven by the UI.
2. The words before the first option of a command with a goal are the goal, quoted or not.
3. A command runs in a thread, so that the screen stays alive; one that needs the terminal for itself is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import click

from orchestra.cli.commands import COMMANDS
from orchestra.cli.driving import Drive
from orchestra.cli.face import CommandFace
from orchestra.cli.program import CommandTable, program
from orchestra.core.errors import OrchestraError, UsageError
from orchestra.core.run import RunFolder

OTHER = {"/team": "orchestrate", "/cost": "audit"}  # names of the terminal UI for commands
_OWN_TERMINAL = frozenset({"chat", "tui", "agent:tui", "agent:run", "chat:turn", "eval", "tool", "completion", "init"})
_OPTION = re.compile(r"(?:^|\s)(?=--?[A-Za-z])")


class Taken:
    """A run that a command started or found, to be driven by the UI."""

    def __init__(self, drive: Drive, folder: RunFolder, known: bool, accept_drift: frozenset[str]) -> None:
        self.drive, self.folder, self.known, self.accept_drift = drive, folder, known, accept_drift


class Hosting:
    """What a command finds as the object of its context (cli/driving.py)."""

    hosts = True

    def __init__(self, face: CommandFace) -> None:
        self.face = face
        self.taken: Taken | None = None

    def take(self, drive: Drive, folder: RunFolder, *, known: bool, accept_drift: frozenset[str]) -> int:
        self.taken = Taken(drive, folder, known, accept_drift)
        return 0


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


async def run_command(
    name: str, rest: str, face: CommandFace, project: Path, given: tuple[str, ...], line: Callable[[str], None]
) -> Taken | None:
    """Run a command; its lines are printed by `line`. Returns the run that it wants driven."""
    if name in _OWN_TERMINAL or name not in COMMANDS:
        raise UsageError(f"/{name} needs a terminal of its own: orchestra {name}")
    table = program
    assert isinstance(table, CommandTable)
    command = table.get_command(click.Context(table), name)
    assert command is not None
    takes = {option for parameter in command.params for option in parameter.opts}
    models = given if "--provider" in takes else ()
    where = ("-C", str(project)) if "-C" in takes else ()
    arguments = [*models, *where, *words_of(name, rest, goal="--edit" in takes)]
    host, caught = Hosting(face), io.BytesIO()
    out = io.TextIOWrapper(caught, "utf-8", errors="replace", write_through=True)

    def invoke() -> None:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                with command.make_context(name, arguments, obj=host) as ctx:
                    command.invoke(ctx)
            except click.exceptions.Exit:
                pass
            except click.ClickException as error:
                click.echo(f"orchestra: {error.format_message()}")
            except OrchestraError as error:
                click.echo(f"orchestra: {error}")

    await asyncio.to_thread(invoke)
    for text in caught.getvalue().decode("utf-8", "replace").splitlines():
        line(text)
    return host.taken
