"""The effects of a person's own workflow: calling a function once, and keeping a diff for the gate.

Rules
1. A function is called when its step has no recorded result, and never otherwise. It may be called twice if a kill
   falls between its end and the record; its author must expect that.
2. What it returns is recorded as JSON, and the flow gets that record, live as after a crash.
3. A plain function runs in a thread: it may block without holding up the branches beside it. An interrupted program
   does not wait for that thread: the thread ends with the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import os
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from orchestra.core.context import Step
from orchestra.core.effects import Effect, digest_of
from orchestra.core.errors import OrchestraError, StepFailed
from orchestra.core.plain import no_json
from orchestra.core.work import Reply
from orchestra.patch.gatekeeper import kept_diff

FAILED = "STEP_FAILED"  # the error of a step whose function raised
NOT_JSON = "NOT_JSON"


class Called(Struct, frozen=True):
    """The return value of a function."""

    result: Any


class CallFunction(Effect[Called], frozen=True):
    """Call a function of a person's workflow once."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    again: bool = False  # whether it is called again after a failure

    outcome: ClassVar[Any] = Called

    @property
    def name(self) -> str:
        function = self.function
        while isinstance(function, functools.partial):
            function = function.func
        return getattr(function, "__qualname__", type(function).__qualname__)

    def identity(self) -> str:
        return digest_of(["CallFunction", self.name, [_shown(one) for one in self.arguments]])

    def public(self) -> dict[str, Any]:
        return {"function": self.name}


class KeepDiff(Effect[Reply], frozen=True):
    """Write a diff to a file of the run, for the gate."""

    diff: str
    artifact: str

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Reply

    def public(self) -> dict[str, Any]:
        return {"artifact": self.artifact}  # the diff is in the outcome


async def call_function(effect: CallFunction, step: Step) -> Called:
    """Handler of CallFunction."""
    try:
        if inspect.iscoroutinefunction(effect.function):
            value = await effect.function(*effect.arguments)
        else:
            value = await _in_thread(effect.function, effect.arguments)
            if inspect.isawaitable(value):  # a partial or a lambda around a coroutine function
                value = await value
    except OrchestraError:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # the run is being stopped
        raise StepFailed(
            step.key, FAILED, f"{effect.name} was canceled by its own code", retriable=effect.again
        ) from error
    except (Exception, SystemExit) as error:
        message = f"{effect.name}: {type(error).__name__}: {error}{place_of(error)}"
        raise StepFailed(step.key, FAILED, message, retriable=effect.again) from error
    try:
        return Called(as_json(value))
    except (TypeError, ValueError, UnicodeEncodeError) as error:
        what = f"{effect.name} returned {type(value).__name__}, which cannot be recorded as JSON ({error})"
        raise StepFailed(step.key, NOT_JSON, f"{what}: return text, numbers, lists, dicts or structs") from error


def as_json(value: Any) -> Any:
    """A value as it comes back from its record; TypeError or ValueError if it cannot be recorded as JSON."""
    recorded = msgspec.json.encode(value)
    if unfit := no_json(msgspec.to_builtins(value)):
        raise ValueError(unfit)
    return msgspec.json.decode(recorded)


async def _in_thread(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call a function in a thread of its own and return what it returned (rule 3)."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    variables = contextvars.copy_context()

    def tell(value: Any, error: BaseException | None) -> None:
        if not done.done():  # else the step was canceled
            done.set_result((value, error))

    def work() -> None:
        value, raised = None, None
        try:
            value = variables.run(function, *arguments)
        except BaseException as error:
            raised = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: the program was interrupted
            loop.call_soon_threadsafe(tell, value, raised)

    threading.Thread(target=work, name=f"step {getattr(function, '__name__', '')}", daemon=True).start()
    value, error = await done
    if error is not None:
        raise error
    return value


async def keep_diff(effect: KeepDiff, step: Step) -> Reply:
    """Handler of KeepDiff."""
    return kept_diff(step.ledger, effect.artifact, effect.diff)


def _shown(argument: Any) -> Any:
    """The argument for the step's identity; an object that is not JSON is represented by its type."""
    try:
        msgspec.json.encode(argument)
    except (TypeError, ValueError, UnicodeEncodeError):
        return f"<{type(argument).__qualname__}>"
    return argument


def place_of(error: BaseException) -> str:
    """The file and line of the person's code that raised, as the end of a message."""
    found = error.__traceback__
    while found is not None and found.tb_next is not None:
        found = found.tb_next
    if found is None:
        return ""
    return f" ({os.path.basename(found.tb_frame.f_code.co_filename)}:{found.tb_lineno})"
