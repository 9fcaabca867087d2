"""Handlers of the loop's own effects: each writes an artifact."""

from __future__ import annotations

import msgspec

from orchestra.core.context import Step
from orchestra.core.records import utf8
from orchestra.workflows.loop.effects import Evaluate, Judged, KeepPlan, KeptPlan


async def record_evaluation(effect: Evaluate, step: Step) -> Judged:
    """Write evaluate/iter-NNNN.json, durable before the event that names it (S1-106, D-04)."""
    ledger = step.ledger
    data = msgspec.json.format(msgspec.json.encode(effect.evaluation)) + b"\n"
    path = ledger.folder.artifact(effect.artifact)
    data = utf8(ledger.redactor.text(data.decode()))
    ledger.disk.publish(path, data, durable=True)
    if effect.copy:  # the event names `artifact`, and a later verdict replaces the copy
        ledger.disk.publish(ledger.folder.artifact(effect.copy), data, durable=False)
    said = effect.evaluation
    compared = said.checks if any(check.before for check in said.checks) else ()
    return Judged(said.decision, said.grounds, ledger.folder.reference(path, data), said.checksChanged, compared)


async def keep_plan(effect: KeepPlan, step: Step) -> KeptPlan:
    """Write plan/iter-0001.md, durable before the event that names it (S1-103, D-04)."""
    ledger = step.ledger
    text = ledger.redactor.text(effect.text)
    path = ledger.folder.artifact(effect.document)
    ledger.disk.publish(path, utf8(text), durable=True)
    return KeptPlan(text, ledger.folder.reference(path, utf8(text)))
