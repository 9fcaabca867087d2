"""One turn of a session: the rules of taking turns, for every command that talks in one.

Rules
1. A session is held by one process from before its turn begins until it ends; another one gets exit code 7 at once,
   and nothing is recorded. A turn that another process drives (`answer`, `resume`) holds it too.
2. If the turn before waits for a person, nothing is recorded: exit code 3, with the question.
3. If the turn before was killed, it is finished first, and that is told. What it ends with is in the session then.
4. The memory of a turn is what the turn before saved. It is in the job of its run: later edits of the session's file
   change nothing in it.
"""

from __future__ import annotations

import click
from msgspec.structs import replace

from orchestra.app import App
from orchestra.cli.advice import answer_lines
from orchestra.cli.driving import Drive
from orchestra.cli.text import safe
from orchestra.core.reading import RunCreated, job_of
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.providers.choose import Models
from orchestra.workflows.evidence.sessions import Sessions, Turn, in_use
from orchestra.workflows.evidence.shapes import Job
from orchestra.workflows.evidence.workflow import EVIDENCE, sessions_of


def take_turn(drive: Drive, session: str, job: Job, models: Models) -> int:
    """Begin a turn of a session with this job and drive it; returns the exit code."""
    app = drive.app
    sessions = sessions_of(app.project)
    sessions.path(session)  # a wrong id is refused before anything is made
    drive.ask_consent()
    app.check(EVIDENCE.name, replace(job, session=session), models)
    with sessions.hold(session):
        before = unfinished(app, sessions, session)
        if before is not None:
            code = _finish(drive, session, before)
            if code is not None:
                return code
        found = sessions.open(session)
        turn = found.turn + 1 if found else 1
        told = replace(
            job,
            session=session,
            turn=turn,
            previous=found.runId if found else "",
            memory=found.messages if found else (),
        )

        def start() -> RunFolder:
            sessions.begin_turn(session, Turn(turn))
            folder = app.start(EVIDENCE.name, told, models)
            sessions.begin_turn(session, Turn(turn, folder.id))
            return folder

        return drive.drive(start)


def unfinished(app: App, sessions: Sessions, session: str) -> RunFolder | None:
    """The run of the session's newest turn, if it has not ended; RunLocked if another process drives it (rule 1)."""
    newest = sessions.newest_turn(session)
    if newest is None:
        return None
    run = app.runs.exactly(newest.runId) if newest.runId else _begun(app, session, newest.turn)
    if run is None or app.runs.summary(run).fold.state.status in FINAL.values():
        return None
    if app.project.store.is_driven(run):
        raise in_use(session)
    return run


def _begun(app: App, session: str, turn: int) -> RunFolder | None:
    """The run of a turn whose process was killed before it could write down the run's id."""
    for run in reversed(app.runs.folders()):
        created = app.runs.first_of(run.id)
        job = job_of(created)
        if RunCreated.of(created).workflow == EVIDENCE.name and job.get("session") == session:
            return run if job.get("turn") == turn else None
    return None


def _finish(drive: Drive, session: str, run: RunFolder) -> int | None:
    """Finish the turn before (rule 3); the exit code if it cannot be (rule 2), else None."""
    app = drive.app
    if _waits(app, session, run):
        return 3
    click.echo(f"orchestra: session {session}: the turn before ({run.id}) had stopped; it is finished first", err=True)
    end, _ = drive.finish(lambda: run, known=True)
    if end.status in FINAL.values():
        return None
    if not _waits(app, session, run):
        why = f": {safe(end.message)}" if end.message else ""
        click.echo(f"orchestra: session {session}: its turn {run.id} is not over{why}", err=True)
    return end.exit_code or 3


def _waits(app: App, session: str, run: RunFolder) -> bool:
    """Whether a turn waits for a person; if so, what for and how to answer is shown."""
    waiting = [one for one in app.trees.requests(run) if not one.answered]
    if waiting:
        click.echo(f"orchestra: session {session} waits for you; nothing was recorded. Answer first:", err=True)
    for line in answer_lines(app, run.id, waiting):
        click.echo(line, err=True)
    return bool(waiting)
