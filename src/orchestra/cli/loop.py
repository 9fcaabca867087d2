"""`orchestra loop`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import msgspec
from msgspec import UNSET

from orchestra.cli import options, which
from orchestra.cli.driving import Drive
from orchestra.cli.goals import goal_argument
from orchestra.cli.runs import status_text
from orchestra.core.errors import UsageError
from orchestra.core.faces import Notice
from orchestra.core.reading import job_of
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.core.text import brief
from orchestra.policy.policy import ApprovalPolicy
from orchestra.providers.choose import Models
from orchestra.runs.find import RunSummary, number_text
from orchestra.runs.following import told
from orchestra.workflows.evidence.workflow import EVIDENCE
from orchestra.workflows.loop.shapes import EDITION, Job, earlier_notes
from orchestra.workflows.loop.workflow import LOOP
from orchestra.workflows.worktree.shapes import WorktreeJob
from orchestra.workflows.worktree.workflow import WORKTREE

# What a run that follows another does not take over; not the approval mode either, which a person typed for that run.
_OF_THE_RUN = ("goal", "notes", "plan", "asker", "edition", "explore", "approval")
_OF_THE_MODELS = ("context", "hidden")  # what the models of a run are shown, and what not


_LOOKED, _GOAL = 10, 60  # the newest runs that may be at work beside a new one; characters of a goal

_worktree = click.option(
    "--worktree",
    is_flag=True,
    help="Work in a copy of the project. Only the result comes to your files, as one patch that you approve. So several"
    " runs can work at once.",
)


@click.command(short_help="Reach a goal by patches.")
@goal_argument("goal", 'orchestra loop "fix the failing test" --check "pytest -q"')
@options.checks(
    "A command that must exit 0, split like a shell would, never run by one. Repeatable.", variable="ORCHESTRA_CHECK"
)
@options.approval("a patch", default="always")
@options.max_fixes("How many fixes at most (default: 3).", variable="ORCHESTRA_MAX_FIXES")
@click.option("--explore", is_flag=True, help="Before the plan, have the evidence loop find the facts and files.")
@click.option("--no-baseline", is_flag=True, help="Do not run the checks before the plan.")
@_worktree
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
    worktree: bool,
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
        checks=tuple(map(options.split_check, checks or defaults.checks)),
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
    return _started(drive, job, models, worktree, typed=typed)


def _started(drive: Drive, job: Job, models: Models, worktree: bool, *, typed: tuple[str, ...], after: str = "") -> int:
    """Start the loop, in a worktree or in the project itself, and drive it. `after` is the run that it follows."""
    inside = _in_worktree(drive, job, models) if worktree else None
    name, work = (WORKTREE.name, inside) if inside else (LOOP.name, job)
    app, beside = drive.app, () if inside else tuple(drive.app.runs.open_of(LOOP.name, _LOOKED))

    def make() -> RunFolder:
        folder = app.start(name, work, models, typed=typed, follows=after)
        for other in beside:
            status = status_text(other, other.fold.state.status, at_rest=not other.driven)
            what = f"run {number_text(other.facts.number)} works on these files too ({status})"
            app.face.tell(Notice(folder.id, f"{what}: {brief(other.facts.goal, _GOAL)}. --worktree keeps runs apart"))
        return folder

    return drive.drive(make)


def _in_worktree(drive: Drive, job: Job, models: Models) -> WorktreeJob:
    """The loop as the work of a run in a worktree. What a start would refuse is refused now."""
    drive.ask_consent()
    job, _ = drive.app.check(LOOP.name, job, models)
    params = msgspec.to_builtins(msgspec.structs.replace(job, approval="never"))  # the result is approved
    work = {name: value for name, value in params.items() if name not in LOOP.reserved}
    return WorktreeJob(LOOP.name, job.goal, work, job.approval, job.context, job.hidden)


@click.command(short_help="Go on from a finished run with another goal.")
@options.run_then("goal", "GOAL", numbers=False)
@options.checks("A command that must exit 0 (default: the checks of RUN). Repeatable.")
@options.approval("a patch", default="the configuration's", variable=None)
@options.max_fixes("How many fixes at most (default: as RUN).")
@_worktree
@options.models
@options.driving
def more(
    run: str | None,
    goal: str,
    checks: tuple[str, ...],
    approval: ApprovalPolicy | None,
    max_fixes: int | None,
    worktree: bool,
    who: options.Answering,
    how: options.Driving,
) -> int:
    """Reach another GOAL after RUN, which has ended: a new loop that knows what RUN was for and what it changed.

    \b
    orchestra more last "now also handle negative numbers"
    orchestra more last "and document it" --check "pytest -q" --check "mkdocs build"
    """
    drive = Drive(how)
    app = drive.app
    before = app.runs.vouched_root(which.newest(app, run))
    if (status := before.fold.state.status) not in FINAL.values():
        raise UsageError(f"run {before.folder.id} is {status}: it has not ended. orchestra resume {before.folder.id}")
    given = {"checks": tuple(map(options.split_check, checks)), "approval": approval, "maxFixIterations": max_fixes}
    params = _job_before(before)
    kept = {name: value for name, value in params.items() if name not in _OF_THE_RUN}
    wishes = {name: value for name, value in given.items() if value not in (None, ())}
    notes = (*earlier_notes(params), *told(before, app.trees.changes.net(before.folder), app.project.redactor))
    job = app.job(LOOP.name, {**kept, **wishes, "goal": _goal(goal), "notes": notes})
    recorded = app.terms.models(before.folder, before.created)
    models = options.chosen(who, recorded) or recorded
    typed = ("approval",) if approval else ()
    return _started(drive, job, models, worktree, typed=typed, after=before.folder.id)


def _job_before(run: RunSummary) -> Mapping[str, Any]:
    """What a next loop takes over of a run's job. Of a job of another kind: which files its models were shown."""
    job = job_of(run.created)
    if run.workflow == WORKTREE.name:
        return msgspec.convert(job, WorktreeJob).params  # the work is a loop
    return job if run.workflow == LOOP.name else {name: job[name] for name in _OF_THE_MODELS if name in job}


def _goal(text: str) -> str:
    goal = options.clean(text).strip()
    if not goal:
        raise UsageError(
            'the goal is empty; say what to reach: orchestra loop "fix the failing test" --check "pytest -q"'
        )
    return goal
