"""JSON Schema of every record orchestra writes or reads. The docs and `orchestra schema` come from here."""

from __future__ import annotations

from typing import Any

import msgspec

from orchestra.config.settings import Config
from orchestra.core import effects, work
from orchestra.core.errors import UsageError
from orchestra.core.inbox import Message
from orchestra.core.model import ProviderCapabilities, ProviderRequest, ProviderResponse
from orchestra.core.records import Event, WorkflowState
from orchestra.core.sent import Sent
from orchestra.patch.result import Ask, Noop, Patch
from orchestra.providers.scripted import Script
from orchestra.workflows.dag import shapes as dag
from orchestra.workflows.dag.board import Line
from orchestra.workflows.dag.history import Moment
from orchestra.workflows.dag.scenario import EvalReport, Scenario
from orchestra.workflows.loop.shapes import Job

RECORDS: dict[str, tuple[Any, str]] = {
    "event": (Event, "one line of events.ndjson"),
    "state": (WorkflowState, "state.json"),
    "provider-request": (ProviderRequest, "artifacts/<phase>/iter-NNNN.prompt.json: what a model is asked"),
    "sent": (Sent, "`sent` in artifacts/<phase>/iter-NNNN.prompt.json: a request that went out, and what was in it"),
    "provider-response": (ProviderResponse, "what a provider answers"),
    "provider-capabilities": (ProviderCapabilities, "what a provider can do"),
    "result": (Patch | Ask | Noop, "a developer's or fixer's reply, parsed"),
    "evaluation": (work.Evaluation, "artifacts/evaluate/iter-NNNN.json"),
    "model-reply": (work.ModelReply, "payload.outcome of a model call"),
    "command-outcome": (work.CommandOutcome, "payload.outcome of a check or a task's command"),
    "patch-proposal": (work.PatchProposal, "payload.outcome of PATCH_PRODUCED"),
    "approval": (work.Approval, "payload.outcome of APPROVAL_GRANTED and APPROVAL_REJECTED"),
    "applied": (work.Applied, "payload.outcome of PATCH_APPLIED and PATCH_APPLY_FAILED"),
    "answer": (work.Answer, "payload.outcome of QUESTION_ANSWERED"),
    "child-result": (effects.ChildResult, "payload.outcome of a child run's step"),
    "message": (Message, "inbox/<request>.json: a person's word on its way in"),
    "loop-job": (Job, "payload.params of a loop's RUN_CREATED"),
    "dag-job": (dag.Job, "payload.params of a task graph's RUN_CREATED"),
    "plan": (dag.Plan, "plan.json; L2 → L1"),
    "plan-request": (dag.PlanRequest, "messages.jsonl: L1 → L2"),
    "assignment": (dag.Assignment, "messages.jsonl: L2 → L3"),
    "task-result": (dag.TaskResult, "messages.jsonl: L3 → L2"),
    "task": (dag.Task, "S2's task record"),
    "task-line": (Line, "one line of tasks.jsonl: a task as it is now, and what happened to it"),
    "trace-line": (Moment, "one line of `orchestra trace --json`: what a level did, or told another"),
    "script": (Script, "a scripted provider's file"),
    "config": (Config, "orchestra.config.yaml"),
    "scenario": (Scenario, "a golden scenario: what `eval run` takes"),
    "eval-report": (EvalReport, "what `eval run --report json` prints"),
}


def find(name: str) -> str:
    """A record by its name or its type's."""
    for known, (kind, _) in RECORDS.items():
        if name in (known, getattr(kind, "__name__", "")):
            return known
    raise UsageError(f"no record {name!r}; there are: {', '.join(RECORDS)}")


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of one record."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(RECORDS[name][0])}
