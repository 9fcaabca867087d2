"""An event as one line for a person: what every workflow has in common. Pure.

A workflow with events of its own kind (a graph's tasks, a loop's checks) has a `headline` that falls back on this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestra.core.records import Event, clock
from orchestra.core.shape import outcome_of
from orchestra.core.text import brief, count

VERDICTS = {
    "EVALUATION_PASSED": "passed",
    "EVALUATION_FAILED_FIXABLE": "needs a fix",
    "EVALUATION_FAILED_BLOCKED": "blocked",
}


def headline(event: Event) -> str:
    """One line for a person on what an event means; empty for events that only open a step."""
    payload, outcome = event.payload, outcome_of(event)
    error = payload.get("error") or {}
    match event.type:
        case "RUN_CREATED":
            return "started"
        case "PHASE_STARTED":
            return ""
        case "PHASE_COMPLETED" if "exitCode" in outcome:
            return f"`{outcome.get('command', '?')}`: {outcome.get('status', '?')} ({how_it_ended(outcome)})"
        case "PHASE_COMPLETED":
            return f"{event.phase} done ({payload.get('key')})"
        case "PHASE_FAILED":
            return f"{event.phase} failed: {short(error.get('message', ''))}{again(event)}"
        case "PATCH_PRODUCED":
            if outcome.get("refusal"):
                return "patch: it does not fit the files"
            files = count(len(outcome.get("files", [])), "file")
            repaired = "".join(f"; repaired: {text}" for text in outcome.get("repaired", ()))
            return f"patch: {files}, +{outcome.get('added', 0)} -{outcome.get('removed', 0)}{short(repaired)}"
        case "APPROVAL_REQUESTED":
            return f"approval requested: {short('; '.join(payload.get('reasons', [])))}"
        case "APPROVAL_GRANTED":
            only = outcome.get("accepted") or []
            return f"approved by {outcome.get('by', '?')}" + (f", only {', '.join(only)}" if only else "")
        case "APPROVAL_REJECTED":
            return f"rejected by {outcome.get('by', '?')}: {short(outcome.get('reason', ''))}"
        case "PATCH_APPLIED":
            return "patch applied: " + ", ".join(f["path"] for f in outcome.get("after", []))
        case "PATCH_APPLY_FAILED":
            return f"patch not applied: {short((outcome.get('refusal') or {}).get('message', ''))}"
        case "QUESTION_RAISED":
            return f"question: {short(payload.get('question', ''))}"
        case "QUESTION_ANSWERED":
            return f"answer: {short(outcome.get('text', ''))}"
        case "EVALUATION_PASSED" | "EVALUATION_FAILED_FIXABLE" | "EVALUATION_FAILED_BLOCKED":
            return f"{VERDICTS[event.type]}: {short(outcome.get('grounds', ''))}"
        case "RUN_COMPLETED":
            return "completed"
        case "RUN_FAILED":
            return f"failed: {short(error.get('message', ''))}"
        case "RUN_CANCELED":
            return f"canceled: {short((payload.get('result') or {}).get('reason', ''))}"


def how_it_ended(outcome: Mapping[str, Any]) -> str:
    """How a command ended, in a word or two."""
    if outcome.get("timedOut"):
        return "timed out"
    return outcome.get("error") or ("dry run" if outcome["exitCode"] is None else f"exit code {outcome['exitCode']}")


def again(event: Event) -> str:
    """When a failed step is tried again, as the end of its line."""
    if at := event.payload.get("retryAt"):
        return f"; tried again at {clock(at, event.ts)} UTC"
    if at := event.payload.get("notBefore"):
        return f"; asks not to be called before {clock(at, event.ts)} UTC"
    return ""


def short(text: str) -> str:
    """Text from outside, as much of it as a line takes."""
    return brief(text, 200)
