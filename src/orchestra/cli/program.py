"""The `orchestra` command group: finds commands in the table, and turns errors into a message and an exit code.

Only this module and the terminal UI, which must not end by an error of one line, catch every exception.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import click

from orchestra.cli.commands import COMMANDS, ELSEWHERE, GROUPS
from orchestra.core.errors import OrchestraError


class CommandTable(click.Group):
    """A group whose commands are imported only when they run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"orchestra.cli.{COMMANDS[name][0]}")
        function = name.replace(":", "_")  # `agent:run` is the function agent_run
        command = getattr(module, f"{function}_", None) or getattr(module, function)  # `list` is list_
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        left = dict(COMMANDS)
        for title, names in GROUPS.items():
            rows = [(name, left.pop(name)[1]) for name in names.split() if name in left]
            with formatter.section(title):
                formatter.write_dl(rows)
        if left:
            with formatter.section("More"):
                formatter.write_dl([(name, line) for name, (_, line) in left.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            if not near:
                raise
            raise click.UsageError(f"No such command '{args[0]}'. Did you mean '{near[0]}'?", ctx) from error


@click.group(
    cls=CommandTable,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="orchestra-agents", prog_name="orchestra", message="%(prog)s %(version)s")
@click.option("-C", "folder", metavar="DIR", type=click.Path(path_type=Path), help="Project folder.")
@click.pass_context
def program(ctx: click.Context, folder: Path | None) -> int:
    """Lets language models work on a goal until your checks pass; you approve each change.

    Start with:  orchestra loop "fix the failing test" --check "pytest -q"

    RUN is a run's number (12 or @12), its id, a unique beginning or end of the id, words of its goal, or `last`: the
    newest run that you started. Without RUN, a command takes the run that waits for you, else the newest; one that
    changes something takes a run only if no other is possible. RUN stands for the run and its child runs.

    Exit codes: 0 completed, 1 failed, 2 usage, 3 waiting for a person, 4 budget or time reached, 5 refused by policy, 6
    provider unavailable, 7 run locked by another process, 130 interrupted.
    """
    if ctx.invoked_subcommand is None:
        command = CommandTable.get_command(program, ctx, "status")
        assert command is not None
        with command.make_context("status", [], parent=ctx) as below:
            return int(command.invoke(below))
    return 0


def run() -> int:
    """Run the command line; returns the exit code. No traceback reaches a user."""
    if sys.stdout is None:  # started with a closed stdout (`>&-`)
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    try:
        code = program.main(standalone_mode=False, color=False if os.environ.get("NO_COLOR") else None)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except SystemExit:
        # click exits so for a closed pipe, when the reader (head, less) has ended.
        return 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
        return 0
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter's last flush fails
        return 0
    except (Exception, KeyboardInterrupt) as error:
        message, code, known = failure(error)
        if not known and os.environ.get("ORCHESTRA_DEBUG"):
            raise
        click.echo(message, err=True)
        return code


def failure(error: BaseException) -> tuple[str, int, bool]:
    """What a command's error is told as, the exit code, and whether the error is an expected one.

    The message may quote a file, so secrets are masked and control characters escaped.
    """
    message, code, known = _told(error)
    from orchestra.core.redact import Redactor
    from orchestra.core.text import clean

    return clean(Redactor.from_environment(os.environ).text(message)), code, known


def _told(error: BaseException) -> tuple[str, int, bool]:
    match error:
        case click.ClickException():
            return _in_our_words(error), 2, True
        case click.Abort() | KeyboardInterrupt():
            return "interrupted", 130, True
        case OrchestraError():
            return f"orchestra: {error}", error.exit_code, True
        case OSError() if not str(error.filename or "").startswith("/") and _stands_nowhere():
            return "orchestra: the folder you are in was removed; go to another one (cd DIR)", 2, True
        case OSError():
            where = f" ({error.filename})" if error.filename else ""
            return f"orchestra: {error.strerror or error}{where}", 1, True
    told = f"orchestra: internal error: {type(error).__name__}: {error}"
    return f"{told}\nThe run is safe in its folder. Please report this, with what ORCHESTRA_DEBUG=1 prints.", 1, False


def _in_our_words(error: click.ClickException) -> str:
    """A mistake on the command line that click found, as orchestra's own messages are."""
    words = error.format_message().rstrip(".")
    if isinstance(error, click.NoSuchOption) and error.option_name in ELSEWHERE:
        words = f"{words}: {ELSEWHERE[error.option_name]}"
    elif isinstance(error, click.NoSuchOption) and error.possibilities:
        import difflib

        near = difflib.get_close_matches(error.option_name, error.possibilities, n=1) or error.possibilities
        words = f"{error.message} Did you mean '{near[0]}'?"
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    stop = "" if words.endswith("?") else "."
    return f"orchestra: {words}{stop} All of it: {ctx.command_path} --help" if ctx else f"orchestra: {words}"


def _stands_nowhere() -> bool:
    try:
        os.getcwd()
    except OSError:
        return True
    return False
