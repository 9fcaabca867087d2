"""Commands about what was made from what: `orchestra rerun --stale` and `orchestra lineage`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from orchestra.app import App
from orchestra.cli import options, which
from orchestra.cli.driving import Drive
from orchestra.cli.face import JsonFace
from orchestra.cli.text import echo_lines, print_json, safe
from orchestra.core.errors import JournalCorrupt, UsageError
from orchestra.core.newest import edition_of
from orchestra.core.ownership import Ownership
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.core.text import brief, count
from orchestra.runs.lineage import Lineage, MadeEdition, MadeFile, lineage_of

_MOST_RUNS = 1000  # of one lineage
_SHORT = len("sha256:") + 12
_MOST_SAID = 60  # characters of an input that is not in a file


@click.command()
@options.run_or_default
@click.option("--stale", is_flag=True, help="Do again what edited files and other inputs make stale. Required.")
@options.models
@options.driving
def rerun(run: str | None, stale: bool, who: options.Answering, how: options.Driving) -> int:
    """Do again what is stale of RUN, which has ended: what was made from a file that was edited since.

    The rest is kept, and costs nothing: a new run is made with RUN's history, and driven. If nothing is stale, no run
    is made. Files of its finished child runs are looked at too. A run that has not ended is resumed: `orchestra resume`
    looks at edited files itself.

    \b
    orchestra rerun --stale last
    """
    if not stale:
        raise UsageError("say what to do again: orchestra rerun --stale RUN does what edited files make stale")
    app = App(how.project)
    folder = app.runs.vouched_root(which.newest(app, run)).folder
    recorded = app.terms.models(folder, app.runs.summary(folder).created)
    drive = Drive(how, options.chosen(who, recorded))
    drive.ask_consent()
    _refuse_unended(drive.app, folder)
    found = asyncio.run(app.again.stale(folder))  # not by the app of the drive: it keeps the models that were typed
    if isinstance(drive.face, JsonFace):
        print_json({"type": "stale", "runId": folder.id, "stale": list(found.lines())})
    elif not how.quiet:
        lines = [f"  {safe(line)}" for line in found.lines()]
        said = f"stale in {folder.id}:" if found else f"nothing is stale in {folder.id}: no new run is made"
        click.echo("\n".join((said, *lines)), err=True)
    if not found:
        return drive.drive(lambda: folder, known=True)  # it has ended: its end is shown, and nothing is done
    return drive.drive(lambda: asyncio.run(drive.app.again.rerun(folder, found)))


def _refuse_unended(app: App, folder: RunFolder) -> None:
    """UsageError if the run has not ended, or a newer run has the files of its tree."""
    members = app.trees.members(folder)
    if members[0].summary.events[-1].type not in FINAL:
        raise UsageError(
            f"run {folder.id} has not ended, and looks at edited files itself: orchestra resume {folder.id}"
        )
    newer = Ownership(app.project.store, folder).newest()
    if newer != folder.id and any(one.summary.fold.newest.files for one in members):
        raise UsageError(
            f"run {newer} was made from {folder.id} and has its files now: orchestra rerun --stale {newer}"
        )


@click.command()
@options.run_or_default
@options.json_of("NDJSON on stdout: a record for each run, edition, file and child run.")
@options.project
def lineage(run: str | None, as_json: bool, project: Path) -> int:
    """What was made from what in RUN: its files, the editions they were made in, and the inputs of each.

    The runs it belongs to follow: child runs, the run it was forked from, and the one whose files it began with.
    """
    app = App(project)
    for folder, found, status in _runs(app, which.newest(app, run)):
        if as_json:
            _print_records(folder, found, status)
        else:
            echo_lines(_lines(folder, found, status))
    return 0


def _runs(app: App, folder: RunFolder) -> Iterator[tuple[RunFolder, Lineage, str]]:
    """A run and the runs it was made with, each once, with the status of its tree: children, origins, input runs."""
    queue, seen = deque([folder.id]), {folder.id}
    while queue and len(seen) <= _MOST_RUNS:
        one = app.runs.exactly(queue.popleft())
        try:
            if one is None:
                continue  # it was removed
            summary, status = app.runs.summary(one), app.trees.status(one)
        except JournalCorrupt:
            if one == folder:
                raise
            continue  # `verify` says how it is damaged
        found = lineage_of(summary.events)
        yield one, found, status
        origin = found.created.forkedFrom
        named = [child.childRunId for child in found.children]
        named += [origin.runId] if origin else []
        named += [found.created.inputRunId] if found.created.inputRunId else []
        queue += [name for name in dict.fromkeys(named) if name not in seen]
        seen.update(named)


def _print_records(folder: RunFolder, found: Lineage, status: str) -> None:
    facts, of_run = found.created, {"runId": folder.id}
    origin = msgspec.to_builtins(facts.forkedFrom) if facts.forkedFrom else None
    made_of = {"forkedFrom": origin, "inputRunId": facts.inputRunId or None, "inputs": facts.inputs}
    print_json({"type": "run", **of_run, "workflow": facts.workflow, "goal": facts.goal, "status": status, **made_of})
    for kind, records in (("edition", found.editions), ("file", found.files), ("child", found.children)):
        for record in records:
            print_json({"type": kind, **of_run, **msgspec.to_builtins(record)})


def _lines(folder: RunFolder, found: Lineage, status: str) -> Iterator[str]:
    facts = found.created
    yield f"{folder.id} ({facts.workflow}, {status})"
    if facts.forkedFrom is not None:
        yield f"  forked from {facts.forkedFrom.runId} at event {facts.forkedFrom.at}"
    for path, digest in facts.inputs.items():
        yield f"  began with {safe(path)} {digest[:_SHORT]} of run {facts.inputRunId}"
    edited = {file.path for file in found.files if file.edited}
    for edition in found.editions:
        if not edition.replaced:
            yield f"  {safe(edition.edition)} was made from {_inputs(edition, edited)}"
    for file in found.files:
        yield f"  {_file(file)}"
    for child in found.children:
        where = edition_of(child.key)
        yield f"  child run {child.childRunId} ({child.workflow}) of step {safe(child.key)}" + (
            f" in {safe(where)}" if where else ""
        )
    if replaced := sum(edition.replaced for edition in found.editions):
        yield f"  {count(replaced, 'edition')} replaced by newer ones"


def _inputs(edition: MadeEdition, edited: set[str]) -> str:
    shown = []
    for name, given in edition.inputs.items():
        where = f"{given.path}, edited" if given.path in edited else given.path
        said = where or brief(given.said, _MOST_SAID) or given.digest[:_SHORT]
        shown.append(f"{name} ({said})")
    return safe(", ".join(shown)) or "nothing"


def _file(file: MadeFile) -> str:
    where = file.path if file.inside == "project" else f"{file.path} (in the run's folder)"
    made = f"was made in {file.madeIn}" if file.madeIn else "was made by the run"
    return safe(f"{where} {made}{' and edited since' if file.edited else ''}: {file.digest[:_SHORT]}")
