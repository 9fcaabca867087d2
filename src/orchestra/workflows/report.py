"""Makes report.md of a run: what was asked, what happened, what it cost, where everything is (C-26).

The report is made from the run's folder alone. So it needs no model, and can be made again at any time. Calls that
never got a reply are counted from their `.asked.json` files. What child runs cost and changed is in the outcomes of
their steps: no other journal is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import UNSET, Struct

from orchestra.core.accounts import BegunChild, children
from orchestra.core.calls import calls_in
from orchestra.core.reading import RunCreated, RunEnded, outcome_of
from orchestra.core.records import FINAL, Event, seconds_between
from orchestra.core.run import RunFolder, is_id
from orchestra.core.text import brief, cell, clean
from orchestra.policy.binding import containment, tiers_of
from orchestra.workflows import bill
from orchestra.workflows.headline import headline


class Reported(Struct, frozen=True):
    """The data for a report of one run."""

    folder: RunFolder
    events: Sequence[Event]
    status: str
    message: str = ""
    ended: str = ""  # the time, for a run that is about to end; else empty
    whole: Iterable[Event] = ()  # unabridged events; `events` of a long run may be abridged
    roots: Callable[[str], Path] | None = None  # a workflow -> the folder of its runs, to name reports of child runs

    @property
    def until(self) -> str:
        return self.ended or self.events[-1].ts


def render(
    run: Reported, *, headline: Callable[[Event], str] = headline, warnings: Iterable[str] = ()
) -> Iterator[str]:
    """The report as lines of Markdown. `headline` gives the line for an event; `warnings` come first."""
    first, events = run.events[0], run.events
    created = RunCreated.of(first)
    seconds = seconds_between(first.ts, run.until)
    calls, below = calls_in(run.folder, events), children(events)
    yield from (
        f"# {brief(created.goal or first.runId, 200)}",
        "",
        f"- run: `{clean(first.runId)}` ({clean(created.workflow)})",
        f"- status: **{run.status}**" + (f" — {run.message}" if run.message else ""),
        f"- started {first.ts}, took {seconds:.1f} s",
        f"- {bill.headline(calls, below)}",
        *containment(created, tiers_of(events)),
        *(f"- {cell(warning)}" for warning in warnings if warning),
        "",
        "## What happened",
        "",
        "| time | iteration | event |",
        "|---|---|---|",
    )
    yield from (f"| {e.ts[:19]}Z | {_iteration(e)} | {cell(text)} |" for e in events if (text := headline(e)))
    yield from ("", "## Files changed", "")
    yield from _changed(events, below, f"{created.folder}/" if created.folder else "")
    yield from _child_runs(run, below)
    yield from ("", "## Model calls", "", *(bill.table(calls) if calls else ["none"]))
    if withheld := dict.fromkeys(str(file) for call in calls for file in call.withheld):
        yield ""
        yield from (f"- {cell(line)}" for line in withheld)


def ended(folder: RunFolder, events: Sequence[Event], roots: Callable[[str], Path] | None = None) -> Reported:
    """The data for the report of a run whose last event is its end, recorded or about to be."""
    *before, last = events
    end = RunEnded.of(last)
    why = end.message or end.reason
    return Reported(folder, before, FINAL[last.type], message=why, ended=last.ts, whole=before, roots=roots)


def as_text(lines: Iterable[str]) -> str:
    """The lines joined to the text of a file."""
    return "\n".join(lines) + "\n"


def _child_runs(run: Reported, below: Sequence[BegunChild]) -> Iterator[str]:
    """The child runs, each with its end, its cost and its own report."""
    if not below:
        return
    yield from ("", "## Child runs", "", "| step | workflow | status | cost | files changed | report |")
    yield "|---|---|---|---|---|---|"
    for told in below:
        done = told.result
        why = f": {brief(done.error, 200)}" if done and done.error else ""
        cells = (
            told.key,
            told.workflow,
            f"{told.status}{why}{' (kept from an earlier run)' if told.kept else ''}",
            bill.of_child(told) or "?",
            str(len(done.paths)) if done else "?",
            _report_of(run, told),
        )
        yield f"| {' | '.join(map(cell, cells))} |"


def _report_of(run: Reported, told: BegunChild) -> str:
    """The path of a child's report, from the folder of this run."""
    if run.roots is None or not is_id(told.run_id):
        return told.run_id
    return os.path.relpath(RunFolder(run.roots(told.workflow) / told.run_id).report, run.folder.path)


def _changed(events: Iterable[Event], below: Iterable[BegunChild], place: str) -> Iterator[str]:
    """The changed files, as they are called in the project. `place` is before the names of the run's own files."""
    some = False
    for event in (event for event in events if event.type == "PATCH_APPLIED"):
        for file in outcome_of(event).applied:
            some = True
            yield f"- `{clean(place + file.path)}` +{file.added} -{file.removed} (iteration {_iteration(event)})"
    for told in below:
        for path in told.result.paths if told.result else ():
            some = True
            yield f"- `{clean(path)}` (child run {clean(told.key)}{', kept' if told.kept else ''})"
    if not some:
        yield "none"


def _iteration(event: Event) -> str:
    return str(event.iteration) if event.iteration is not UNSET else ""
