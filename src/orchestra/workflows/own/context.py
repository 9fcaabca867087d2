"""The context of a person's own workflow: each method is a durable, named step of the run.

Rules
1. Each method call is a step of the run: recorded before and after, done once, and replayed after a crash.
2. Steps have names, not positions: `model` is named by its agent; `step`, `ask` and `call` by their first argument. The
   second step of a name is `name.2`. Renaming a step of a waiting run is drift.
3. The workflow function itself must be deterministic. Clocks, random numbers, files and networks may be used only
   inside a step's function.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ParamSpec, TypeVar, TypeVarTuple, overload

import msgspec
from msgspec import UNSET, Struct

from orchestra.core.context import NO_RETRY, Retry
from orchestra.core.context import Context as Run
from orchestra.core.errors import StepFailed, end_of_run
from orchestra.core.model import Constraints, Prompt
from orchestra.core.records import Role
from orchestra.core.work import AskPerson, CommandOutcome, ModelCall, RunCommand
from orchestra.workflows.gate import Ticket, pass_gate, run_command
from orchestra.workflows.own.definition import Definition, hints_of, refuse_another
from orchestra.workflows.own.effects import CallFunction, KeepDiff

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")

_USUAL_RETRY = Retry()
_COUNTED = re.compile(r"[.][0-9]+$")
CHILD_FAILED = "CHILD_FAILED"  # the error of a step whose child run did not complete


class PatchOutcome(Struct, frozen=True):
    """The result of a patch: applied, or the reason why not."""

    applied: bool
    files: tuple[str, ...] = ()  # the changed files
    reason: str = ""  # the person's reason, or why it does not fit the files


class Context:
    """A workflow's view of its run."""

    def __init__(self, run: Run) -> None:
        self._run = run.at("execute", 1)

    @property
    def run_id(self) -> str:
        """The id of this run."""
        return self._run.run_id

    # -- your own code ------------------------------------------------------------------------------------------------

    @overload
    async def step(
        self, name: str, function: Callable[[*Ts], Awaitable[T]], /, *args: *Ts, retry: Retry = NO_RETRY
    ) -> T: ...
    @overload
    async def step(self, name: str, function: Callable[[*Ts], T], /, *args: *Ts, retry: Retry = NO_RETRY) -> T: ...
    async def step(  # type: ignore[misc]  # mypy does not match `*Ts` with `*args: Any`
        self, name: str, function: Callable[..., Any], /, *args: Any, retry: Retry = NO_RETRY
    ) -> Any:
        """Call a function once and return its result, also after a crash. The result must be JSON.

        StepFailed if it raises, after `retry`.
        """
        effect = CallFunction(function, args, again=retry.times > 0)
        called = await self._run.perform(name, effect, retry=retry)
        return typed(called.result, _returned(function))

    # -- models, commands, patches, people ----------------------------------------------------------------------------

    async def model(
        self,
        agent: str,
        text: str,
        system: str = "",
        *,
        files: bool = False,
        role: Role = "planner",
        timeout_sec: float = 600,
        retry: Retry = _USUAL_RETRY,
    ) -> str:
        """Call a model and return its reply. `agent` chooses the model (`--role AGENT=PROVIDER`) and names the step.

        `files`: show the model the files of the project that the text is about. ProviderError if there is no reply.
        """
        call = ModelCall(
            role=role,
            agent=agent,
            prompt=Prompt(system, text),
            notes=(),
            constraints=Constraints(timeoutMs=round(timeout_sec * 1000), patchFirst=False),
            artifact=f"model/{_file_name(self._run.peek_key(agent))}",
            hints=(text,),
            files=files,
        )
        try:
            return (await self._run.perform(agent, call, retry=retry)).text
        except StepFailed as failed:
            raise end_of_run(failed) from failed

    async def command(self, *argv: str, timeout_sec: float = 300, net: bool = False) -> CommandOutcome:
        """Run a whitelisted command in the sandbox, on a copy of the project that is deleted afterwards.

        Refused if the policy forbids it. If a rule has `ask`, the run waits until a person grants exactly this command.
        """
        key = self._run.peek_key("command")
        wanted = RunCommand(
            argv=argv,
            timeoutMs=round(timeout_sec * 1000),
            artifact=f"command/{_file_name(key)}",
            asker="model",
            keeps="nothing",
            net=net,
        )
        return await run_command(self._run, "command", wanted)

    async def patch(self, diff: str, summary: str = "") -> PatchOutcome:
        """Apply a unified diff to the project's files through the gate: checked, approved, all or nothing."""
        name = _file_name(self._run.peek_key("patch"))
        reply = await self._run.perform("diff", KeepDiff(diff, f"patch/{name}.raw.txt"))
        ticket = Ticket(
            artifact=f"patch/{name}.patch",
            approval_id=f"approval-{name}",
            policy=self._run.recorded("approval", "always"),
            summary=summary or "a patch",
        )
        passage = await pass_gate(self._run, reply, ticket)
        if passage.done is None:
            return PatchOutcome(applied=False, reason=passage.approval.reason if passage.approval else "")
        if passage.done.refusal is not None:
            return PatchOutcome(applied=False, reason=passage.done.refusal.message)
        return PatchOutcome(applied=True, files=tuple(file.path for file in passage.files))

    async def ask(
        self, name: str, question: str, options: tuple[str, ...] = (), default: str | None = None, impact: str = ""
    ) -> str:
        """Ask a person and return the answer. The run parks until the answer comes, however long that takes.

        With `options`, no other answer is accepted.
        """
        asked = _file_name(self._run.peek_key(name))
        request = AskPerson(
            questionId=asked,
            question=question,
            reason=impact,
            needed_input=(),
            artifact=f"ask/{asked}.md",
            options=tuple(options) or UNSET,
            default=UNSET if default is None else default,
            impact=impact or UNSET,
        )
        return (await self._run.perform(name, request)).text

    # -- other runs, branches, time -----------------------------------------------------------------------------------

    @overload
    async def call(self, name: str, workflow: Definition[P, R], /, *args: P.args, **params: P.kwargs) -> R: ...
    @overload
    async def call(self, name: str, workflow: str, /, **params: object) -> object: ...
    async def call(self, name: str, workflow: Definition[..., Any] | str, /, *args: Any, **params: Any) -> Any:
        """Run another workflow as a child run and return its result; StepFailed if it does not complete."""
        known = workflow if isinstance(workflow, Definition) else None
        if known:
            refuse_another(known)
        target = known.name if known else str(workflow)
        job = known.job(*args, **params) if known else params
        key = self._run.peek_key(name)
        child = await self._run.call(name, target, msgspec.to_builtins(job))
        if child.status != "completed":
            why = f": {child.error}" if child.error else ""
            raise StepFailed(key, CHILD_FAILED, f"child run {child.childRunId} is {child.status}{why}")
        return typed(child.result, known.returns) if known else child.result

    async def fan_out(
        self, branches: Mapping[str, Callable[[Context], Awaitable[T]]], *, limit: int = 0
    ) -> dict[str, T]:
        """Run branches concurrently, at most `limit` at once (0: no limit); returns their results by name."""

        def branch(function: Callable[[Context], Awaitable[T]]) -> Callable[[Run], Awaitable[T]]:
            return lambda run: function(Context(run))

        return await self._run.fan_out({name: branch(one) for name, one in branches.items()}, limit=limit)

    async def sleep(self, seconds: float) -> None:
        """Wait. The deadline is recorded, so a killed run waits only for the rest."""
        await self._run.sleep(seconds)

    async def now(self) -> str:
        """The time (UTC, ISO 8601), the same on every replay."""
        return await self._run.now()

    async def new_id(self) -> str:
        """A random id, the same on every replay."""
        return await self._run.new_id()


def typed(value: Any, hint: Any) -> Any:
    """Recorded JSON, converted to a function's return type; unchanged if there is none or it does not fit."""
    if hint in (None, Any, object, type(None)):
        return value
    try:
        return msgspec.convert(value, hint, str_keys=True)  # keys in JSON are always text
    except (msgspec.ValidationError, TypeError):
        return value


def _returned(function: Callable[..., Any]) -> Any:
    """The type that a function is declared to return; None if it declares none."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        return function  # a class makes its own instances
    if not hasattr(function, "__annotations__"):
        function = type(function).__call__  # an object that can be called
    return hints_of(function).get("return")


def _file_name(key: str) -> str:
    """A unique name for the files and requests of a step, from its key. The first step of a name has no number."""
    stem, _, number = key.rpartition(".")
    plain = stem if number == "1" and not _COUNTED.search(stem) else key
    return plain.replace("%", "%25").replace("~", "%7E").replace("/", "~")
