"""Whether the payload of an event is what its readers rely on: each field has the kind of value it must have. Pure.

Rules
1. A journal may be anybody's. Before a view looks at an event, its payload is held against the records of
   core/reading.py; what does not fit is damage, named by its field. So no view has to doubt each value again.
2. Nothing is required: another implementation may leave out what it likes, and a view then has less to show.
3. What came of a step is held against them only if the step is one of orchestra's own.
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

    agent: str = ""
    artifact: str = ""
    intent: str = ""
    outcome: Any = None
    parentKey: str = ""
    prev: str = ""
    redone: Any = False
    role: str = ""
    seal: str = ""
    vouches: Any = None


def _merged(*kinds: type[Struct]) -> Any:
    """One record with the fields of all: a payload is held against it whatever its event is."""
    found = {info.encode_name: info for kind in kinds for info in msgspec.structs.fields(kind)}
    fields = [
        (name, info.type, info.default_factory() if info.default is NODEFAULT else info.default)
        for name, info in sorted(found.items())
    ]
    return msgspec.defstruct("Payload", fields)


_Payload = _merged(RunCreated, StepEvent, Request, RunEnded, _OfTheCore)

# The names of what is kept of an event too long to be shown whole (core/lines.py).
PAYLOAD: tuple[str, ...] = _Payload.__struct_fields__
OUTCOME, PARAMS, ERROR = (kind.__struct_fields__ for kind in (StepOutcome, Params, Failure))


def misfit(event: Event, number: int) -> str:
    """What is wrong with the event of this line; empty if readers can rely on it."""
    try:
        if not is_time(event.ts):
            return f"its time {event.ts} is none"
        datetime.fromisoformat(event.ts)
        payload = msgspec.convert(event.payload, _Payload)
        if payload.outcome is not None and payload.effect in OWN_EFFECTS:
            msgspec.convert(payload.outcome, StepOutcome)
            if payload.effect == "ModelCall":
                reply_of(payload.outcome)
        if payload.error is not None and payload.error.reason == "provider":
            msgspec.convert(event.payload["error"], ProviderFailure)
    except msgspec.ValidationError as error:
        return f"its payload: {error}"
    except ValueError:
        return f"its time {event.ts} is none"
    if number == 1 and event.type != "RUN_CREATED":
        return f"it is {event.type}, and a run begins with RUN_CREATED"
    return ""
