"""`orchestra sessions`: the conversations of a project.

Rules
1. A session's files are a view of its runs. Deleting a session deletes no run; `rebuild` makes the files again.
2. A session whose turn is not over is neither renamed nor deleted: its run would write the old name.
3. A file that cannot be read is listed as damaged, and kept.
4. `rebuild` follows the runs from the newest turn back to the first. So it takes no run of an earlier session of the
   same name, which was deleted or renamed; and all runs of this one, which may have another name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import msgspec

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.text import echo_lines, print_json, safe
from orchestra.cli.turns import unfinished
from orchestra.core.cells import aligned
from orchestra.core.errors import DurabilityError, RunLocked, UsageError
from orchestra.core.reading import RunCreated, effect_of, job_of, outcome_as
from orchestra.core.run import RunFolder
from orchestra.core.text import brief, clean, count
from orchestra.runs.find import RunSummary
from orchestra.workflows.evidence.effects import Saved, SaveSession
from orchestra.workflows.evidence.memory import Message, answer_of
from orchestra.workflows.evidence.sessions import Session, Sessions, Told, Turn
from orchestra.workflows.evidence.workflow import EVIDENCE, sessions_of


@click.group(invoke_without_command=True)
@options.json_of("One JSON object per line.")
@options.project
@click.pass_context
def sessions(ctx: click.Context, as_json: bool, project: Path) -> int:
    """The sessions of this project. Without a command: list them.

    \b
    orchestra sessions
    orchestra sessions show s1
    orchestra sessions export s1 --format json > s1.json
    """
    return 0 if ctx.invoked_subcommand else _list(project, as_json)


@sessions.command(name="list")
@options.json_of("One JSON object per line.")
@options.project
def list_(as_json: bool, project: Path) -> int:
    """List the sessions: turns, when each was last used, what was said last."""
    return _list(project, as_json)


def _list(project: Path, as_json: bool) -> int:
    app = App(project)
    store = sessions_of(app.project)
    rows: list[tuple[str, str, str, str]] = []
    for name in store.ids():
        try:
            found, state = store.open(name), _state(app, store, name)
        except DurabilityError as damage:
            found, state = None, f"damaged: {damage}"
        turns, used = (found.turn, found.updatedAt) if found else (0, "")
        if as_json:
            print_json({"type": "session", "id": name, "turns": turns, "updatedAt": used, "state": state})
        last = answer_of(found.messages) if found else ""
        rows.append((name, str(turns), used[:19], brief(state or last, 200)))
    if as_json:
        return 0
    if not rows:
        click.echo('no sessions here yet; begin one: orchestra chat:turn --session NAME --message "TEXT"')
    else:
        echo_lines(aligned(("session", "turns", "last used", "last answer"), rows))
    return 0


def _state(app: App, store: Sessions, name: str) -> str:
    """What is special about a session: in use, waiting, stopped; empty if it is at rest."""
    try:
        run = unfinished(app, store, name)
    except RunLocked:
        return "in use"
    if run is None:
        return ""
    return f"waits for you ({run.id})" if app.trees.requests(run) else f"its turn {run.id} is not over"


@sessions.command()
@click.argument("session")
@options.json_of("The session's file, as one JSON object.")
@options.project
def show(session: str, as_json: bool, project: Path) -> int:
    """Show every turn of SESSION: what was asked and what was answered."""
    _, store, found = _opened(project, session)
    if as_json:
        print_json(msgspec.to_builtins(found))
        return 0
    echo_lines(told_lines(finished_turns(store, found)))
    return 0


def told_lines(turns: Iterable[Told]) -> Iterator[str]:
    """Turns as lines for a person: what was asked and what was answered."""
    for one in turns:
        yield from (click.style(f"> {safe(one.goal)}", bold=True), f"{safe(one.answer)}\n")


@sessions.command()
@click.argument("session")
@click.option(
    "--format", "form", type=click.Choice(["markdown", "md", "json"]), default="markdown", help="What to print."
)
@options.project
def export(session: str, form: str, project: Path) -> int:
    """Print SESSION as a document: Markdown, or JSON with every turn and the memory."""
    _, store, found = _opened(project, session)
    turns = list(finished_turns(store, found))
    if form == "json":
        print_json({**msgspec.to_builtins(found), "turns": msgspec.to_builtins(turns)})
        return 0
    echo_lines(_markdown(found, turns))
    return 0


def _markdown(found: Session, turns: list[Told]) -> Iterator[str]:
    yield from (f"# Session {found.id}", "", f"{count(found.turn, 'turn')}, {found.createdAt} to {found.updatedAt}.")
    for one in turns:
        yield from ("", f"## {one.turn}. {brief(one.goal, 200)}", "")
        if len(one.goal) > 200 or "\n" in one.goal:
            yield from (*(f"> {line}" for line in clean(one.goal).splitlines()), "")
        yield from (clean(one.answer), "", f"Run `{clean(one.runId)}`.")


@sessions.command()
@click.argument("session")
@click.argument("new")
@options.project
def rename(session: str, new: str, project: Path) -> int:
    """Give SESSION the name NEW."""
    app, store = _idle(project, session)
    with store.hold(session):
        _refuse_unfinished(app, store, session)
        store.rename(session, new)
    click.echo(f"{session} is now {new}", err=True)
    return 0


@sessions.command()
@click.argument("session")
@options.project
def delete(session: str, project: Path) -> int:
    """Delete SESSION: its memory and its turns. Its runs stay, until `orchestra clean` removes them."""
    app, store = _idle(project, session)
    with store.hold(session):
        _refuse_unfinished(app, store, session)
        store.delete(session)
    click.echo(f"{session} is deleted", err=True)
    return 0


@sessions.command()
@click.argument("session")
@options.project
def rebuild(session: str, project: Path) -> int:
    """Make SESSION's files again from its runs. A damaged file is kept under another name."""
    app = App(project)
    store = sessions_of(app.project)
    store.path(session)
    begun: dict[int, str] = {}  # the newest run of each turn, over or not
    saved: dict[int, tuple[Told, tuple[Message, ...]]] = {}
    for run in _runs(app, session, store):
        summary = app.runs.summary(run, keep=False)
        if summary.foreign:
            continue
        begun[int(job_of(summary.created)["turn"])] = run.id
        saved.update((told.turn, (told, messages)) for told, messages in _saved(run, summary))
    if not begun:
        raise UsageError(f"no run here belongs to a session {session!r}; its files cannot be made again")
    begun.update((number, told.runId) for number, (told, _) in saved.items())  # a fork of a turn saved nothing
    turns = [saved[number][0] for number in sorted(saved)]
    with store.hold(session):
        aside = store.restore(session, saved[max(saved)][1], turns) if saved else None
        store.restore_turn(session, Turn(max(begun), begun[max(begun)]))
    where = f"; the old file is {aside}" if aside else ""
    click.echo(f"{session}: {count(len(turns), 'turn')}, from its runs{where}", err=True)
    return 0


