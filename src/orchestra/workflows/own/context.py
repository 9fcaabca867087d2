"""The context of a person's own workflow: each thing it does outside is one line, durable and named.

Rules
1. Each method call is a step of the run: recorded before and after, done once, and replayed after a crash.
2. Steps have names, not positions: `model` is named by its agent; `step`, `ask` and `call` by their first argument. The
   second step of a name is `name.2`. Renaming a step of a waiting run is drift.
3. The workflow itself must be deterministic: it reads clocks, random numbers, files and networks only in the function
   of a step.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ParamSpec, TypeVar, TypeVarTuple, overload

import msgspec
from msgspec import UNSET, Struct, UnsetType

from orchestra.core.command import CommandOutcome, RunCommand
from orchestra.core.context import Context as Run
from orchestra.core.errors import StepFailed, end_of_run
from orchestra.core.inbox import free_name
from orchestra.core.looks import Hashed, Looked
from orchestra.core.model import Constraints, Prompt
from orchestra.core.names import shortened
from orchestra.core.records import Role
from orchestra.core.retry import NO_RETRY, Retry
from orchestra.core.work import AskPerson, ModelCall
from orchestra.workflows.gate import Ticket, pass_gate, run_command
from orchestra.workflows.own.arguments import Verb
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
    """Whether a patch was applied, and to which files; if not, the reason."""

    applied: bool
    files: tuple[str, ...] = ()  # those that were changed
    reason: str = ""  # of the person who rejected it, or why it does not fit the files


class Context:
    """A workflow's view of its run."""

    def __init__(self, run: Run) -> None:
        self._run = run.at("execute", 1)

    @property
    def run_id(self) -> str:
        """The id of this run."""
        return self._run.run_id

    @property
    def inputs(self) -> dict[str, str]:
        """The files of `--input-run`: the digest of each, by its path in the project. Empty without one."""
        return dict(self._run.recorded("inputs", {}))

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
        verb = Verb(self._run, "step", name)
        verb.function(function)
        verb.retry(retry)
        effect = CallFunction(function, args, again=retry.times > 0)
        called = await self._run.perform(name, effect, retry=retry)
        return as_declared(called.result, returned(function))

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
        """Ask a model and return its reply. `agent` is a name for the model (`--role AGENT=PROVIDER`) and for the step.

        `files`: show the model the files of the project that the text is about. ProviderError if there is no reply.
        """
        verb = Verb(self._run, "model", agent)
        verb.texts(text=text, system=system)
        verb.flag("files", files)
        verb.role(role)
        verb.seconds("timeout_sec", timeout_sec)
        verb.retry(retry)
        call = ModelCall(
            role=role,
            agent=agent,
            prompt=Prompt(system, text),
            notes=(),
            constraints=Constraints(timeoutMs=round(timeout_sec * 1000), patchFirst=False),
            artifact=f"model/{file_name(self._run.peek_key(agent))}",
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
        verb = Verb(self._run, "command")
        if not argv:
            raise verb.refused("no command is given: write ctx.command(program, argument, …)")
        verb.items("argv", argv)
        verb.seconds("timeout_sec", timeout_sec)
        verb.flag("net", net)
        key = self._run.peek_key("command")
        wanted = RunCommand(
            argv=argv,
            timeoutMs=round(timeout_sec * 1000),
            artifact=f"command/{file_name(key)}",
            asker="model",
            keeps="nothing",
            net=net,
        )
        return await run_command(self._run, "command", wanted)

    async def patch(self, diff: str, summary: str = "") -> PatchOutcome:
        """Apply a unified diff to the files of the project and return what came of it.

        The diff is checked, then approved by a person or the policy, and applied whole or not at all.
        """
        Verb(self._run, "patch").texts(diff=diff, summary=summary)
        name = file_name(self._run.peek_key("patch"))
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
        """Ask a person and return the answer. The run waits without a process until the answer is recorded.

        With `options`, only these are answers, and the default is one of them.
        """
        verb = Verb(self._run, "ask", name)
        verb.texts(question=question, impact=impact)
        given = verb.options(options, default)
        asked = free_name(file_name(self._run.peek_key(name)))
        request = AskPerson(
            questionId=asked,
            question=question,
            reason=impact,
            needed_input=(),
            artifact=f"ask/{asked}.md",
            options=given or UNSET,
            default=UNSET if default is None else default,
            impact=impact or UNSET,
        )
        return (await self._run.perform(name, request)).text

    # -- files that a person may edit ---------------------------------------------------------------------------------

    async def look(self, name: str, path: str, text: str) -> Looked:
        """A file of the project with a text that this run made: written, and read again whenever the run is driven.

        The result has the file's `text`: as written, or as a person edited it. If the file was edited and there is a
        new `text`, a person decides. Use the result only inside an `edition` that is made of it.
        """
        Verb(self._run, "look", name).texts(path=path, text=text)
        return await self._run.look(name, path, text)

    async def tree_hash(self, name: str, *globs: str) -> Hashed:
        """The contents of the project's files that these globs name (none: all), as one digest: for an `edition`."""
        Verb(self._run, "tree_hash", name).items("globs", globs)
        return await self._run.tree_hash(name, globs)

    async def edition(self, name: str, /, **inputs: object) -> Context:
        """A context whose steps hold for these inputs only: when one of them changes, the steps are done anew."""
        Verb(self._run, "edition", name).plain(inputs)
        return Context(await self._run.edition(name, inputs))

    # -- other runs, branches, time -----------------------------------------------------------------------------------

    @overload
    async def call(self, name: str, workflow: Definition[P, R], /, *args: P.args, **params: P.kwargs) -> R: ...
    @overload
    async def call(self, name: str, workflow: str, /, **params: object) -> object: ...
    async def call(self, name: str, workflow: Definition[..., Any] | str, /, *args: Any, **params: Any) -> Any:
        """Run another workflow as a child run and return its result; StepFailed if it does not complete."""
        return await _call(self._run, UNSET, name, workflow, args, params)

    def inside(self, folder: str) -> Inside:
        """A folder for child runs: `ctx.inside("app").call(…)` runs a workflow that sees and changes only that folder.

        The path starts from the folder that this run works in, and does not leave it. The folder is made if it is
        missing. StepFailed of the call if no run may work there.
        """
        Verb(self._run, "inside").texts(folder=folder)
        return Inside(self._run, folder)

    async def fan_out(
        self, branches: Mapping[str, Callable[[Context], Awaitable[T]]], *, limit: int = 0
    ) -> dict[str, T]:
        """Run branches side by side, at most `limit` at once (0: any number); returns the result of each, by name."""

        Verb(self._run, "fan_out").branches(branches, limit)

        def branch(function: Callable[[Context], Awaitable[T]]) -> Callable[[Run], Awaitable[T]]:
            return lambda run: function(Context(run))

        return await self._run.fan_out({name: branch(one) for name, one in branches.items()}, limit=limit)

    async def sleep(self, seconds: float) -> None:
        """Wait. The deadline is recorded, so a killed run waits only for the rest."""
        Verb(self._run, "sleep").seconds("seconds", seconds, above_zero=False)
        await self._run.sleep(seconds)

    async def now(self) -> str:
        """The time (UTC, ISO 8601), the same on every replay."""
        return await self._run.now()

    async def new_id(self) -> str:
        """A random id, the same on every replay."""
        return await self._run.new_id()


class Inside:
    """A folder of the project that child runs work in."""

    def __init__(self, run: Run, folder: str) -> None:
        self._run = run
        self._folder = folder

    @overload
    async def call(self, name: str, workflow: Definition[P, R], /, *args: P.args, **params: P.kwargs) -> R: ...
    @overload
    async def call(self, name: str, workflow: str, /, **params: object) -> object: ...
    async def call(self, name: str, workflow: Definition[..., Any] | str, /, *args: Any, **params: Any) -> Any:
        """Run another workflow in this folder as a child run and return its result, as `Context.call` does."""
        return await _call(self._run, self._folder, name, workflow, args, params)


async def _call(
    run: Run,
    workspace: str | UnsetType,
    name: str,
    workflow: Definition[..., Any] | str,
    args: tuple[Any, ...],
    params: dict[str, Any],
) -> Any:
    verb = Verb(run, "call", name)
    verb.workflow(workflow)
    known = workflow if isinstance(workflow, Definition) else None
    if known:
        refuse_another(known)
    target = known.name if known else str(workflow)
    job = known.job(*args, **params) if known else params
    if not known:
        verb.plain(params)
    key = run.peek_key(name)
    child = await run.call(name, target, msgspec.to_builtins(job), workspace=workspace)
    if child.status != "completed":
        why = f": {child.error}" if child.error else ""
        how = "failed" if child.status == "failed" else f"was {child.status}"
        raise StepFailed(key, CHILD_FAILED, f"child run {child.childRunId} {how}{why}")
    return as_declared(child.result, known.returns) if known else child.result


def as_declared(value: Any, hint: Any) -> Any:
    """Recorded JSON as the type that a function declares to return; unchanged if it declares none or another type."""
    if hint in (None, Any, object, type(None)):
        return value
    try:
        return msgspec.convert(value, hint, str_keys=True)  # keys in JSON are always text
    except (msgspec.ValidationError, TypeError):
        return value


def returned(function: Callable[..., Any]) -> Any:
    """The type that a function is declared to return; None if it declares none."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        return function  # a class makes its own instances
    if not hasattr(function, "__annotations__"):
        function = type(function).__call__  # an object that can be called
    return hints_of(function).get("return")


def file_name(key: str) -> str:
    """A unique name for the files and requests of a step, from its key. The first step of a name has no number."""
    stem, _, number = key.rpartition(".")
    plain = stem if number == "1" and not _COUNTED.search(stem) else key
    name = plain.replace("%", "%25").replace("~", "%7E").replace("\0", "%00").replace("/", "~")
    if not name or name[0] == ".":
        name = f"%{name}"  # not hidden, and not the name of a folder
    return shortened(name)
