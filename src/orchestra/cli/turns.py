"""One turn of a session: the rules of taking turns, for every command that talks in one.

Rules
1. A session is held by one process from before its turn begins until it ends; another one gets exit code 7 at once,
   and nothing is recorded. A turn that another process drives (`answer`, `resume`) holds it too.
2. If the turn before waits for a person, nothing is recorded: exit code 3, with the question.
3. If the turn before was killed, it is finished first, and that is told. What it ends with is in the session then.
4. The memory of a turn is what the turn before saved. It is in the job of its run: later edits of the session's file
   change nothing in it.
5. A turn that ended without an answer (stopped by the person, or failed) saved nothing. Its message is remembered all
   the same, so that "go on" and "try again" mean something to the next turn's models.
"""

from __future__ import annotations

import click
import msgspec
from msgspec.structs import replace

from orchestra.app import App
from orchestra.cli.advice import answer_lines
from orchestra.cli.driving import Drive
from orchestra.cli.text import safe
from orchestra.core.reading import RunCreated, job_of
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.providers.choose import Models
from orchestra.workflows.evidence.memory import Message
from orchestra.workflows.evidence.sessions import Sessions, Turn, in_use
from orchestra.workflows.evidence.shapes import Job, begin
from orchestra.workflows.evidence.workflow import EVIDENCE, sessions_of

NO_ANSWER = "(no answer: this turn was stopped, or failed)"


def take_turn(drive: Drive, session: str, job: Job, models: Models) -> int:
    """Begin a turn of a session with this job and drive it; returns the exit code."""
    drive.refuse_detached("the turn of a session")
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
        return drive.drive(lambda: begin_turn(app, sessions, session, job, models))


def begin_turn(app: App, sessions: Sessions, session: str, job: Job, models: Models) -> RunFolder:
    """Start the run of the next turn of a session that this process holds and whose turn before is over."""
    found = sessions.open(session)
    turn = found.turn + 1 if found else 1
    told = replace(
        job,
        session=session,
        turn=turn,
        previous=found.runId if found else "",
        memory=_unanswered(app, sessions, session, turn) or (found.messages if found else ()),
    )
    sessions.begin_turn(session, Turn(turn))
    folder = app.start(EVIDENCE.name, told, models)
    sessions.begin_turn(session, Turn(turn, folder.id))
    return folder


def _unanswered(app: App, sessions: Sessions, session: str, turn: int) -> tuple[Message, ...]:
    """The memory after a turn of this number that ended without an answer (rule 5); empty if there is none."""
    newest = sessions.newest_turn(session)
    run = app.runs.exactly(newest.runId) if newest and newest.runId and newest.turn == turn else None
    if run is None or (summary := app.runs.summary(run, keep=False)).foreign:
        return ()
    before = msgspec.convert(job_of(summary.created), Job)
    return (*begin(before).messages, Message("assistant", NO_ANSWER))


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
