"""Commands by which a person vouches: trust (for a project's configuration), adopt (for a run of another user)."""

from __future__ import annotations

from pathlib import Path

import click

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.advice import command
from orchestra.cli.asking import agrees, can_ask, confirmed, tell
from orchestra.cli.text import safe
from orchestra.config.consent import TRUST
from orchestra.core.errors import NoConsent, PolicyError, UsageError
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.runs import adopt as adopting
from orchestra.runs.answers import who


@click.command()
@click.option("--yes", is_flag=True, help="Agree without being asked.")
@click.option("--revoke", is_flag=True, help="Take it back.")
@click.option("--show", is_flag=True, help=f"Only show the lines and their digest, which {TRUST} takes.")
@options.project
def trust(yes: bool, revoke: bool, show: bool, project: Path) -> int:
    """Agree to what this project's configuration asks for beyond the defaults.

    Servers that get a key, programs, a weaker sandbox, the network, folders outside the project, passed variables,
    fewer questions: such lines apply only after you agreed. Your consent is kept outside the project, for this folder
    and exactly these lines.
    """
    if yes + revoke + show > 1:
        raise UsageError("--yes, --revoke and --show are three different wishes; give one")
    app = App(project)
    consent = app.project.consent
    if revoke:
        gone = consent.revoke()
        done = "your consent is taken back" if gone else "there was no consent to take back"
        click.echo(f"{app.project.path}: {done}")
        return 0
    if not consent.lines:
        click.echo(f"{app.project.path}: its configuration asks for nothing beyond the defaults; nothing to agree to")
        return 0
    missing = consent.missing
    for line in tell(consent.lines, missing):
        click.echo(line)
    click.echo(f"digest: {consent.digest}")
    if show or not missing:
        click.echo("you agreed to all of it" if not missing else f"not agreed to: {len(missing)}")
        return 0
    if not yes and not agrees(consent, told=True):
        raise NoConsent(f"nothing was agreed to. To agree: {command(app, 'trust', '--yes')}")
    consent.agree(who())
    click.echo(f"{app.project.path}: agreed; take it back: {command(app, 'trust', '--revoke')}")
    return 0


@click.command()
@options.run_argument
@click.option("--yes", is_flag=True, help="Vouch for it without being asked.")
@options.project
def adopt(run: str, yes: bool, project: Path) -> int:
    """Vouch for RUN and its child runs, which your key did not make or which were made for another folder.

    The command first shows what the run is and what it would be allowed to do. That is never more than this project's
    configuration allows now. Answers that came with the run do not count: you are asked again.
    """
    app = App(project)
    folder = app.runs.find(run)
    foreign = adopting.candidates(app.project.store, app.runs, folder)
    if not foreign:
        click.echo(f"run {folder.id} needs no adoption: your key made it, or you adopted it, and it belongs here")
        return 0
    for one in foreign:
        for name, value in adopting.described(app.terms, one, app.project.path):
            click.echo(f"  {name:<16}{safe(value)}")
        click.echo("")
    question = "Do you vouch for it?" if len(foreign) == 1 else f"Do you vouch for these {len(foreign)} runs?"
    if not yes and not (can_ask(no_input=False) and confirmed(question)):
        raise PolicyError(f"nothing was adopted. To vouch for it: {command(app, 'adopt', folder.id, '--yes')}")
    adopting.adopt(app.project, foreign)
    click.echo(f"adopted {folder.id}; {_next(app, folder)}")
    return 0


def _next(app: App, folder: RunFolder) -> str:
    """What can be done with an adopted run: one that has ended cannot be resumed."""
    status = app.runs.summary(folder, keep=False).fold.state.status
    if status == "completed":
        return f"it is completed: {command(app, 'show', folder.id)}"
    verb = "retry" if status in FINAL.values() else "resume"
    return f"go on: {command(app, verb, folder.id)}"
