"""`orchestra compare`: two runs of one team and task side by side."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.completing import run_names
from orchestra.cli.text import echo_lines, print_json, safe
from orchestra.core.cells import aligned
from orchestra.workflows.team.comparing import Side, file_line, rows
from orchestra.workflows.team.comparing import compare as compared


@click.command()
@click.argument("first", metavar="RUN", shell_complete=run_names)
@click.argument("second", metavar="RUN", shell_complete=run_names)
@options.json_of("One JSON object on stdout.")
@options.project
def compare(first: str, second: str, as_json: bool, project: Path) -> int:
    """Compare two runs of one team and task: other prompts, other models, another day.

    Prints their numbers side by side, and for each artifact the number of lines that differ.

    \b
    orchestra compare 2026-02-24_001_planning-team_blog-project 2026-02-24_002_planning-team_blog-project
    """
    app = App(project)
    found = compared(_side(app, first), _side(app, second))
    if as_json:
        print_json(msgspec.to_builtins(found))
        return 0
    click.echo(f"{found.team} on {found.task}")
    echo_lines(aligned(("", *(safe(run.runId) for run in found.runs)), list(rows(found))))
    echo_lines(safe(file_line(file)) for file in found.artifacts)
    return 0


def _side(app: App, run: str) -> Side:
    summary = app.runs.summary(app.runs.find(run))
    return summary.folder, summary.events
