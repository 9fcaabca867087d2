"""`orchestra dag`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.driving import Drive
from orchestra.cli.goals import goal_argument
from orchestra.cli.text import print_json
from orchestra.core.errors import UsageError
from orchestra.policy.policy import ApprovalPolicy, Policy
from orchestra.workflows.dag.shapes import planner_prompt
from orchestra.workflows.dag.workflow import configured_job


@click.command(short_help="Reach a goal by a graph of sandboxed tools.")
@goal_argument("intent", 'orchestra dag "list the licences in a table"')
@click.option("--plan-only", is_flag=True, help="Only make the plan: plan.json, to be edited and given to --plan.")
@click.option(
    "--plan",
    "plan_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Carry out this plan (a plan.json, or an array of tasks) instead of asking for one.",
)
@click.option(
    "--max-depth",
    type=click.IntRange(1, 3),
    default=3,
    help="How many levels act: 1 only prints what the planner would be asked, 2 is --plan-only, 3 runs the tasks.",
)
@click.option("--dry-run", is_flag=True, help="Go through the plan without running anything.")
@click.option("--replan/--no-replan", default=None, help="After a failure, ask once for a new plan of what is left.")
@options.approval("a plan or a change", default="risk")
@click.option("--retries", type=click.IntRange(0, 100), help="How often a failed task is tried again (default: 2).")
@click.option("--concurrency", type=click.IntRange(1, 256), help="How many tasks run at once (default: 4).")
@options.context
@options.environment
@options.models
@options.driving
def dag(
    intent: str,
    plan_only: bool,
    plan_file: Path | None,
    max_depth: int,
    dry_run: bool,
    replan: bool | None,
    approval: ApprovalPolicy | None,
    retries: int | None,
    concurrency: int | None,
    context: tuple[str, ...],
    environment: str,
    no_context: tuple[str, ...],
    who: options.Answering,
    how: options.Driving,
) -> int:
    """Reach INTENT by a graph of tasks: a plan, whitelisted tools in a sandbox, in parallel, with retries; a report.

    \b
    orchestra dag "find the licences of this repository and make a table"
    orchestra dag "..." --plan-only               # see and edit plan.json first
    orchestra dag "..." --plan plan.json          # carry out a plan of your own; no model is needed
    """
    drive = Drive(how, environment=environment)
    app = drive.app
    models = options.routed(who, app.project.providers)
    usual = configured_job(app.project, intent)
    job = msgspec.structs.replace(
        usual,
        policy=_policy(app, retries, concurrency),
        plan=read_plan(plan_file, "--plan") if plan_file is not None else None,
        approval=approval or usual.approval,
        planOnly=plan_only or max_depth == 2,
        dry=dry_run,
        replan=usual.replan if replan is None else replan,
        maxWorkers=concurrency or usual.maxWorkers,
        retries=usual.retries if retries is None else retries,
        context=options.from_project(context, how.project),
        hidden=no_context,
        source=str(plan_file) if plan_file is not None else usual.source,
    )
    if max_depth == 1:
        if plan_file is not None:
            raise UsageError("--max-depth 1 prints what the planner would be asked; with --plan nobody is asked")
        print_json(planner_prompt(job))
        return 0
    given = {"approval": approval, "max_retries": retries, "max_workers": concurrency}
    typed = tuple(name for name, value in given.items() if value is not None)
    return drive.drive(lambda: app.start("dag", job, models, typed=typed))


def _policy(app: App, retries: int | None, concurrency: int | None) -> Policy:
    """The configured policy, with the flags' values. A person's flag may also raise these two limits."""
    return msgspec.structs.replace(
        app.project.policy,
        max_retries=app.project.policy.max_retries if retries is None else retries,
        max_workers=concurrency or app.project.policy.max_workers,
    )


def read_plan(path: Path, name: str) -> str:
    """The text of a plan file; `name` is the path as the person typed it."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"{name} {path}: there is no such file (orchestra dag --plan-only makes one)") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} {path} is not UTF-8 text (byte {error.start})") from error
    except IsADirectoryError:
        raise UsageError(f"{name} {path} is a folder; name the file in it, e.g. {path / 'plan.json'}") from None
    except OSError as error:
        raise UsageError(f"{name} {path}: {error.strerror}") from error


run = dag  # S2's name for the command