def _saved(run: RunFolder, summary: RunSummary) -> Iterator[tuple[Told, tuple[Message, ...]]]:
    """The turn that a run of the session saved, with the memory after it; nothing if the run saved none."""
    for event in summary.events.whole():
        saved = outcome_as(event, Saved) if effect_of(event) == SaveSession.__name__ else None
        if saved is not None and saved.saved:
            goal = str(job_of(summary.created).get("goal", ""))
            yield Told(saved.turn, run.id, goal, answer_of(saved.messages)), saved.messages


def _runs(app: App, session: str, store: Sessions) -> list[RunFolder]:
    """The runs of a session, each after the ones that it follows (rule 4)."""
    named = [folder for folder in app.runs.folders() if _is_named(app, folder, session)]
    back: dict[str, RunFolder] = {}
    run = _newest(app, session, store, named)
    while run is not None and run.id not in back:
        back[run.id] = run
        before = job_of(app.runs.first_of(run.id)).get("previous", "")
        run = app.runs.exactly(before) if before else None
    chain = dict(reversed(back.items()))
    for one in named:
        created = app.runs.first_of(one.id)
        origin = RunCreated.of(created).forkedFrom
        follows = job_of(created).get("previous") in chain or (origin is not None and origin.runId in chain)
        if one.id not in chain and follows and list(_saved(one, app.runs.summary(one, keep=False))):
            chain[one.id] = one  # such as the retry of a turn that was stopped
    return list(chain.values())


def _is_named(app: App, run: RunFolder, session: str) -> bool:
    """Whether a run is an evidence run that names this session."""
    created = app.runs.first_of(run.id)
    return RunCreated.of(created).workflow == EVIDENCE.name and job_of(created).get("session") == session


def _newest(app: App, session: str, store: Sessions, named: list[RunFolder]) -> RunFolder | None:
    """The run of a session's newest turn: by its note, else the newest that names the session and is no fork."""
    with contextlib.suppress(DurabilityError):  # the note is to be made again
        noted = store.newest_turn(session)
        if noted and noted.runId and (run := app.runs.exactly(noted.runId)) is not None:
            return run
    first = [one for one in named if RunCreated.of(app.runs.first_of(one.id)).forkedFrom is None]
    found = first or named
    return found[-1] if found else None


def _opened(project: Path, session: str) -> tuple[App, Sessions, Session]:
    app = App(project)
    store = sessions_of(app.project)
    found = store.open(store.require(session))
    if found is None:
        raise UsageError(f"session {session!r} has no finished turn yet")
    return app, store, found


def finished_turns(store: Sessions, found: Session) -> Iterator[Told]:
    """The turns that a session remembers, the oldest first."""
    return (one for one in store.turns(found.id) if one.turn <= found.turn)


def _idle(project: Path, session: str) -> tuple[App, Sessions]:
    app = App(project)
    store = sessions_of(app.project)
    store.require(session)
    return app, store


def _refuse_unfinished(app: App, store: Sessions, session: str) -> None:
    """UsageError for a session whose turn is not over (rule 2)."""
    if run := unfinished(app, store, session):
        raise UsageError(f"session {session}: its turn {run.id} is not over; finish or cancel it first")
