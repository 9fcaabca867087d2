"""The messages at the end of a drive: what happened, where the results are, and the command to continue with."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from orchestra.app import App
from orchestra.cli.text import safe
from orchestra.core.engine import RunEnd
from orchestra.core.errors import BudgetReached, RunLocked
from orchestra.core.reading import Request, job_of
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.core.text import brief, count
from orchestra.core.work import Masked
from orchestra.runs.answers import SHORT_DIGEST
from orchestra.runs.find import RunSummary
from orchestra.workflows.description import Ended, Workflow

_MASKED_SHOWN = 20

_SHOWN = 10_000  # characters of a request


def command(app: App, *words: str) -> str:
    """An orchestra command for this project, as a person would type it in the current folder."""
    elsewhere = ("-C", str(app.project.path)) if app.project.path != Path.cwd() else ()
    return safe(shlex.join(("orchestra", *words, *elsewhere)))


def ending(end: RunEnd, app: App, folder: RunFolder) -> list[str]:
    """The lines that are shown when a drive ends."""
    colour = {"completed": "green", "failed": "red", "canceled": "red"}.get(end.status, "yellow")
    word: str = "interrupted" if end.exit_code == 130 else end.status
    stopped = end.exit_code not in (0, 3, RunLocked.exit_code, 130) and end.status not in FINAL.values()
    if stopped:  # by something outside the run: it has not ended, and is not driven, whatever its status
        word, colour = "stopped", "red"
    summary = app.runs.summary(folder)
    message = end.message or ("dry run: nothing was run" if summary.dry and end.status == "completed" else "")
    lines = ["", click.style(word, fg=colour, bold=True) + (f": {safe(message)}" if message else "")]
    workflow = app.workflows.of(summary.workflow)
    if warning := workflow.warning(summary.events):
        lines.append(click.style(f"  {safe(warning)}", fg="yellow"))
    if end.exit_code == 3:
        lines += how_to_answer(app, folder)
    if end.exit_code == 130:
        lines.append(f"  nothing is lost; go on: {command(app, 'resume', end.run_id)}")
    if stopped and end.exit_code != BudgetReached.exit_code:  # that message already has the next command
        lines.append(f"  nothing is lost; when that is cured, go on: {command(app, 'resume', end.run_id)}")
    lines += [f"  run folder: {folder.path}", f"  look closer: {command(app, 'show', end.run_id)}"]
    if folder.report.exists():
        lines.append(f"  report: {command(app, 'report', end.run_id)}")
    if end.status in FINAL.values():
        lines += _results(app, workflow, summary)
    if end.status == "failed":
        lines.append(f"  why: {command(app, 'logs', end.run_id)}")
        if end.code not in workflow.hopeless:
            lines.append(f"  go on from before the failure: {command(app, 'fork', end.run_id)}")
    return lines


def _results(app: App, workflow: Workflow, summary: RunSummary) -> list[str]:
    """Lines that point to the results of an ended run, if they exist."""
    ended = Ended(summary.folder, job_of(summary.created), summary.events)
    hints = workflow.results(ended)
    return [f"  {hint.what}: {command(app, *hint.command) if hint.command else hint.path}" for hint in hints]


def masked_lines(app: App, run_id: str, masked: Sequence[Masked]) -> list[str]:
    """Lines about the masked parts of a patch: where, how long, why, and how to see them."""
    lines = [
        f"  masked here: {safe(span.path)} line {span.line}, {count(span.characters, 'character')} ({safe(span.what)})"
        for span in masked[:_MASKED_SHOWN]
    ]
    if len(masked) > _MASKED_SHOWN:
        lines.append(f"  and {count(len(masked) - _MASKED_SHOWN, 'more place')}")
    return [*lines, f"  the exact bytes: {command(app, 'diff', run_id, '--exact')}"] if lines else []


def how_to_answer(app: App, folder: RunFolder) -> list[str]:
    """The commands that answer the open requests of a run and its child runs."""
    lines: list[str] = []
    for run in app.runs.family(folder):
        run_id, unanswered = run.folder.id, app.project.store.unanswered(run.folder, run.fold.pending)
        several = sum(event.type == "APPROVAL_REQUESTED" for event in unanswered.values()) > 1
        for name, event in run.fold.pending.items():
            request = Request.of(event)
            if name not in unanswered:
                lines.append(f"  {safe(name)} is answered; go on: {command(app, 'resume', run_id)}")
            elif event.type == "APPROVAL_REQUESTED":
                lines.append(f"  waits for your approval: {brief(request.summary, _SHOWN)}")
                if request.subject != "command":  # a command's summary is complete
                    lines.append(f"    see it: {command(app, 'diff', run_id)}")
                lines += (f"  {line}" for line in masked_lines(app, run_id, request.hidden))
                which = ("--digest", request.digest[:SHORT_DIGEST]) if several else ()
                lines.append(f"    {command(app, 'approve', run_id, *which)}")
                lines.append(f"    {command(app, 'reject', run_id, *which, '--reason', 'TEXT')}")
            else:
                lines.append(f"  asks: {safe(request.question[:_SHOWN])}")
                lines += (f"    needed: {safe(item[:_SHOWN])}" for item in request.needed_input)
                if request.options:
                    lines.append(f"    options: {safe(', '.join(request.options))}")
                lines.append(f"    {command(app, 'answer', run_id, 'TEXT')}")
    return lines
