"""The model calls of a journal, read back: for the audit, the budget, the report, and providers that keep count."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct, UnsetType

from orchestra.core.model import FinishReason, ProviderFailure, Usage
from orchestra.core.records import ArtifactRef, Event
from orchestra.core.work import ModelReply


class PastCall(Struct, frozen=True, kw_only=True):
    """One recorded model call."""

    key: str
    role: str
    agent: str = ""
    phase: str = ""
    status: Literal["ok", "failed", "open"] = "ok"
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()
    costUsd: float | None = 0.0  # None: nobody knows the price
    asked: int = 1  # again after each kill before its reply was whole: possibly paid as often (D-05)
    raw: ArtifactRef | None = None
    error: ProviderFailure | None = None
    finishReason: FinishReason = "stop"
    request: str = ""
    source: str = ""
    contextBytes: int = 0
    artifact: str = ""  # the stem of its files

    @property
    def often(self) -> str:
        """How often it may have been paid, in words."""
        return {1: "once", 2: "twice"}.get(self.asked, f"{self.asked} times")


def past_calls(events: list[Event]) -> list[PastCall]:
    """Every model call of a journal in order, paid or not."""
    intents: dict[str, Event] = {}
    calls: dict[str, PastCall] = {}
    for event in events:
        if event.payload.get("effect") != "ModelCall":
            continue
        key = event.payload["key"]
        if event.type == "PHASE_STARTED":
            intents[key] = event
        calls[key] = _past_call(intents[key], event)
    return list(calls.values())


def _past_call(intent: Event, event: Event) -> PastCall:
    call = PastCall(
        key=intent.payload["key"],
        role=intent.payload["role"],
        agent=intent.payload["agent"],
        phase=str(intent.phase),
        status="open" if event.type == "PHASE_STARTED" else "failed" if "error" in event.payload else "ok",
        asked=2 if event.payload.get("redone") else 1,
        artifact=intent.payload.get("artifact", ""),
    )
    error = event.payload.get("error", {})
    if error.get("reason") == "provider":
        call = msgspec.structs.replace(call, error=msgspec.convert(error, ProviderFailure))
    if not event.payload.get("outcome"):
        return call
    reply = msgspec.convert(event.payload["outcome"], ModelReply)
    return msgspec.structs.replace(
        call,
        provider=reply.provider,
        model=reply.model,
        usage=Usage() if isinstance(reply.usage, UnsetType) else reply.usage,
        costUsd=reply.costUsd,
        asked=reply.asked if reply.recovered else max(call.asked, reply.asked),
        raw=reply.raw,
        finishReason=reply.finishReason,
        request=reply.request,
        contextBytes=reply.contextBytes,
        source="" if isinstance(reply.source, UnsetType) else reply.source,
    )
