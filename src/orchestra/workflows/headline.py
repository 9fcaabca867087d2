"""One line for a person about an event: the lines that all workflows have in common. Pure.

A workflow with events of its own kind (a graph's tasks, a loop's checks) has its own `headline`, which calls this one
for the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from orchestra.core.command import NOT_GRANTED
from orchestra.core.editions import Began
from orchestra.core.effects import ChildRun
from orchestra.core.looks import Seen
from orchestra.core.reading import (
    Request,
    RunEnded,
    StepEvent,
    StepOutcome,
    effect_of,
    key_of,
    outcome_as,
    outcome_of,
)
from orchestra.core.records import Event, clock
from orchestra.core.text import brief, count

Headline = Callable[[Event], str]
_APPLIED = "patch applied: "
VERDICTS = {
    "EVALUATION_PASSED": "passed",
    "EVALUATION_FAILED_FIXABLE": "needs a fix",
    "EVALUATION_FAILED_BLOCKED": "blocked",
}


def headline(event: Event) -> str:
    """One line for a person about an event; empty for events that only begin a step."""
    if event.type == "PHASE_STARTED":
        return ""
    outcome = outcome_of(event)
    match event.type:
        case "RUN_CREATED":
            return "started"
        case "PHASE_COMPLETED" if effect_of(event) == ChildRun.__name__:
            why = f": {short(outcome.error)}" if outcome.error else ""
            return f"child run {outcome.status} ({key_of(event)}){why}"
        case "PHASE_COMPLETED" if outcome.is_command:
            return f"`{outcome.command or '?'}`: {outcome.status or '?'} ({how_it_ended(outcome)})"
        case "PHASE_COMPLETED":
            return _looked(event) or f"{event.phase} done ({key_of(event)})"
        case "PHASE_FAILED" if waits_for_a_grant(event):
            return f"{event.phase} waits for a grant: {short(StepEvent.of(event).message)}"
        case "PHASE_FAILED":
            return f"{event.phase} failed: {short(StepEvent.of(event).message)}{again(event)}"
        case "PATCH_PRODUCED":
            if outcome.refusal:
                return "patch: it does not fit the files"
            repaired = "".join(f"; repaired: {text}" for text in outcome.repairs)
            what = "your version of the patch" if outcome.by == "person" else "patch"
            return f"{what}: {count(len(outcome.files), 'file')}, +{outcome.added} -{outcome.removed}{short(repaired)}"
        case "APPROVAL_REQUESTED":
            return f"approval requested: {short('; '.join(Request.of(event).reasons))}"
        case "APPROVAL_GRANTED":
            only = outcome.accepted
            return f"approved by {outcome.by or '?'}" + (f", only {', '.join(only)}" if only else "")
        case "APPROVAL_REJECTED":
            return f"rejected by {outcome.by or '?'}: {short(outcome.reason)}"
        case "PATCH_APPLIED":
            return _APPLIED + ", ".join(file.path for file in outcome.applied)
        case "PATCH_APPLY_FAILED":
            return f"patch not applied: {short(outcome.refusal.message if outcome.refusal else '')}"
        case "QUESTION_RAISED":
            return f"question: {short(Request.of(event).question)}"
        case "QUESTION_ANSWERED":
            return f"answer{' (the default, provisional)' if outcome.provisional else ''}: {short(outcome.text)}"
        case "EVALUATION_PASSED" | "EVALUATION_FAILED_FIXABLE" | "EVALUATION_FAILED_BLOCKED":
            return f"{VERDICTS[event.type]}: {short(outcome.grounds)}"
        case "RUN_COMPLETED":
            return "completed"
        case "RUN_FAILED":
            return f"failed: {short(RunEnded.of(event).message)}"
        case "RUN_CANCELED":
            return f"canceled: {short(RunEnded.of(event).reason)}"


def _looked(event: Event) -> str:
    """The line of an edition or of a look at a file; empty for any other step."""
    place = key_of(event).removesuffix(".1")
    match effect_of(event):
        case "Edition" if (began := outcome_as(event, Began)) is not None:
            lost = f"; answers that count no more: {', '.join(began.withdrawn)}" if began.withdrawn else ""
            return short(f"{place} begins: made from {', '.join(began.inputs) or 'nothing'}{lost}")
        case "WriteFile" if (seen := outcome_as(event, Seen)) is not None:
            return short(f"{seen.path} written")
        case "Look" if (seen := outcome_as(event, Seen)) is not None:
            if seen.conflict:
                return short(f"{seen.path} was edited, and there is a new text for it")
            return short(f"{seen.path} was edited" if seen.edited else f"{seen.path} is as it was made")
    return ""


def how_it_ended(outcome: StepOutcome) -> str:
    """How a command ended, as a short text."""
    if outcome.timedOut:
        return "timed out"
    return outcome.error or ("dry run" if outcome.exit_code is None else f"exit code {outcome.exit_code}")


def placed(headline: Headline, folder: str) -> Headline:
    """The headline for a run that works in this folder of the project: the files of a patch are named from there."""
    if not folder:
        return headline

    def below(event: Event) -> str:
        text = headline(event)
        if event.type != "PATCH_APPLIED" or not text.startswith(_APPLIED):
            return text
        return _APPLIED + ", ".join(f"{folder}/{file.path}" for file in outcome_of(event).applied)

    return below


def waits_for_a_grant(event: Event) -> bool:
    """Whether this failure of a command is only that a person must grant the command first."""
    error = StepEvent.of(event).error
    return event.type == "PHASE_FAILED" and error is not None and error.code == NOT_GRANTED


def again(event: Event) -> str:
    """The end of a failed step's line: when it is tried again."""
    step = StepEvent.of(event)
    if step.retryAt:
        return f"; next attempt at {clock(step.retryAt, event.ts)} UTC"
    if step.notBefore:
        return f"; asks not to be called before {clock(step.notBefore, event.ts)} UTC"
    return ""


def short(text: str) -> str:
    """Text from outside, shortened to fit a line."""
    return brief(text, 200)
