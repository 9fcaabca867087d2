"""How a run ends: its last event, and what a drive of the run returns to its caller."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from orchestra.core.context import Context, Verdict
from orchestra.core.ledger import Ledger
from orchestra.core.records import FINAL, ErrorInfo, Event, EventType, RunStatus


class RunEnd(Struct, frozen=True):
    """How a drive ended: final, or waiting for a person."""

    run_id: str
    status: RunStatus
    exit_code: int
    message: str = ""
    code: str = ""  # of the error it failed with
    result: Any = None  # what its flow returned, as JSON
    alone: bool = False  # it waits for one request only and for no child run: its status is its tree's


def last_event(verdict: Verdict) -> tuple[EventType, dict[str, Any]]:
    """The event that ends a run with this verdict: its type and its payload."""
    code = verdict.exit_code if verdict.status == "completed" else verdict.exit_code or 1
    payload: dict[str, Any] = {"result": verdict.result, "exitCode": code}
    if verdict.error is not None:
        payload["error"] = msgspec.to_builtins(verdict.error)
        if isinstance(verdict.result, dict) and "stack" in verdict.result:
            payload["error"]["stack"] = payload["result"].pop("stack")
    match verdict.status:
        case "completed":
            return "RUN_COMPLETED", payload
        case "failed":
            return "RUN_FAILED", payload
        case "canceled":
            return "RUN_CANCELED", payload


def final_status(event: Event) -> Literal["completed", "failed", "canceled"]:
    """The status of a run whose last event this is."""
    status = FINAL[event.type]
    assert status in ("completed", "failed", "canceled")
    return status


def caught_wait(context: Context) -> Verdict | None:
    """The failure of a flow that returned although a step of it waits: its code caught Suspended."""
    if not (key := context.still_waits()):
        return None
    why = (
        f"step {key} waits, but the workflow caught the exception by which it waits: catch Exception, not BaseException"
    )
    cure = f"Correct that, then: orchestra retry {context.run_id}"
    return Verdict(status="failed", error=ErrorInfo("WAIT_CAUGHT", f"{why}. {cure}"), exit_code=1)


def how_ended(ledger: Ledger) -> RunEnd:
    """How a drive of this run ended: final, or waiting for a person."""
    last = ledger.events[-1]
    if last.type in FINAL:
        return ended(ledger.folder.id, last)
    fold = ledger.fold
    alone = not fold.children and len(fold.pending) == 1
    return RunEnd(ledger.folder.id, fold.state.status, 3, alone=alone)


def ended(run_id: str, last: Event) -> RunEnd:
    """How a run ended, from its last event."""
    code = int(last.payload.get("exitCode", 0 if last.type == "RUN_COMPLETED" else 1))
    error, result = last.payload.get("error") or {}, last.payload.get("result")
    reason = result.get("reason", "") if last.type == "RUN_CANCELED" and isinstance(result, dict) else ""
    why = error.get("message", "") or reason
    return RunEnd(run_id, FINAL[last.type], code, str(why), str(error.get("code", "")), result)
