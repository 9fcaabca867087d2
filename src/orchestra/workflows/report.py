"""Makes report.md of a run: what was asked, what happened, what it cost, where everything is (C-26).

The report is made from the run's folder alone. So it needs no model, and can be made again at any time. Calls that
never got a reply are counted from their `.asked.json` files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import UNSET, Struct

from orchestra.core.calls import calls_in
from orchestra.core.reading import RunCreated, outcome_of
from orchestra.core.records import Event, seconds_between
from orchestra.core.run import RunFolder
from orchestra.core.text import brief, cell, clean
from orchestra.policy.binding import containment, tiers_of
from orchestra.workflows import bill
from orchestra.workflows.headline import headline

REPORT = "report.md"


class Reported(Struct, frozen=True):
    """The data for a report of one run."""

    folder: RunFolder
    events: Sequence[Event]
    status: str
    message: str = ""
    ended: str = ""  # the time, for a run that is about to end; else empty
    whole: Iterable[Event] = ()  # unabridged events; `events` of a long run may be abridged

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
    calls = calls_in(run.folder, events)
    yield from (
        f"# {brief(created.goal or first.runId, 200)}",
        "",
        f"- run: `{clean(first.runId)}` ({clean(created.workflow)})",
        f"- status: **{run.status}**" + (f" — {run.message}" if run.message else ""),
        f"- started {first.ts}, took {seconds:.1f} s",
        f"- {bill.headline(calls)}",
        *containment(created, tiers_of(events)),
        *(f"- {cell(warning)}" for warning in warnings if warning),
        "",
        "## What happened",
        "",
        "| time | iteration | event |",
        "|---|---|---|",
    )
    yield from (f"| {e.ts[11:19]} | {_iteration(e)} | {cell(text)} |" for e in events if (text := headline(e)))
    yield from ("", "## Files changed", "")
    yield from _changed(events)
    yield from ("", "## Model calls", "", *bill.table(calls))
    if withheld := dict.fromkeys(str(file) for call in calls for file in call.withheld):
        yield ""
        yield from (f"- {cell(line)}" for line in withheld)


def as_text(lines: Iterable[str]) -> str:
    """The lines joined to the text of a file."""
    return "\n".join(lines) + "\n"


def _changed(events: Iterable[Event]) -> Iterator[str]:
    some = False
    for event in (event for event in events if event.type == "PATCH_APPLIED"):
        for file in outcome_of(event).applied:
            some = True
            yield f"- `{clean(file.path)}` +{file.added} -{file.removed} (iteration {_iteration(event)})"
    if not some:
        yield "none"


def _iteration(event: Event) -> str:
    return str(event.iteration) if event.iteration is not UNSET else ""
