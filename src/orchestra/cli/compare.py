"""`orchestra compare`: two runs of one team and task side by side."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.completing import run_names
from orchestra.cli.text import echo_lines, paint_diff, print_json, safe
from orchestra.core.cells import aligned
from orchestra.workflows.team.comparing import Side, diff, file_line, rows
from orchestra.workflows.team.comparing import compare as compared


@click.command()
@click.argument("first", metavar="RUN", shell_complete=run_names)
@click.argument("second", metavar="RUN", shell_complete=run_names)
@click.option("--diff", "with_diff", is_flag=True, help="Show the lines of the artifacts that differ.")
@options.json_of("One JSON object on stdout.")
@options.project
def compare(first: str, second: str, with_diff: bool, as_json: bool, project: Path) -> int:
    """Compare two runs of one team and task: other prompts, other models, another day.

    Prints their numbers side by side, and for each artifact the number of lines that differ.

    \b
    orchestra compare 2026-02-24_001_planning-team_blog-project 2026-02-24_002_planning-team_blog-project
    orchestra compare RUN RUN --diff
    """
    app = App(project)
    one, other = _side(app, first), _side(app, second)
    found = compared(one, other)
    if as_json:
        print_json(msgspec.to_builtins(found))
        return 0
    click.echo(f"{found.team} on {found.task}")
    echo_lines(aligned(("", *(safe(run.runId) for run in found.runs)), list(rows(found)), whole=True))
    for file in found.artifacts:
        click.echo(safe(file_line(file)))
        if with_diff and file.status != "same":
            echo_lines(paint_diff("\n".join(diff(file.path, one, other))))
    return 0


def _side(app: App, run: str) -> Side:
    summary = app.runs.summary(app.runs.find(run))
    return summary.folder, summary.events
