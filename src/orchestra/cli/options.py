"""Options that several commands share; each has its ORCHESTRA_* variable (U-09).

Options that belong together are passed as one value: `models` gives `who` (Answering), `driving` gives `how` (Driving).

Nothing heavy is imported here: the terminal UI draws its input line before the program is loaded (cli/tui/begin.py).
"""

from __future__ import annotations

import functools
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from msgspec.structs import replace

from orchestra.cli.text import safe
from orchestra.config.upward import find_project
from orchestra.core.errors import UsageError
from orchestra.core.records import OnAsk, utf8
from orchestra.core.text import dollars_of, seconds_of
from orchestra.providers.spec import from_here

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from orchestra.providers.choose import Models, Providers

_OPERATORS = "|&;<>"  # operators of a shell
_NAMES_A_RUN = re.compile(r"last|@\d+|\d{4}-\d\d-\d\d_\d{3,}_\S+")  # and cannot be meant as anything else
F = TypeVar("F", bound=Callable[..., Any])
Command = Callable[..., int]


def run_names(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """What TAB completes where a run is named; the project is opened for it."""
    from orchestra.cli import completing

    return completing.run_names(ctx, parameter, typed)


def provider_names(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """What TAB completes where a provider is named."""
    from orchestra.cli import completing

    return completing.provider_names(ctx, parameter, typed)


class Duration(click.ParamType[float]):
    """Seconds, or a number with a unit: `90`, `90s`, `15m`, `2h`."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return seconds_of(str(value))
        except ValueError:
            self.fail(f"{value!r}: want seconds, or 90s, 15m, 2h", param, ctx)


class Dollars(click.ParamType[float]):
    """An amount of dollars above zero: `0.5`, `20`."""

    name = "float"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return dollars_of(str(value))
        except ValueError:
            self.fail(f"{value!r}: want an amount of dollars above 0", param, ctx)


class Answering(NamedTuple):
    """The flags that choose models and the budget."""

    provider: str
    roles: dict[str, str]
    model: str
    max_budget_usd: float | None
    max_time: float | None  # seconds


class Driving(NamedTuple):
    """The flags of a command that drives a run: the project, and the kind of output."""

    project: Path
    as_json: bool
    no_input: bool
    quiet: bool
    on_ask: OnAsk = "park"
    stream: bool = False
    detach: bool = False


def _project(default: Callable[[click.Context], Path], help: str) -> Callable[[F], F]:
    """-C DIR, before or after the command; `default` gives the folder without it."""
    return click.option(
        "-C",
        "project",
        metavar="DIR",
        envvar="ORCHESTRA_PROJECT",
        type=click.Path(path_type=Path),
        callback=lambda ctx, _, value: value or ctx.find_root().params.get("folder") or default(ctx),
        help=help,
    )


def project(function: F) -> F:
    """-C DIR, before or after the command."""
    upwards = "the nearest upwards with orchestra.config.yaml, .runs or .git; else here"
    return _project(project_here, f"Project folder (default: {upwards}).")(function)


def project_exactly(function: F) -> F:
    """-C DIR for a command that makes a project: without it, the current folder."""
    return _project(lambda ctx: Path(), "Project folder (default: here).")(function)


def project_here(ctx: click.Context) -> Path:
    """The project that the person stands in; told if it is not the current folder."""
    here = Path.cwd()
    found = find_project(here, os.environ)
    if found != here and not ctx.resilient_parsing:
        click.echo(f"orchestra: the project is {safe(str(found))}", err=True)
    return found if found != here else Path()


def from_project(files: tuple[str, ...], project: Path) -> tuple[str, ...]:
    """Files that a person named: those that are in the current folder, and not in the project's, as whole paths."""
    return tuple(
        os.path.abspath(file)
        if not any(os.path.lexists(project / name) for name in _names(file)) and any(map(os.path.lexists, _names(file)))
        else file
        for file in files
    )


def _names(file: str) -> tuple[str, str]:
    """FILE[:LINES] with and without the lines."""
    return file, file.rpartition(":")[0] or file


def json_of(what: str) -> Callable[[F], F]:
    """--json, and what it prints."""
    return click.option("--json", "as_json", is_flag=True, envvar="ORCHESTRA_JSON", help=what)


def as_json(function: F) -> F:
    """--json for a command that prints while it drives."""
    return json_of("NDJSON on stdout and nothing else.")(function)


def stream_of(what: str) -> Callable[[F], F]:
    """--stream, and what it prints."""
    return click.option("--stream", is_flag=True, envvar="ORCHESTRA_STREAM", help=what)


def driving(function: Command) -> Command:
    """The options of a command that drives a run, as `how` (Driving)."""
    function = project(_gathered(function, "how", Driving))
    function = stream_of("Also what models write, as it comes, line by line; with --json also what commands print.")(
        function
    )
    function = as_json(function)
    function = click.option(
        "--detach", is_flag=True, help="Drive the run in a process of its own, and return: orchestra watch follows it."
    )(function)
    function = click.option(
        "--on-ask",
        type=click.Choice(["park", "default"]),
        default="park",
        envvar="ORCHESTRA_ON_ASK",
        help="What becomes of a question: wait for you (park), or go on with its default, marked as provisional. An"
        " approval always waits.",
    )(function)
    function = click.option(
        "--quiet",
        is_flag=True,
        envvar="ORCHESTRA_QUIET",
        help="Print only what went wrong or waits for you; never prompt.",
    )(function)
    return no_input("Never prompt: park (exit 3) when a person is needed.")(function)


def context(function: F) -> F:
    """--context FILE, as `context`, and --no-context GLOB, as `no_context`."""
    function = click.option(
        "--no-context",
        multiple=True,
        metavar="GLOB",
        help="Show no model the files that this names, as in .gitignore, and do not list them. Repeatable.",
    )(function)
    return click.option(
        "--context",
        multiple=True,
        metavar="FILE[:LINES]",
        help="Show this file of the project to every model, whole or these lines (3-9); the only way to show one that"
        " is a secret by its name. Repeatable.",
    )(function)


def environment(function: F) -> F:
    """--environment DIR, as `environment`."""
    return click.option(
        "--environment",
        default="",
        metavar="DIR|none",
        envvar="ORCHESTRA_ENVIRONMENT",
        help="The virtual environment that commands use (default: VIRTUAL_ENV in the project, else its .venv or venv).",
    )(function)


def no_input(instead: str) -> Callable[[F], F]:
    """--no-input, and what happens instead of a question."""
    return click.option("--no-input", is_flag=True, envvar="ORCHESTRA_NO_INPUT", help=instead)


def models(function: Command) -> Command:
    """The options that choose models and the budget, as `who`."""
    function = click.option(
        "--model", default="", envvar="ORCHESTRA_MODEL", metavar="NAME", help="Model name for the provider."
    )(_gathered(function, "who", Answering))
    function = click.option(
        "--role",
        "roles",
        multiple=True,
        metavar="NAME=PROVIDER[:ARG]",
        callback=_roles,
        help="Another provider for one role or agent. Repeatable.",
    )(function)
    function = click.option(
        "--max-budget-usd",
        type=Dollars(),
        envvar="ORCHESTRA_MAX_BUDGET_USD",
        help="Stop (exit 4) before a call once this much is spent, by the run and all runs below it.",
    )(function)
    function = click.option(
        "--max-time",
        type=Duration(),
        metavar="DURATION",
        envvar="ORCHESTRA_MAX_TIME",
        help="Stop (exit 4) when the run and all runs below it have worked this long: seconds, or 90s, 15m, 2h. Waiting"
        " for a person does not count.",
    )(function)
    return click.option(
        "--provider",
        default="",
        envvar="ORCHESTRA_PROVIDER",
        metavar="NAME[:ARG]",
        callback=lambda ctx, parameter, value: from_here(value),
        shell_complete=provider_names,
        help="Who answers: claude_code, openai_compat, anthropic, local (each [:MODEL]), scripted:FILE, replay:RUN, or "
        "a name from `providers`.",
    )(function)


def approval(what: str, default: str, variable: str | None = "ORCHESTRA_APPROVAL") -> Callable[[Command], Command]:
    """--approval, and --yes, as `approval`."""

    def wrapped(function: Command) -> Command:
        @functools.wraps(function)
        def called(*arguments: Any, yes: bool, approval: str | None, **given: Any) -> int:
            if yes and approval not in (None, "never"):
                raise click.UsageError(f"--yes means --approval never, and --approval {approval} is given: choose one")
            return function(*arguments, **given, approval="never" if yes else approval)

        yes = click.option("-y", "--yes", is_flag=True, help="The same as --approval never.")
        return yes(
            click.option(
                "--approval",
                type=click.Choice(["always", "risk", "never"]),
                envvar=variable,
                help=f"When a person must see {what} first (default: {default}).",
            )(called)
        )

    return wrapped


def checks(what: str, variable: str = "") -> Callable[[F], F]:
    """--check CMD, as `checks`; `variable` gives one command if the option is not there."""

    def given() -> list[str]:  # a function, because click would split the variable at spaces
        return [command] if (command := os.environ.get(variable)) else []

    return click.option("--check", "checks", multiple=True, default=given, metavar="CMD", help=what)


def max_fixes(what: str, variable: str | None = None) -> Callable[[F], F]:
    """--max-fixes N."""
    return click.option("--max-fixes", type=click.IntRange(0, 100), envvar=variable, help=what)


def no_drive(function: F) -> F:
    """--no-drive, for a command that records an answer."""
    return click.option("--no-drive", is_flag=True, help="Only record it; do not drive the run on.")(function)


def run_argument(function: F) -> F:
    """RUN, which must be given: an id, a number, a unique part of an id, words of the goal, or `last`."""
    return click.argument("run", metavar="RUN", shell_complete=run_names)(function)


def run_or_default(function: F) -> F:
    """[RUN]: None if it is not given; the command asks `App.meant` then."""
    return click.argument("run", metavar="[RUN]", required=False, shell_complete=run_names)(function)


def run_then(name: str, metavar: str, *, numbers: bool = True) -> Callable[[Command], Command]:
    """[RUN] and one more argument. A single word is the other argument: the run is None then.

    A single word that only names a run is refused: the other argument was forgotten. A mere number is allowed as the
    other argument only with `numbers`.
    """

    def wrapped(function: Command) -> Command:
        @functools.wraps(function)
        def called(*arguments: Any, words: tuple[str, ...], **given: Any) -> int:
            if len(words) > 2:
                raise click.UsageError(f"too many words: give a run and {metavar}, in quotes if it has several words")
            run = words[0] if len(words) == 2 else None
            if run is None and (_NAMES_A_RUN.fullmatch(words[0]) or (words[0].isdecimal() and not numbers)):
                raise click.UsageError(f"{words[0]} names a run, and {metavar} is missing: give {words[0]} {metavar}")
            return function(*arguments, **given, run=run, **{name: words[-1]})

        argument = click.argument(
            "words", metavar=f"[RUN] {metavar}", nargs=-1, required=True, shell_complete=run_names
        )
        return argument(called)

    return wrapped


def own(function: F) -> F:
    """--own, for a command that is about a run and its child runs."""
    return click.option("--own", is_flag=True, help="Only RUN itself, without its child runs.")(function)


def accept_drift(function: F) -> F:
    """--accept-drift, for a command that replays a run; given as `drift`."""
    text = "Keep this step's recorded result although the code changed."
    return click.option("--accept-drift", "drift", multiple=True, metavar="KEY", help=text)(function)


def _roles(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    roles: dict[str, str] = {}
    for entry in value:
        name, equals, spec = entry.partition("=")
        if not (name and equals and spec):
            raise click.BadParameter(f"{entry!r}: want NAME=PROVIDER[:ARG], e.g. evaluator=scripted:judge.yaml")
        roles[name] = from_here(spec)
    return roles


def _gathered(function: Command, name: str, kind: type[Answering | Driving]) -> Command:
    """Wrap a function: the options that are fields of `kind` are passed as one argument."""

    @functools.wraps(function)
    def called(*arguments: Any, **given: Any) -> int:
        fields = {field: given.pop(field) for field in kind._fields}
        return function(*arguments, **given, **{name: kind(**fields)})

    return called


def routed(who: Answering, providers: Providers) -> Models:
    """The models of a new run. Prints warnings about them."""
    found = providers.routing(
        provider=who.provider, roles=who.roles, model=who.model, budget=who.max_budget_usd, seconds=who.max_time
    )
    warn_of_unknown_prices(found, providers)
    return found


def chosen(who: Answering, recorded: Models) -> Models | None:
    """The models of a run that goes on: what the flags say, else what it recorded; None if they say nothing."""
    if not any(who):
        return None
    return replace(
        recorded,
        default=who.provider or recorded.default,
        roles={**recorded.roles, **who.roles},
        model=who.model or recorded.model,
        maxBudgetUsd=who.max_budget_usd or recorded.maxBudgetUsd,
        typedBudget=bool(who.max_budget_usd) or recorded.typedBudget,
        maxTimeSec=who.max_time or recorded.maxTimeSec,
        typedTime=bool(who.max_time) or recorded.typedTime,
    )


def warn_of_unknown_prices(models: Models, providers: Providers) -> None:
    """Warn if there is a budget and a model has no known price: its calls do not count against the budget."""
    for agent in ("", *models.roles):
        choice = providers.choice_for(models, agent, agent) if models.spec(agent, agent) else None
        if choice and models.maxBudgetUsd is not None and providers.price(choice) is None:
            what = f"no price is known for {choice.model or 'the model of ' + choice.spec}"
            click.echo(f"orchestra: {what}: the budget cannot hold (add budget.prices)", err=True)


def clean(text: str) -> str:
    """Text from a command line as valid Unicode: undecodable bytes become `?`."""
    return utf8(text).decode()


def split_check(command: str) -> tuple[str, ...]:
    """A check command as argv."""
    text = clean(command)
    try:
        argv = tuple(shlex.split(text))
        # not in POSIX mode, so that quoted words keep their quotes
        words = shlex.shlex(text, punctuation_chars=_OPERATORS)
        words.whitespace_split = True
        operators = [word for word in words if set(word) <= set(_OPERATORS)]
    except ValueError as error:
        raise UsageError(f"--check {command!r} cannot be split into words: {error}") from error
    if not argv:
        raise UsageError("--check is empty; give a command, e.g. --check 'pytest -q'")
    if operators:
        note = f"--check {command!r}: no shell runs it, so {operators[0]!r} is a plain word to {argv[0]}"
        click.echo(f"orchestra: {note}. If a shell is meant: --check \"sh -c '…'\"", err=True)
    return argv
