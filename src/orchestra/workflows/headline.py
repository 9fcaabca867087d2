"""An event as one line for a person: what every workflow has in common. Pure.

A workflow with events of its own kind (a graph's tasks, a loop's checks) has a `headline` that falls back on this one.
"""

from __future__ import annotations

from orchestra.core.reading import Request, RunEnded, StepEvent, StepOutcome, key_of, outcome_of
from orchestra.core.records import Event, clock
from orchestra.core.text import brief, count

VERDICTS = {
    "EVALUATION_PASSED": "passed",
    "EVALUATION_FAILED_FIXABLE": "needs a fix",
    "EVALUATION_FAILED_BLOCKED": "blocked",
}


def headline(event: Event) -> str:
    """One line for a person on what an event means; empty for events that only open a step."""
    outcome = outcome_of(event)
    match event.type:
        case "RUN_CREATED":
            return "started"
        case "PHASE_STARTED":
            return ""
        case "PHASE_COMPLETED" if outcome.is_command:
            return f"`{outcome.command or '?'}`: {outcome.status or '?'} ({how_it_ended(outcome)})"
        case "PHASE_COMPLETED":
            return f"{event.phase} done ({key_of(event)})"
        case "PHASE_FAILED":
            return f"{event.phase} failed: {short(StepEvent.of(event).message)}{again(event)}"
        case "PATCH_PRODUCED":
            if outcome.refusal:
                return "patch: it does not fit the files"
            repaired = "".join(f"; repaired: {text}" for text in outcome.repairs)
            return f"patch: {count(len(outcome.files), 'file')}, +{outcome.added} -{outcome.removed}{short(repaired)}"
        case "APPROVAL_REQUESTED":
            return f"approval requested: {short('; '.join(Request.of(event).reasons))}"
        case "APPROVAL_GRANTED":
            only = outcome.accepted
            return f"approved by {outcome.by or '?'}" + (f", only {', '.join(only)}" if only else "")
        case "APPROVAL_REJECTED":
            return f"rejected by {outcome.by or '?'}: {short(outcome.reason)}"
        case "PATCH_APPLIED":
            return "patch applied: " + ", ".join(file.path for file in outcome.applied)
        case "PATCH_APPLY_FAILED":
            return f"patch not applied: {short(outcome.refusal.message if outcome.refusal else '')}"
        case "QUESTION_RAISED":
            return f"question: {short(Request.of(event).question)}"
        case "QUESTION_ANSWERED":
            return f"answer: {short(outcome.text)}"
        case "EVALUATION_PASSED" | "EVALUATION_FAILED_FIXABLE" | "EVALUATION_FAILED_BLOCKED":
            return f"{VERDICTS[event.type]}: {short(outcome.grounds)}"
        case "RUN_COMPLETED":
            return "completed"
        case "RUN_FAILED":
            return f"failed: {short(RunEnded.of(event).message)}"
        case "RUN_CANCELED":
            return f"canceled: {short(RunEnded.of(event).reason)}"


def how_it_ended(outcome: StepOutcome) -> str:
    """How a command ended, in a word or two."""
    if outcome.timedOut:
        return "timed out"
    return outcome.error or ("dry run" if outcome.exit_code is None else f"exit code {outcome.exit_code}")


def again(event: Event) -> str:
    """When a failed step is tried again, as the end of its line."""
    step = StepEvent.of(event)
    if step.retryAt:
        return f"; tried again at {clock(step.retryAt, event.ts)} UTC"
    if step.notBefore:
        return f"; asks not to be called before {clock(step.notBefore, event.ts)} UTC"
    return ""


def short(text: str) -> str:
    """Text from outside, as much of it as a line takes."""
    return brief(text, 200)
