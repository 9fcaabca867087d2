"""A run folder -> report.md: what was asked, what happened, what it cost, where everything is (C-26).

Built from what the run folder holds, so that it is complete without a model and can be rebuilt at any time: from its
events, and for calls that never got a reply from the count of how often they were made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import UNSET

from orchestra.core.calls import calls_in
from orchestra.core.context import Verdict
from orchestra.core.ledger import Ledger
from orchestra.core.records import Event, branch_of, clock, now, seconds_between, utf8
from orchestra.core.run import RunFolder
from orchestra.core.shape import outcome_of
from orchestra.core.text import brief, cell, checks_changed, clean, count
from orchestra.policy.binding import containment, tiers_of
from orchestra.workflows import bill


def write_report(ledger: Ledger, verdict: Verdict) -> None:
    """Write report.md before the run becomes final."""
    why = verdict.error.message if verdict.error else str(verdict.result.get("reason", ""))
    text = "\n".join(render(ledger.folder, ledger.events, status=verdict.status, message=why, ended=now())) + "\n"
    ledger.disk.publish(ledger.folder.report, utf8(ledger.redactor.text(text)), durable=False)


def render(folder: RunFolder, events: Sequence[Event], *, status: str, message: str, ended: str = "") -> Iterator[str]:
    """The report as lines of Markdown; `ended` is when, if the last event is not the end yet."""
    created = events[0]
    seconds = seconds_between(created.ts, ended or events[-1].ts)
    calls = calls_in(folder, events)
    changed = said_of_checks(events)
    yield from (
        f"# {_short(str(created.payload.get('goal', created.runId)))}",
        "",
        f"- run: `{clean(created.runId)}` ({clean(str(created.payload.get('workflow')))})",
        f"- status: **{status}**" + (f" — {message}" if message else ""),
        f"- started {created.ts}, took {seconds:.1f} s",
        f"- {bill.headline(calls)}",
        *containment(created.payload, tiers_of(events)),
        *([f"- {cell(changed)}"] if changed else ()),
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


def headline(event: Event) -> str:
    """One line for a person on what an event means; empty for events that only open a step."""
    payload, outcome = event.payload, outcome_of(event)
    error = payload.get("error") or {}
    match event.type:
        case "RUN_CREATED":
            return "started"
        case "PHASE_STARTED" if "task" in payload:
            again = f", attempt {payload['attempt']}" if "attempt" in payload else ""
            return f"{payload['task']} begins{again}"
        case "PHASE_STARTED":
            return ""
        case "PHASE_COMPLETED" if payload.get("effect") == "AdoptPlan":
            tasks = (outcome.get("plan") or {}).get("tasks")
            return f"plan: {count(len(tasks), 'task')}" if isinstance(tasks, list | tuple) else "plan: plan.json has it"
        case "PHASE_COMPLETED" if "exitCode" in outcome and "/" in payload.get("key", ""):
            left = "".join(f"; not taken over: {_note(note)}" for note in outcome.get("untaken", ())[:3])
            return f"{branch_of(event)} done ({_ended(outcome)}, {outcome.get('durationMs', 0) / 1000:.1f} s){left}"
        case "PHASE_COMPLETED" if "exitCode" in outcome:
            return f"check `{outcome.get('command', '?')}`: {outcome.get('status', '?')} ({_ended(outcome)})"
        case "PHASE_COMPLETED" if event.phase == "evaluate" and payload.get("key", "").startswith("summary."):
            return "summary done"
        case "PHASE_COMPLETED":
            return f"{event.phase} done ({payload.get('key')})"
        case "PHASE_FAILED" if event.phase == "execute" and "/" in payload.get("key", ""):
            return f"{branch_of(event)} failed: {_short(error.get('message', ''))}{_again(event)}"
        case "PHASE_FAILED":
            return f"{event.phase} failed: {_short(error.get('message', ''))}{_again(event)}"
        case "PATCH_PRODUCED":
            if outcome.get("refusal"):
                return "patch: it does not fit the files"
            files = count(len(outcome.get("files", [])), "file")
            repaired = "".join(f"; repaired: {text}" for text in outcome.get("repaired", ()))
            return f"patch: {files}, +{outcome.get('added', 0)} -{outcome.get('removed', 0)}{_short(repaired)}"
        case "APPROVAL_REQUESTED":
            return f"approval requested: {_short('; '.join(payload.get('reasons', [])))}"
        case "APPROVAL_GRANTED":
            only = outcome.get("accepted") or []
            return f"approved by {outcome.get('by', '?')}" + (f", only {', '.join(only)}" if only else "")
        case "APPROVAL_REJECTED":
            return f"rejected by {outcome.get('by', '?')}: {_short(outcome.get('reason', ''))}"
        case "PATCH_APPLIED":
            return "patch applied: " + ", ".join(f["path"] for f in outcome.get("after", []))
        case "PATCH_APPLY_FAILED":
            return f"patch not applied: {_short((outcome.get('refusal') or {}).get('message', ''))}"
        case "QUESTION_RAISED":
            return f"question: {_short(payload.get('question', ''))}"
        case "QUESTION_ANSWERED":
            return f"answer: {_short(outcome.get('text', ''))}"
        case "EVALUATION_PASSED" | "EVALUATION_FAILED_FIXABLE" | "EVALUATION_FAILED_BLOCKED":
            return f"{_VERDICTS[event.type]}: {_short(outcome.get('grounds', ''))}"
        case "RUN_COMPLETED":
            return "completed"
        case "RUN_FAILED":
            return f"failed: {_short(error.get('message', ''))}"
        case "RUN_CANCELED":
            return f"canceled: {_short((payload.get('result') or {}).get('reason', ''))}"


def said_of_checks(events: Iterable[Event]) -> str:
    """What the last verdict says of the checks themselves; nothing if the run left them alone."""
    changed: tuple[str, ...] = ()
    for event in events:
        if event.type in _VERDICTS:
            changed = tuple(map(str, outcome_of(event).get("checksChanged", ())))
    return checks_changed(changed)


def _changed(events: Iterable[Event]) -> Iterator[str]:
    some = False
    for event in (event for event in events if event.type == "PATCH_APPLIED"):
        for file in outcome_of(event).get("after", ()):
            some = True
            stat = f"+{file.get('added', 0)} -{file.get('removed', 0)}"
            yield f"- `{clean(file['path'])}` {stat} (iteration {_iteration(event)})"
    if not some:
        yield "none"


_VERDICTS = {
    "EVALUATION_PASSED": "passed",
    "EVALUATION_FAILED_FIXABLE": "needs a fix",
    "EVALUATION_FAILED_BLOCKED": "blocked",
}


def _ended(outcome: dict[str, Any]) -> str:
    if outcome.get("timedOut"):
        return "timed out"
    return outcome.get("error") or ("dry run" if outcome["exitCode"] is None else f"exit code {outcome['exitCode']}")


def _note(note: dict[str, str]) -> str:
    return f"{note.get('what', '')} ({note.get('why', '')})"


def _again(event: Event) -> str:
    if at := event.payload.get("retryAt"):
        return f"; tried again at {clock(at, event.ts)} UTC"
    if at := event.payload.get("notBefore"):
        return f"; asks not to be called before {clock(at, event.ts)} UTC"
    return ""


def _short(text: str) -> str:
    return brief(text, 200)


def _iteration(event: Event) -> str:
    return str(event.iteration) if event.iteration is not UNSET else ""
