"""`orchestra team check`: what a team will do, before anything is paid; and the sample teams of `orchestra init`.

`team check` calls no model and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.text import echo_lines, print_json, safe, safe_painted
from orchestra.core.cells import table
from orchestra.core.errors import UsageError
from orchestra.core.records import Role
from orchestra.core.text import count
from orchestra.providers.choose import Models, Providers
from orchestra.workflows.contracts.testcommand import detect
from orchestra.workflows.project import Project
from orchestra.workflows.team.check import Forecast, Limit, PhasePart, forecast
from orchestra.workflows.team.definitions import FOLDER, MOST_ROUNDS
from orchestra.workflows.team.load import Loaded, load_team, team_names
from orchestra.workflows.team.samples import write_sample

_MODES = {"solo": "one agent alone", "turns": f"drafts, reviews, revisions; at most {MOST_ROUNDS} rounds"}


def write_sample_teams(project: Path) -> int:
    """`orchestra init --team`: write the sample, and print what was written and what was there."""
    opened = App(project).project
    written = write_sample(opened.path, opened.config.team)
    for path in written.new:
        click.echo(f"wrote {path}")
    for path in written.there:
        click.echo(f"kept {path}: it was there already")
    click.echo("next: orchestra team check planning-team blog-project")
    return 0


@click.group()
def team() -> None:
    """Teams of agents that are defined in Markdown (docs/teams.md)."""


@team.command(short_help="What a team will do, and what is wrong with its files.")
@click.argument("name", required=False, metavar="[TEAM]")
@click.argument("task", required=False, metavar="[TASK]")
@options.json_of("One JSON object per team, fault and missing file.")
@options.models
@options.project
def check(name: str | None, task: str | None, as_json: bool, who: options.Answering, project: Path) -> int:
    """What TEAM will do: phases, reviews, files, calls and their cost at most. Without TEAM: all teams.

    \b
    orchestra team check
    orchestra team check planning-team blog-project

    No model is called. What is wrong with the files is printed as PATH:LINE, and the exit code is 2.
    """
    app = App(project)
    section = app.project.config.team
    names = [name] if name else team_names(app.project.path, section)
    if not names:
        raise UsageError(f"there is no team in {section.orchestrators}; for a sample: orchestra init --team")
    models = options.routed(who, app.project.providers)
    code = 0
    for one in names:
        loaded = load_team(app.project.path, section, one, task or "")
        if loaded.definition is None:
            code = 2
            _show_faults(loaded, as_json=as_json)
            continue
        found = forecast(
            loaded.definition,
            lambda agent, role: _limit(app.project.providers, models, agent, role),
            checks=bool(app.project.config.loop.checks),
            tests=has_tests(app.project),
            models=app.project.providers.names,
        )
        if as_json:
            print_json(found)
        else:
            echo_lines(map(safe_painted, _lines(found)))
    return code


def has_tests(project: Project) -> bool:
    """Whether the project has a test command: a configured one, or one that its files tell."""
    return bool(project.config.contracts.test) or detect(project.workspace) is not None


def _limit(providers: Providers, models: Models, agent: str, role: Role) -> Limit | None:
    """What a call of this agent may cost; None if its model, or its price, is unknown."""
    try:
        price, longest = providers.limits(providers.choice_for(models, agent, role))
    except UsageError:  # no model is configured
        return None
    return Limit(price, longest) if price else None


def _show_faults(loaded: Loaded, *, as_json: bool) -> None:
    if as_json:
        for missing in loaded.missing:
            print_json({"type": "missing", "path": missing.path, "what": missing.what})
        for fault in loaded.faults:
            print_json({"type": "fault", "path": fault.path, "line": fault.line, "what": str(fault)})
        return
    for line in loaded.told():
        click.echo(safe(line), err=True)


def _lines(found: Forecast) -> Iterator[str]:
    """A forecast for people."""
    yield click.style(f"{found.team} on {found.task}" if found.task else found.team, bold=True)
    for phase in found.phases:
        builds = f"a `{phase.mode}` run builds in a copy of the project, then its agent writes"
        yield f"phase {phase.phase}: {phase.mode} ({_MODES.get(phase.mode, builds)})"
        yield from (f"  {line}" for line in table(("agent", "makes", "from"), _rows(phase), whole=True)[1:])
        for review in phase.reviews:
            yield f"  {review.reviewer} reviews {review.target.removeprefix(FOLDER)}: {review.file}"
    yield _calls(found)
    for note in found.notes:
        yield click.style(f"! {note}", fg="yellow")
    yield f"next: orchestra orchestrate {found.team} {found.task or 'TASK'}"


def _rows(phase: PhasePart) -> Iterator[tuple[str, str, str]]:
    for part in phase.agents:
        makes = ", ".join(path.removeprefix(FOLDER) for path in part.makes) or "nothing"
        inputs = (
            one.path.removeprefix(FOLDER) + (f" ({one.state})" if one.state != "ready" else "") for one in part.inputs
        )
        yield part.agent, f"makes {makes}", f"from {listed}" if (listed := ", ".join(inputs)) else ""


def _calls(found: Forecast) -> str:
    least, most = found.calls_least, found.calls_most
    number = count(most, "call") if least == most else f"{least} to {most} calls"
    children = "".join(f", and those of a {mode} run" for mode in found.child_runs)
    cost = found.cost_usd_most
    price = "their price is not known" if cost is None else f"at most ${cost:.2f}"
    return f"{number} without retries{children}; {price}"
