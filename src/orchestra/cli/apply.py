"""`orchestra apply`: write a run's result as a commit."""

from __future__ import annotations

import time

import click
import msgspec

from orchestra.app import App
from orchestra.cli import options, which
from orchestra.cli.driving import Drive
from orchestra.cli.face import JsonFace, QuietFace
from orchestra.cli.text import safe
from orchestra.cli.undo import refuse_half_applied
from orchestra.core.errors import UsageError
from orchestra.core.reading import job_of
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.core.text import brief
from orchestra.core.work import CommitTo
from orchestra.providers.choose import Models
from orchestra.workflows.commit.shapes import Job
from orchestra.workflows.commit.workflow import COMMIT

TRAILER = "Orchestra-Run"
_SUBJECT = 72


@click.command()
@options.run_or_default
@click.option(
    "--branch", default="", metavar="NAME", help="Make this branch, with one commit on top of where RUN began."
)
@click.option("--commit", "here", is_flag=True, help="Commit to the branch that is checked out.")
@click.option("-m", "--message", default="", metavar="TEXT", help="The commit's message (default: the goal of RUN).")
@options.driving
def apply(run: str | None, branch: str, here: bool, message: str, how: options.Driving) -> int:
    """Write what RUN and its child runs changed as one commit, in your name, with the run's id in its message.

    --branch makes a new branch; your files and the branch that is checked out stay as they are. --commit adds the
    commit to the branch that is checked out, if your files still have the run's changes; other changes of yours stay
    uncommitted. Without RUN, the only run that has left changes is meant. git itself is not started: no hook, filter
    or setting of the repository is used. Your name comes from GIT_AUTHOR_NAME and GIT_AUTHOR_EMAIL, or from your own
    git configuration.

    \b
    orchestra apply last --branch fix/add
    orchestra apply last --commit
    """
    if bool(branch) == here:
        raise UsageError("say where the commit goes: --branch NAME (a new branch), or --commit (the one checked out)")
    drive = Drive(how, face=None if how.as_json else QuietFace())
    drive.refuse_detached("a commit")
    app = drive.app
    name = options.clean(branch)
    folder = which.changed(app, run, "apply", *(("--branch", name) if name else ("--commit",)))
    root = app.runs.vouched_root(folder).folder
    begun = _cut_short(app, folder, name)
    to = None if begun else _target(app, folder, name, options.clean(message))
    drive.ask_consent()
    with app.project.store.claim(root):  # nobody goes on with the run meanwhile
        refuse_half_applied(app, folder)
        end, made = drive.finish(lambda: begun or _start(app, folder, to), known=begun is not None)
    if isinstance(drive.face, JsonFace) or end.status not in FINAL.values():
        drive.face.done(end, made)
    elif end.status == "completed":
        click.echo(safe(COMMIT.printed(end.result)))
    else:
        click.echo(f"orchestra: {safe(end.message)}", err=True)
    return end.exit_code


def _cut_short(app: App, folder: RunFolder, branch: str) -> RunFolder | None:
    """The apply of this run to the same place that a kill cut short: it is gone on with."""
    for other in reversed(app.trees.changes.history(folder)[1:]):
        summary = app.runs.summary(other, keep=False)
        if summary.workflow == COMMIT.name and summary.fold.state.status not in FINAL.values():
            job = msgspec.convert(job_of(summary.created), Job)
            if job.run == folder.id and job.to and (job.to.branch == branch if branch else job.to.checkedOut):
                return other
    return None


def _start(app: App, folder: RunFolder, to: CommitTo | None) -> RunFolder:
    runs = tuple(one.id for one in app.trees.changes.history(folder))
    return app.start(COMMIT.name, Job(folder.id, runs, to), Models())


def _target(app: App, folder: RunFolder, branch: str, message: str) -> CommitTo:
    """Where the commit goes; UsageError if it cannot go there."""
    facts = app.runs.began(folder)
    place = app.project.commit_to(branch, facts.git.commit if facts.git else "")
    now = time.time()
    return CommitTo(
        branch=place.branch,
        parent=place.parent,
        checkedOut=not branch,
        name=place.who.name,
        email=place.who.email,
        seconds=int(now),
        zone=time.localtime(now).tm_gmtoff,
        message=_message(message or facts.goal, folder.id),
    )


def _message(text: str, run_id: str) -> str:
    """The text, its first line short enough for lists of commits, and a trailer with the run's id."""
    first, _, rest = text.strip().partition("\n")
    subject = brief(first, _SUBJECT) or run_id
    body = "\n\n".join(part for part in ("" if subject == first else first, rest.strip()) if part)
    return "\n\n".join(part for part in (subject, body, f"{TRAILER}: {run_id}") if part) + "\n"
