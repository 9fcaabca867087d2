"""Checks the payload of an event: each field that readers use has the right type. Pure.

Rules
1. A journal may come from anybody. Before a view reads an event, its payload is checked against the records of
   core/reading.py. A field with a wrong type is damage, and is named. So views need not check values again.
2. No field is required: another implementation may leave some out, and a view then shows less.
3. The outcome of a step is checked only if the step is one of orchestra's own.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct

from orchestra.core.calls import reply_of
from orchestra.core.model import ProviderFailure
from orchestra.core.reading import OWN_EFFECTS, Failure, Params, Request, RunCreated, RunEnded, StepEvent, StepOutcome
from orchestra.core.records import Event, is_time


class _OfTheCore(Struct):
    """The fields that only the core reads."""

    intent: str = ""
    outcome: Any = None
    prev: str = ""
    redone: Any = False
    seal: str = ""
    vouches: Any = None
    waitedMs: int = 0
    deadline: str = ""


def _merged(*kinds: type[Struct]) -> Any:
    """One record type with the fields of all kinds of events; every payload is checked against it."""
    found = {info.encode_name: info for kind in kinds for info in msgspec.structs.fields(kind)}
    fields = [
        (name, info.type, info.default_factory() if info.default is NODEFAULT else info.default)
        for name, info in sorted(found.items())
    ]
    return msgspec.defstruct("Payload", fields)


_Payload = _merged(RunCreated, StepEvent, Request, RunEnded, _OfTheCore)

# The fields that are kept of an event too long to be shown whole (core/lines.py).
PAYLOAD: tuple[str, ...] = _Payload.__struct_fields__
OUTCOME, PARAMS, ERROR = (kind.__struct_fields__ for kind in (StepOutcome, Params, Failure))


def misfit(event: Event, number: int) -> str:
    """What is wrong with the event of this line; empty if nothing is."""
    try:
        if not _is_moment(event.ts):
            return f"its time {event.ts} is none"
        fields = {**event.payload, "params": None} if event.payload.get("own") is True else event.payload
        payload = msgspec.convert(fields, _Payload)
        for name in ("deadline", "retryAt"):
            if (moment := getattr(payload, name)) and not _is_moment(moment):
                return f"its {name} {moment} is no time"
        if payload.outcome is not None and payload.effect in OWN_EFFECTS:
            msgspec.convert(payload.outcome, StepOutcome)
            if payload.effect == "ModelCall":
                reply_of(payload.outcome)
        if payload.error is not None and payload.error.reason == "provider":
            msgspec.convert(event.payload["error"], ProviderFailure)
    except msgspec.ValidationError as error:
        return f"its payload: {error}"
    if number == 1 and event.type != "RUN_CREATED":
        return f"it is {event.type}, and a run begins with RUN_CREATED"
    return ""


def _is_moment(text: str) -> bool:
    """Whether this is a time as journals have them, and one that exists."""
    try:
        return bool(is_time(text) and datetime.fromisoformat(text))
    except ValueError:
        return False
