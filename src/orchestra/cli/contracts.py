"""`orchestra contracts`: contract-driven development."""

from __future__ import annotations

import os
from typing import Any

import click

from orchestra.cli import options
from orchestra.cli.driving import Drive
from orchestra.cli.goals import goal_argument
from orchestra.policy.policy import ApprovalPolicy
from orchestra.workflows.contracts.shapes import Job
from orchestra.workflows.contracts.workflow import CONTRACTS, test_command

_EXAMPLE = 'orchestra contracts "XX 컨트롤러 구현해줘"'


@click.command(short_help="Build a request test first, from contracts.")
@goal_argument("request", _EXAMPLE)
@click.option(
    "--check",
    default=lambda: os.environ.get("ORCHESTRA_CHECK", ""),
    metavar="CMD",
    help="The command that runs the tests, split like a shell would, never run by one. Default: detected.",
)
@options.approval("a patch", default="always")
@options.context
@options.environment
@options.models
@options.driving
def contracts(
    request: str,
    check: str,
    approval: ApprovalPolicy | None,
    context: tuple[str, ...],
    environment: str,
    no_context: tuple[str, ...],
    who: options.Answering,
    how: options.Driving,
) -> int:
    """Build REQUEST test first: explore and plan, design each task, write the tests of each subtask, implement, verify.

    The contracts are YAML files under .claude/orchestrator/sessions/. You may edit them while the run waits or after
    it: `resume`, or `rerun --stale`, does again exactly what depends on them.

    \b
    orchestra contracts "XX 컨트롤러 구현해줘"
    orchestra contracts "add a currency converter" --check "pytest -q" --approval risk
    orchestra contracts @request.txt                         # the request is in a file; `-`: on standard input
    orchestra verify .claude/orchestrator/sessions/HASH/contracts/R1
    """
    drive = Drive(how, environment=environment)
    app = drive.app
    models = options.routed(who, app.project.providers)
    given: dict[str, Any] = {"test": options.split_check(check)} if check else {}
    given |= {"approval": approval} if approval else {}
    usual = CONTRACTS.defaults(app.project)
    given |= {"context": options.from_project(context, how.project), "hidden": no_context}
    job = Job(request=options.clean(request).strip(), **{**usual, **given})
    command = test_command(app.project, job)
    click.echo(f"orchestra: tests: {command.line} ({command.origin})", err=True)
    typed = ("approval",) if approval else ()
    return drive.drive(lambda: app.start(CONTRACTS.name, job, models, typed=typed))
