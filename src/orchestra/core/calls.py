"""The model calls in a journal: for the audit, the budget, the report, and providers that count their calls.

Rules
1. The cost of a call is known only when its reply is recorded.
2. If a kill cut a call off, `<artifact>.asked.json` counts it before it is made again, with the most that the earlier
   requests may have cost. The reply's record takes both numbers over. For a call that never gets a reply, only the file
   has them.
3. A fork has calls in its journal that the run it was forked from made and paid. They are marked (`kept`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, UnsetType

from orchestra.core.errors import OddFile
from orchestra.core.model import Destination, FinishReason, ProviderFailure, Usage, Withheld
from orchestra.core.reading import RunCreated
from orchestra.core.records import ArtifactRef, Event
from orchestra.core.run import RunFolder
from orchestra.core.work import ModelReply

_NOWHERE = {"path": "", "bytes": 0, "sha256": "sha256:" + "0" * 64}
_LEAST = {"text": "", "raw": _NOWHERE, "finishReason": "stop", "durationMs": 0, "provider": ""}
_ASKED = ".asked.json"
_MOST = 65_536  # bytes of an `.asked.json`


class Asked(Struct, frozen=True, omit_defaults=True):
    """`<artifact>.asked.json`: how often a call without a recorded reply was made (rule 2)."""

    key: str
    times: int = 1
    lostUsd: float | None = None  # what all but the last may have cost; None: not known


class PastCall(Struct, frozen=True, kw_only=True, gc=False):
    """One recorded model call."""

    key: str
    role: str
    agent: str = ""
    phase: str = ""
    status: Literal["ok", "failed", "open"] = "ok"
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()
    costUsd: float | None = 0.0  # None: no price is known, or no reply is recorded
    asked: int = 1  # made again after each kill before the reply: possibly paid as often (D-05)
    requests: int = 1  # requests of the last call: one, except for a CLI that retries by itself
    lostUsd: float | None = None  # the most its cut-off requests may have cost; None: there are none, or unknown
    raw: ArtifactRef | None = None
    error: ProviderFailure | None = None
    finishReason: FinishReason = "stop"
    request: str = ""
    source: str = ""
    contextBytes: int = 0
    artifact: str = ""  # the stem of its files
    files: tuple[str, ...] = ()  # workspace files in the prompt
    to: Destination = Destination()
    withheld: tuple[Withheld, ...] = ()
    mostUsd: float = 0.0  # reserved for its first request; 0 if there was no budget
    kept: bool = False  # copied from the run that this one was forked from, which made and paid it (core/fork.py)


def past_calls(events: Iterable[Event]) -> list[PastCall]:
    """Every model call of a journal in order, paid or not."""
    calls: dict[str, PastCall] = {}
    copied = ""
    for event in events:
        if event.type == "RUN_CREATED":
            copied = last_copied(event)
        if event.payload.get("effect") != "ModelCall":
            continue
        key = str(event.payload.get("key", ""))
        begun = _begun(key, event) if event.type == "PHASE_STARTED" or key not in calls else calls[key]
        calls[key] = _past_call(begun, event, kept=event.id <= copied and event.type != "PHASE_STARTED")
    return list(calls.values())


def last_copied(created: Event) -> str:
    """The id of the last event that a run copied from the one it was forked from; empty if it is no fork."""
    origin = RunCreated.of(created).forkedFrom
    return origin.last if origin else ""


def calls_in(folder: RunFolder, events: Iterable[Event]) -> list[PastCall]:
    """The same as `past_calls`; for calls without a reply, the count is read from the run's folder (rule 2)."""
    return [call if call.raw else _counted(call, folder) for call in past_calls(events)]


def reply_of(outcome: Mapping[str, Any]) -> ModelReply:
    """The reply in a recorded outcome. Fields that another version did not record have defaults."""
    return msgspec.convert({**_LEAST, **outcome}, ModelReply)


def asked_file(folder: RunFolder, artifact: str) -> Path:
    """The path of the file that counts an artifact's calls."""
    return folder.artifact(f"{artifact}{_ASKED}")


def read_asked(folder: RunFolder, artifact: str, key: str) -> Asked:
    """How often this call without a reply was made: once, unless the file has a count."""
    try:
        asked = msgspec.json.decode(folder.read(f"artifacts/{artifact}{_ASKED}", _MOST), type=Asked)
    except (OSError, OddFile, msgspec.DecodeError, UnicodeDecodeError):
        return Asked(key)
    return asked if asked.key == key else Asked(key)


def _counted(call: PastCall, folder: RunFolder) -> PastCall:
    asked = read_asked(folder, call.artifact, call.key)
    return msgspec.structs.replace(call, asked=max(call.asked, asked.times), lostUsd=asked.lostUsd)


def _begun(key: str, event: Event) -> PastCall:
    """A call, from its intent event."""
    payload = event.payload
    return PastCall(
        key=key,
        role=payload.get("role", ""),
        agent=payload.get("agent", ""),
        phase=str(event.phase),
        costUsd=None,
        artifact=payload.get("artifact", ""),
        mostUsd=_amount(payload.get("mostUsd")),
    )


def _amount(said: object) -> float:
    return said if isinstance(said, float) and said > 0 else 0.0


def _past_call(begun: PastCall, event: Event, *, kept: bool) -> PastCall:
    """A call, from its intent and its outcome event."""
    call = PastCall(
        key=begun.key,
        role=begun.role,
        agent=begun.agent,
        phase=begun.phase,
        status="open" if event.type == "PHASE_STARTED" else "failed" if "error" in event.payload else "ok",
        costUsd=None,
        asked=2 if event.payload.get("redone") else 1,
        artifact=begun.artifact,
        mostUsd=begun.mostUsd,
        kept=kept,
    )
    error = event.payload.get("error") or {}
    if error.get("reason") == "provider":
        call = msgspec.structs.replace(call, error=msgspec.convert(error, ProviderFailure))
    if not event.payload.get("outcome"):
        return call
    reply = reply_of(event.payload["outcome"])
    return msgspec.structs.replace(
        call,
        provider=reply.provider,
        model=reply.model,
        usage=Usage() if isinstance(reply.usage, UnsetType) else reply.usage,
        costUsd=reply.costUsd,
        asked=reply.asked if reply.recovered else max(call.asked, reply.asked),
        requests=reply.requests,
        lostUsd=reply.lostUsd,
        raw=reply.raw,
        finishReason=reply.finishReason,
        request=reply.request,
        contextBytes=reply.contextBytes,
        source="" if isinstance(reply.source, UnsetType) else reply.source,
        files=reply.files,
        to=reply.to,
        withheld=reply.withheld,
    )
