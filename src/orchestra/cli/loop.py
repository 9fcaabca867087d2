"""`orchestra loop`."""

from __future__ import annotations

import os
import shlex

import click
from msgspec import UNSET

from orchestra.cli import options
from orchestra.cli.driving import Drive
from orchestra.cli.goals import goal_argument
from orchestra.core.errors import UsageError
from orchestra.policy.policy import ApprovalPolicy
from orchestra.workflows.evidence.workflow import EVIDENCE
from orchestra.workflows.loop.shapes import EDITION, Job

_OPERATORS = "|&;<>"  # operators of a shell


@click.command(short_help="Reach a goal by patches.")
@goal_argument("goal", 'orchestra loop "fix the failing test" --check "pytest -q"')
@click.option(
    "--check",
    "checks",
    multiple=True,
    default=lambda: filter(None, [os.environ.get("ORCHESTRA_CHECK")]),  # one command; click would split it at spaces
    metavar="CMD",
    help="A command that must exit 0, split like a shell would, never run by one. Repeatable.",
)
@options.approval("a patch", default="always")
@click.option(
    "--max-fixes",
    type=click.IntRange(0, 100),
    envvar="ORCHESTRA_MAX_FIXES",
    help="How many fixes at most (default: 3).",
)
@click.option("--explore", is_flag=True, help="Before the plan, have the evidence loop find the facts and files.")
@click.option("--no-baseline", is_flag=True, help="Do not run the checks before the plan.")
@options.context
@options.environment
@options.models
@options.driving
def loop(
    goal: str,
    checks: tuple[str, ...],
    approval: ApprovalPolicy | None,
    max_fixes: int | None,
    explore: bool,
    no_baseline: bool,
    context: tuple[str, ...],
    environment: str,
    no_context: tuple[str, ...],
    who: options.Answering,
    how: options.Driving,
) -> int:
    """Reach GOAL by patches: plan, patch, approval, checks, fix or ask, until the checks pass.

    \b
    orchestra loop "make the tests pass" --check "pytest -q"
    orchestra loop "add a --quiet flag" --check "pytest -q" --check "ruff check ." --approval risk
    orchestra loop @goal.txt --check "pytest -q"             # the goal is in a file; `-`: on standard input
    orchestra loop "..." --check "..." --no-input --json     # headless; answer from another terminal
    """
    drive = Drive(how, environment=environment)
    app = drive.app
    models = options.routed(who, app.project.providers)
    defaults = app.project.config.loop
    job = Job(
        goal=goal,
        checks=tuple(map(split_check, checks or defaults.checks)),
        approval=approval or defaults.approval,
        maxFixIterations=defaults.max_fix_iterations if max_fixes is None else max_fixes,
        evaluator=defaults.evaluator,
        timeoutMs=defaults.timeout_ms,
        checkTimeoutMs=defaults.check_timeout_ms,
        retries=app.project.config.retries.max,
        backoffSec=app.project.config.retries.backoff_base_sec,
        context=options.from_project(context, how.project),
        baseline=defaults.baseline and not no_baseline,
        edition=EDITION,
        hidden=no_context,
        explore=EVIDENCE.name if explore else UNSET,
    )
    typed = ("approval",) if approval else ()
    return drive.drive(lambda: app.start("loop", job, models, typed=typed))


def split_check(command: str) -> tuple[str, ...]:
    """A check command as argv."""
    text = options.clean(command)
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
