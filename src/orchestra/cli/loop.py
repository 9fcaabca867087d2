"""`orchestra loop`."""

from __future__ import annotations

import click
from msgspec import UNSET

from orchestra.cli import options
from orchestra.cli.driving import Drive
from orchestra.core.errors import UsageError
from orchestra.policy.policy import ApprovalPolicy
from orchestra.workflows.evidence.workflow import EVIDENCE
from orchestra.workflows.loop.shapes import EDITION, Job


@click.command(short_help="Reach a goal by patches.")
@click.argument("goal")
@options.checks(
    "A command that must exit 0, split like a shell would, never run by one. Repeatable.", variable="ORCHESTRA_CHECK"
)
@options.approval("a patch", default="always")
@options.max_fixes("How many fixes at most (default: 3).", variable="ORCHESTRA_MAX_FIXES")
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
    orchestra loop "..." --check "..." --no-input --json     # headless; answer from another terminal
    """
    drive = Drive(how, environment=environment)
    app = drive.app
    models = options.routed(who, app.project.providers)
    defaults = app.project.config.loop
    job = Job(
        goal=_goal(goal),
        checks=tuple(map(options.split_check, checks or defaults.checks)),
        approval=approval or defaults.approval,
        maxFixIterations=defaults.max_fix_iterations if max_fixes is None else max_fixes,
        evaluator=defaults.evaluator,
        timeoutMs=defaults.timeout_ms,
        checkTimeoutMs=defaults.check_timeout_ms,
        retries=app.project.config.retries.max,
        backoffSec=app.project.config.retries.backoff_base_sec,
        context=context,
        baseline=defaults.baseline and not no_baseline,
        edition=EDITION,
        hidden=no_context,
        explore=EVIDENCE.name if explore else UNSET,
    )
    typed = ("approval",) if approval else ()
    return drive.drive(lambda: app.start("loop", job, models, typed=typed))


def _goal(text: str) -> str:
    goal = options.clean(text).strip()
    if not goal:
        raise UsageError(
            'the goal is empty; say what to reach: orchestra loop "fix the failing test" --check "pytest -q"'
        )
    return goal
