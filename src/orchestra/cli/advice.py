"""The messages at the end of a drive: what happened, where the results are, and the command to continue with."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from orchestra.app import App
from orchestra.cli.commands import UNDO
from orchestra.cli.hosting import SHELL, how_commands_begin
from orchestra.cli.text import safe
from orchestra.config.upward import find_project
from orchestra.core.engine import RunEnd
from orchestra.core.errors import BudgetReached, RunLocked
from orchestra.core.reading import Request, job_of
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.core.text import brief, count
from orchestra.core.work import Masked
from orchestra.runs.answers import told_apart
from orchestra.runs.find import RunSummary
from orchestra.runs.tree import OpenRequest
from orchestra.workflows.description import Ended, Workflow

_MASKED_SHOWN, _LEFT_SHOWN = 20, 5
_PLAIN = re.compile(r"[\w@%+=:,./-]+")  # letters of any script need no quotes in a shell

_SHOWN, _IN_A_LINE = 10_000, 200  # characters of a request; of one that gets a single line


def command(app: App, *words: str) -> str:
    """An orchestra command for this project, as a person would type it in the current folder, or in the terminal UI.

    At a terminal the numbers of runs stand for their ids.
    """
    beginning = how_commands_begin()
    inside = beginning != SHELL
    here = inside or app.project.path in (Path.cwd(), find_project(Path.cwd(), os.environ))
    shown = [_short(app, word) for word in words] if sys.stderr.isatty() else words
    words = (*shown, *(() if here else ("-C", str(app.project.path))))
    return beginning + safe(" ".join(word if _PLAIN.fullmatch(word) else shlex.quote(word) for word in words))


def _short(app: App, word: str) -> str:
    """The number of the run with this id, if it has one; any other word as it is."""
    folder = app.runs.exactly(word)
    number = app.runs.began(folder).number if folder is not None else 0
    return str(number) if number else word


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
    lines += left_lines(app, folder, end.status)
    if end.status in FINAL.values():
        lines += _results(app, workflow, summary)
    if end.status == "failed":
        lines.append(f"  why: {command(app, 'logs', end.run_id)}")
        more = ("--max-fixes", "N") if any(app.again.at_limit(folder)) else ()
        lines.append(f"  go on, with all that succeeded kept: {command(app, 'retry', end.run_id, *more)}")
        lines += (f"  {safe(weak)}" for weak in app.weaknesses(summary.created))
    return lines


def left_lines(app: App, folder: RunFolder, status: str) -> list[str]:
    """One line: what a run and its child runs left in the files, and how to undo it. None for a run about another."""
    if app.runs.began(folder).aside:
        return []
    left = app.trees.changes.left(folder)
    if left:
        return [f"  left in your files: {_named(left)}; undo: {command(app, UNDO, folder.id)}"]
    if status == "completed":
        return []
    if written := app.trees.changes.documents(folder):
        return [f"  left in your files: {_named(written)}; written without a patch, so undo leaves them"]
    return ["  left in your files: nothing"]


def _named(paths: Sequence[str]) -> str:
    more = f" and {count(len(paths) - _LEFT_SHOWN, 'more file')}" if len(paths) > _LEFT_SHOWN else ""
    return f"{safe(', '.join(paths[:_LEFT_SHOWN]))}{more}"


def _results(app: App, workflow: Workflow, summary: RunSummary) -> list[str]:
    """Lines that point to the results of an ended run, if they exist."""
    ended = Ended(summary.folder, job_of(summary.created), summary.events)
    hints = workflow.results(ended)
    return [
        f"  {safe(hint.what)}: {command(app, *hint.command) if hint.command else safe(hint.path)}" for hint in hints
    ]


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
    """What a run and its child runs wait for, and the commands that answer by this run's id."""
    return answer_lines(app, folder.id, app.trees.requests(folder))


def answer_lines(app: App, run_id: str, requests: Sequence[OpenRequest]) -> list[str]:
    """The same for these requests of the tree of `run_id`."""
    lines: list[str] = []
    for one, which in zip(requests, told_apart(requests), strict=True):
        asked, where = one.asked, f"{one.child} " if one.path else ""
        if one.run.foreign:  # another person may have written what it asks
            lines.append(f"  {where}is foreign; look: {command(app, 'adopt', one.run.folder.id)}")
        elif one.answered:
            lines.append(f"  {one.name} is answered; go on: {command(app, 'resume', run_id)}")
        elif one.is_approval:
            lines.append(f"  {where}waits for your approval: {_proposed(asked, _SHOWN)}")
            if asked.subject != "command":  # a command's summary is complete
                lines.append(f"    see it: {command(app, 'diff', run_id)}")
            lines += (f"  {line}" for line in masked_lines(app, run_id, asked.hidden))
            lines.append(f"    {command(app, 'approve', run_id, *which)}")
            lines.append(f"    {command(app, 'reject', run_id, *which, '--reason', 'TEXT')}")
        else:
            lines.append(f"  {where}asks: " + safe(asked.question[:_SHOWN]).replace("\n", "\n      | "))
            lines += (f"    {line}" for line in question_lines(asked))
            lines.append(f"    {command(app, 'answer', run_id, 'TEXT', *which)}")
    return lines


def _proposed(asked: Request, most: int) -> str:
    """What an approval is asked for, in one line; the files of a patch without a summary."""
    return brief(asked.summary, most) or brief(", ".join(asked.paths), most) or "a patch"


def waiting_lines(app: App, run_id: str, requests: Sequence[OpenRequest]) -> list[str]:
    """One line for each request of the tree of `run_id`: what waits, and the command that answers."""
    lines: list[str] = []
    for one, which in zip(requests, told_apart(requests), strict=True):
        where = one.child or safe(run_id)
        if one.run.foreign:
            lines.append(f"{where} is foreign: {command(app, 'adopt', one.run.folder.id)}")
        elif one.answered:
            lines.append(f"{one.name} is answered: {command(app, 'resume', run_id)}")
        elif one.is_approval:
            what = _proposed(one.asked, _IN_A_LINE)
            lines.append(f"{where} waits for your approval of {what}: {command(app, 'approve', run_id, *which)}")
        else:
            what = brief(one.asked.question, _IN_A_LINE)
            lines.append(f"{where} asks: {what}: {command(app, 'answer', run_id, 'TEXT', *which)}")
    return lines


def question_lines(asked: Request, *, digits: bool = False) -> list[str]:
    """What helps to answer a question: what is needed, what depends on it, the options and the default.

    `digits`: each option has its number, because the number is an answer too.
    """
    lines = [f"needed: {safe(item[:_SHOWN])}" for item in asked.needed_input]
    if asked.impact:
        lines.append(f"what depends on it: {safe(asked.impact[:_SHOWN])}")
    if asked.options:
        numbers = (f"{number} " if digits else "" for number in range(1, len(asked.options) + 1))
        marked = (
            f"{number}{option} (default)" if option == asked.default else f"{number}{option}"
            for number, option in zip(numbers, asked.options, strict=True)
        )
        lines.append(f"options: {safe(', '.join(marked))}")
    elif asked.kind == "yes_no":
        lines.append("options: " + ", ".join(f"{o} (default)" if o == asked.default else o for o in ("yes", "no")))
    if asked.default and asked.default not in asked.options and asked.kind != "yes_no":
        lines.append(f"default: {safe(asked.default[:_SHOWN])}")
    return lines
