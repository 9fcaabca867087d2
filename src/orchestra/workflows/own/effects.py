"""The effects of a person's own workflow: a function that is called once, and a diff that is kept for the gate.

Rules
1. A function is called when its step has no recorded result, and never otherwise. It may be called twice if a kill
   falls between its end and the record; what it does outside should bear that.
2. What it returns is recorded as JSON, and the flow gets that record, live as after a crash.
3. A plain function runs in a thread: it may block without holding up the branches beside it.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from orchestra.core.context import Step
from orchestra.core.effects import Effect, digest_of
from orchestra.core.errors import OrchestraError, StepFailed
from orchestra.core.records import utf8
from orchestra.core.work import Reply
from orchestra.patch.markers import PATCH_BEGIN, PATCH_END

FAILED = "STEP_FAILED"  # how a step fails whose function raised
NOT_JSON = "NOT_JSON"


class Called(Struct, frozen=True):
    """What a function returned."""

    result: Any


class CallFunction(Effect[Called], frozen=True):
    """Call a function of the person's own, once."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    again: bool = False  # whether a failure may be tried again

    outcome: ClassVar[Any] = Called

    @property
    def name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__qualname__)

    def identity(self) -> str:
        return digest_of(["CallFunction", self.name, [_shown(one) for one in self.arguments]])

    def public(self) -> dict[str, Any]:
        return {"function": self.name}


class KeepDiff(Effect[Reply], frozen=True):
    """Keep a diff as a file of the run, from which the gate takes it."""

    diff: str
    artifact: str

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Reply

    def public(self) -> dict[str, Any]:
        return {"artifact": self.artifact}  # the diff is in the outcome, once


async def call_function(effect: CallFunction, step: Step) -> Called:
    """Handler of CallFunction."""
    try:
        if inspect.iscoroutinefunction(effect.function):
            value = await effect.function(*effect.arguments)
        else:
            value = await asyncio.to_thread(effect.function, *effect.arguments)
            if inspect.isawaitable(value):  # a partial or a lambda around a coroutine function
                value = await value
    except OrchestraError:
        raise
    except Exception as error:
        message = f"{effect.name}: {type(error).__name__}: {error}{_place(error)}"
        raise StepFailed(step.key, FAILED, message, retriable=effect.again) from error
    try:
        return Called(msgspec.json.decode(msgspec.json.encode(value)))
    except (TypeError, ValueError, UnicodeEncodeError) as error:
        what = f"{effect.name} returned {type(value).__name__}, which cannot be recorded as JSON ({error})"
        raise StepFailed(step.key, NOT_JSON, f"{what}: return text, numbers, lists, dicts or structs") from error


async def keep_diff(effect: KeepDiff, step: Step) -> Reply:
    """Handler of KeepDiff."""
    ledger = step.ledger
    text = f"{PATCH_BEGIN}\n{effect.diff.rstrip()}\n{PATCH_END}\n"
    data = utf8(text)
    path = ledger.folder.artifact(effect.artifact)
    ledger.disk.publish(path, data, durable=True)
    return Reply(ledger.redactor.text(text), ledger.folder.reference(path, data))


def _shown(argument: Any) -> Any:
    """An argument as far as it is data: objects that are none count by their type."""
    try:
        msgspec.json.encode(argument)
    except (TypeError, ValueError, UnicodeEncodeError):
        return f"<{type(argument).__qualname__}>"
    return argument


def _place(error: BaseException) -> str:
    """The line of the person's code that raised, as the end of a message."""
    found = error.__traceback__
    while found is not None and found.tb_next is not None:
        found = found.tb_next
    if found is None:
        return ""
    return f" ({os.path.basename(found.tb_frame.f_code.co_filename)}:{found.tb_lineno})"
