"""`orchestra orchestrate`: a team works on a task."""

from __future__ import annotations

import click
from msgspec.structs import replace

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.driving import Drive
from orchestra.cli.team import has_tests
from orchestra.core.errors import UsageError
from orchestra.runs.lineage import lineage_of
from orchestra.workflows.team.check import untested
from orchestra.workflows.team.shapes import Job
from orchestra.workflows.team.workflow import TEAM, given_of, job_of_files


@click.command(short_help="Have a team of agents work on a task.")
@click.argument("team")
@click.argument("task")
@click.option(
    "--input-run",
    metavar="RUN",
    help="A completed run of a team: this run begins with its artifacts, edited or not. That run is not changed.",
)
@options.models
@options.driving
def orchestrate(team: str, task: str, input_run: str | None, who: options.Answering, how: options.Driving) -> int:
    """Have TEAM (orchestrators/TEAM.md) work on TASK (tasks/TASK.md), phase by phase.

    Several agents of a phase draft in parallel, review each other and revise, at most twice. Their files are in
    artifacts/ of the run's folder. `orchestra team check TEAM TASK` shows beforehand what will happen.

    \b
    orchestra orchestrate planning-team blog-project
    orchestra orchestrate dev-team blog-project --input-run 2026-02-24_001_planning-team_blog-project
    orchestra orchestrate planning-team blog-project --role research=anthropic --no-input --json
    """
    drive = Drive(how)
    app = drive.app
    models = options.routed(who, app.project.providers)
    job = job_of_files(app.project, team, task)
    if not has_tests(app.project) and (missing := next(untested(job.definition.team), "")):
        raise UsageError(missing)  # before the phases before it are paid
    if input_run is not None:
        job = _with_files_of(app, input_run, job)
    return drive.drive(lambda: app.start(TEAM.name, job, models))


def _with_files_of(app: App, input_run: str, job: Job) -> Job:
    """The job with the files of an earlier run (S4-57); UsageError if that is no completed run of a team (S4-61)."""
    if not input_run.strip():  # an empty variable of a shell script: the team would begin with nothing
        raise UsageError("--input-run is empty: name a completed run (orchestra runs lists all runs)")
    app.again.brought_in(input_run)
    folder = app.runs.find(input_run)
    summary = app.runs.summary(folder)
    if summary.workflow != TEAM.name:
        raise UsageError(f"--input-run: {folder.id} is a run of {summary.workflow}; a team begins with a team's files")
    files = [file.path for file in lineage_of(summary.events).files if file.inside == "run"]
    return replace(job, inputRun=folder.id, given=given_of(folder, files))
