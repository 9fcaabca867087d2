"""JSON Schema of every record orchestra writes or reads. The docs and `orchestra schema` come from here."""

from __future__ import annotations

from typing import Any

import msgspec

from orchestra.config.sections import Config
from orchestra.context.rules import Rules
from orchestra.core import command, effects, work
from orchestra.core.errors import UsageError
from orchestra.core.inbox import Message
from orchestra.core.model import ProviderCapabilities, ProviderRequest, ProviderResponse
from orchestra.core.records import Event, WorkflowState
from orchestra.core.sent import Sent
from orchestra.patch.result import Ask, Noop, Patch
from orchestra.providers.scripted import Script
from orchestra.workflows.all import ALL

RECORDS: dict[str, tuple[Any, str]] = {
    "event": (Event, "one line of events.ndjson"),
    "state": (WorkflowState, "state.json"),
    "provider-request": (ProviderRequest, "artifacts/<phase>/iter-NNNN.prompt.json: what a model is asked"),
    "sent": (Sent, "`sent` in artifacts/<phase>/iter-NNNN.prompt.json: a request that went out, and what was in it"),
    "rules": (Rules, "rules.json: the project's own rules as they were when the run began"),
    "provider-response": (ProviderResponse, "what a provider answers"),
    "provider-capabilities": (ProviderCapabilities, "what a provider can do"),
    "result": (Patch | Ask | Noop, "a developer's or fixer's reply, parsed"),
    "model-reply": (work.ModelReply, "payload.outcome of a model call"),
    "command-outcome": (command.CommandOutcome, "payload.outcome of a check or a task's command"),
    "patch-proposal": (work.PatchProposal, "payload.outcome of PATCH_PRODUCED"),
    "approval": (work.Approval, "payload.outcome of APPROVAL_GRANTED and APPROVAL_REJECTED"),
    "applied": (work.Applied, "payload.outcome of PATCH_APPLIED and PATCH_APPLY_FAILED"),
    "answer": (work.Answer, "payload.outcome of QUESTION_ANSWERED"),
    "child-result": (effects.ChildResult, "payload.outcome of a child run's step"),
    "message": (Message, "inbox/<request>.json: a person's message to the run"),
    "script": (Script, "a scripted provider's file"),
    "config": (Config, "orchestra.config.yaml"),
    **{name: record for workflow in ALL for name, record in workflow.records.items()},
}


def find(name: str) -> str:
    """The name of a record, given its name or the name of its type; UsageError if there is none."""
    for known, (kind, _) in RECORDS.items():
        if name in (known, getattr(kind, "__name__", "")):
            return known
    raise UsageError(f"no record {name!r}; there are: {', '.join(RECORDS)}")


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of one record."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(RECORDS[name][0])}
