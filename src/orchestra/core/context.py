"""The context: how linear async code becomes durable. A flow sees only this.

Rules
1. `perform(name, effect)` is the primitive. Its key is the scope's path, the name and a repeat count (`fix.2`,
   `research/draft.1`): names, not positions, so a step inserted in the code disturbs no waiting run (D-03).
2. A step whose outcome is recorded is not performed again; the flow gets the recorded outcome. A step whose intent is
   recorded without an outcome is performed again and its handler told so (`redo`).
3. The flow goes on with what was written, decoded from the event: live and replayed runs see the same values.
4. A recorded intent that differs from what the code now wants is `Drift`, unless accepted by key.
5. Everything recorded so far is synced before an effect that acts on the world.
6. A failed step is recorded and raised as `StepFailed`; a retry is the next step of the same name, and its waiting
   time is journaled as a deadline (`retryAt`), so that a kill resets neither.
7. Branches of `fan_out` have scopes of their own. While they run, their parent scope performs nothing. A branch that
   parks does not stop the others; a failed one neither. Tasks are started nowhere else.
8. `Suspended` passes through everything: nothing waits in memory only.
"""

from __future__ import annotations

import asyncio
import copy
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol, TypeVar, overload, runtime_checkable

import msgspec
from msgspec import Struct

from orchestra.core.effects import ChildResult, ChildRun, Effect, Instant, NewId, Now, Outcome, Sleep, Token
from orchestra.core.errors import Canceled, ContractError, Drift, DurabilityError, StepFailed, Suspended
from orchestra.core.ledger import Ledger
from orchestra.core.records import ErrorInfo, Event, EventType, Phase, now, utc

T = TypeVar("T")


class Retry(Struct, frozen=True):
    """How often a retriable failure is tried again (C-09: attempts), waiting base · 2^(n-1) seconds (C-10)."""

    times: int = 2
    base_sec: float = 2.0

    def wait(self, attempt: int, at_least: float = 0.0) -> float:
        return max(self.base_sec * 2.0 ** (attempt - 1), at_least)


NO_RETRY = Retry(times=0)


class Verdict(Struct, frozen=True):
    """How a flow ends. `result` is what a parent or a report may use."""

    status: Literal["completed", "failed", "canceled"]
    result: dict[str, Any] = {}
    error: ErrorInfo | None = None
    exit_code: int = 0


class Step(Struct, frozen=True):
    """What a handler is told about the step it performs."""

    key: str
    phase: Phase
    iteration: int
    redo: bool  # an earlier process began this step and did not finish it
    ledger: Ledger
    intent: Event | None


class Handler(Protocol):
    """Does an effect. Raises StepFailed for a failure the flow should see; returns the outcome otherwise."""

    async def __call__(self, effect: Any, step: Step, /) -> Any: ...


@runtime_checkable
class Guarded(Protocol):
    """A handler that may refuse before the intent is written, so that nothing looks begun that was not."""

    def guard(self, effect: Any, /) -> None: ...


Handlers = Mapping[type[Effect[Any]], Handler]
ChildNamer = Callable[[str, str], str]


class Context:
    """A flow's view of its run, at one place (scope) of its code."""

    def __init__(
        self,
        ledger: Ledger,
        handlers: Handlers,
        *,
        accepted_drift: frozenset[str] = frozenset(),
        name_child: ChildNamer = lambda workflow, key: f"{workflow}-{key}",
    ) -> None:
        self._ledger = ledger
        self._handlers = {**_OWN, **handlers}
        self._guards = {kind: h.guard for kind, h in handlers.items() if isinstance(h, Guarded)}
        self._accepted = accepted_drift
        self._name_child = name_child
        self._scope = _Scope("")
        self._phase: Phase = "plan"
        self._iteration = 1

    @property
    def run_id(self) -> str:
        return self._ledger.folder.id

    def at(self, phase: Phase, iteration: int) -> Context:
        """The same scope, with its events labelled by this phase and iteration."""
        return self._derive(self._scope, phase, iteration)

    # -- the primitive ------------------------------------------------------------------------------------------------

    @overload
    async def perform(self, name: str, effect: Effect[Outcome], *, retry: Retry = NO_RETRY) -> Outcome: ...

    @overload
    async def perform(
        self, name: str, effect: Effect[Outcome], *, accept: Callable[[Outcome], T], retry: Retry = NO_RETRY
    ) -> T: ...

    async def perform(
        self,
        name: str,
        effect: Effect[Outcome],
        *,
        accept: Callable[[Outcome], T] | None = None,
        retry: Retry = NO_RETRY,
    ) -> Outcome | T:
        """Have `effect` done once, under `name`, and return its outcome, or what the pure `accept` makes of it.

        `accept` may raise ContractError: the step is then recorded as failed, with the outcome kept.
        """
        attempt = 0
        while True:
            attempt += 1
            key = self._scope.next_key(name)
            try:
                return await self._step(key, effect, accept, attempt, retry)
            except StepFailed as failure:
                if not failure.retriable or attempt > retry.times:
                    raise
                await self._wait_for_retry(key)

    async def _step(
        self,
        key: str,
        effect: Effect[Outcome],
        accept: Callable[[Outcome], T] | None,
        attempt: int,
        retry: Retry,
    ) -> Outcome | T:
        recorded = self._ledger.recorded(key)
        self._check_drift(key, effect, recorded.intent or recorded.outcome)
        redo = recorded.intent is not None and recorded.outcome is None
        event = recorded.outcome
        if event is None:
            if type(effect) in self._guards:
                self._guards[type(effect)](effect)
            intent = recorded.intent or self._begin(key, effect, attempt)
            if effect.acts and self._scope.alone:
                self._ledger.journal.sync()
            elif effect.acts:
                await self._ledger.journal.barrier()
            step = Step(key, self._phase, self._iteration, redo, self._ledger, intent)
            event = await self._do(effect, step, accept, attempt, retry)
        if event.type == "PHASE_FAILED":
            error = event.payload["error"]
            raise StepFailed(
                key,
                error["code"],
                error["message"],
                reason=error.get("reason", ""),
                retriable=bool(error.get("retriable")),
            )
        outcome: Outcome = msgspec.convert(event.payload["outcome"], effect.outcome)
        try:
            return outcome if accept is None else accept(outcome)
        except ContractError as broken:  # it was accepted when it was recorded: the code's mind has changed since
            raise Drift(self.run_id, key, "accepted", f"refused: {broken}") from broken

    def _begin(self, key: str, effect: Effect[Outcome], attempt: int) -> Event | None:
        if effect.intent is None:
            return None
        payload = {"key": key, "effect": type(effect).__name__, "intent": effect.identity(), **effect.public()}
        if attempt > 1:
            payload["attempt"] = attempt
        if isinstance(effect, Sleep):
            payload["deadline"] = utc(datetime.now(UTC) + timedelta(seconds=effect.seconds))
        return self._record(effect.intent, payload)

    async def _do(
        self,
        effect: Effect[Outcome],
        step: Step,
        accept: Callable[[Outcome], T] | None,
        attempt: int,
        retry: Retry,
    ) -> Event:
        payload: dict[str, Any] = {"key": step.key, "effect": type(effect).__name__}
        if effect.intent is None:
            payload["intent"] = effect.identity()
        if step.redo and not effect.continues:
            payload["redone"] = True  # the audit's "possibly paid twice"
        try:
            outcome = await self._handlers[type(effect)](effect, step)
            if effect.continues:
                payload |= _named_ids(outcome)
            payload["outcome"] = msgspec.to_builtins(outcome)
            if accept is not None:  # judged on what will be read back, that is after redaction
                payload["outcome"] = self._ledger.redactor.record(payload["outcome"])
                accept(msgspec.convert(payload["outcome"], effect.outcome))
        except StepFailed as failure:
            payload["error"] = _error(failure, reason=failure.reason, retriable=failure.retriable)
            payload |= failure.details
            if failure.retriable and attempt <= retry.times:
                wait = retry.wait(attempt, failure.retry_after)
                payload["retryAt"] = utc(datetime.now(UTC) + timedelta(seconds=wait))
            return self._record("PHASE_FAILED", payload)
        except ContractError as broken:
            payload["error"] = _error(broken, reason=broken.reason)
            return self._record("PHASE_FAILED", payload)
        return self._record(effect.outcome_event(outcome), payload)

    async def _wait_for_retry(self, key: str) -> None:
        failed = self._ledger.recorded(key).outcome
        if failed is not None and "retryAt" in failed.payload:
            await self._ledger.journal.barrier()
            await _sleep_until(failed.payload["retryAt"])

    def _check_drift(self, key: str, effect: Effect[Outcome], event: Event | None) -> None:
        if event is None or key in self._accepted:
            return
        recorded, wanted = event.payload.get("intent", ""), effect.identity()
        if recorded != wanted:
            raise Drift(self.run_id, key, recorded, wanted)

    def _record(self, type: EventType, payload: dict[str, Any]) -> Event:
        return self._ledger.record(type, payload, phase=self._phase, iteration=self._iteration)

    # -- conveniences, all made of the primitive ----------------------------------------------------------------------

    async def now(self, name: str = "now") -> str:
        """The time, the same on every replay."""
        return (await self.perform(name, Now())).at

    async def new_id(self, name: str = "id") -> str:
        """A random id, the same on every replay."""
        return (await self.perform(name, NewId())).id

    async def sleep(self, seconds: float, name: str = "sleep") -> None:
        """Wait until a journaled deadline."""
        await self.perform(name, Sleep(seconds))

    async def call(self, name: str, workflow: str, params: dict[str, Any]) -> ChildResult:
        """Run another workflow as a child run and wait for its end (D-08)."""
        child = self._name_child(workflow, self._scope.peek_key(name))
        return await self.perform(name, ChildRun(workflow=workflow, params=params, childRunId=child))

    async def emit(self, name: str, type: EventType, payload: Mapping[str, Any] | None = None) -> None:
        """Record an event of the flow's own, once."""
        key = self._scope.next_key(name)
        if self._ledger.recorded(key).outcome is None:
            self._record(type, {"key": key, **(payload or {})})

    # -- concurrency --------------------------------------------------------------------------------------------------

    async def fan_out(
        self, branches: Mapping[str, Callable[[Context], Awaitable[T]]], *, limit: int = 0
    ) -> dict[str, T]:
        """Run branches concurrently, each in its own scope; all settle before this returns or raises (rule 7).

        With failures: the first in the order of `branches`. With a parked branch and no failure: Suspended.
        """
        gate = asyncio.Semaphore(limit or max(len(branches), 1))
        done: dict[str, T] = {}
        failed: dict[str, Exception] = {}
        stopped: list[Suspended | Canceled] = []

        async def settle(name: str, branch: Callable[[Context], Awaitable[T]], scope: _Scope) -> None:
            async with gate:
                try:
                    done[name] = await branch(self._derive(scope, self._phase, self._iteration))
                except (Suspended, Canceled) as stop:
                    stopped.append(stop)
                except Exception as error:  # kept, and raised below in a stable order
                    failed[name] = error

        scopes = {name: self._scope.branch(name) for name in branches}
        with self._scope.busy():
            async with asyncio.TaskGroup() as group:
                for name, branch in branches.items():
                    group.create_task(settle(name, branch, scopes[name]))
        for stop in stopped:
            if isinstance(stop, Canceled):
                raise stop
        for name in branches:
            if name in failed:
                raise failed[name]
        if stopped:
            raise stopped[0]
        return done

    def _derive(self, scope: _Scope, phase: Phase, iteration: int) -> Context:
        context = copy.copy(self)
        context._scope, context._phase, context._iteration = scope, phase, iteration
        return context


class _Scope:
    """A place in the flow: a path of names and how often each name was used in it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.alone = not path  # rule 7: the outermost scope performs only while no branch runs, so nobody else appends
        self._used: dict[str, int] = {}
        self._busy = False

    def peek_key(self, name: str) -> str:
        return f"{self._path}{name}.{self._used.get(name, 0) + 1}"

    def next_key(self, name: str) -> str:
        if self._busy:
            raise DurabilityError(
                f"step {name!r}: a scope performs nothing while its branches run; use the branch's context"
            )
        if "/" in name:
            raise DurabilityError(f"step {name!r}: a step's name may not contain '/'")
        key = self.peek_key(name)
        self._used[name] = self._used.get(name, 0) + 1
        return key

    def branch(self, name: str) -> _Scope:
        """A scope below this one. The second of the same name is another place: `draft/` and `draft.2/`."""
        if "/" in name or re.search(r"\.\d+$", name):
            raise DurabilityError(f"branch {name!r}: a branch's name may not contain '/' or end like a repeat count")
        count = self._used[f"{name}/"] = self._used.get(f"{name}/", 0) + 1
        return _Scope(f"{self._path}{name}/" if count == 1 else f"{self._path}{name}.{count}/")

    @contextmanager
    def busy(self) -> Iterator[None]:
        """While branches run: rule 7."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False


def _error(error: StepFailed | ContractError, *, reason: str = "", retriable: bool = False) -> dict[str, Any]:
    info: dict[str, Any] = {"code": error.code, "message": str(error), "retriable": retriable}
    if reason:
        info["reason"] = reason
    return info


def _named_ids(outcome: object) -> dict[str, Any]:
    """The ids a reader of the bare event needs (S1-47, S1-48): which request this outcome answers."""
    return {name: value for name in ("approvalId", "questionId") if (value := getattr(outcome, name, None))}


async def _sleep_until(moment: str) -> None:
    left = (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds()
    if left > 0:
        await asyncio.sleep(left)


# -- time and chance: handled here, because the flow itself may not touch them ----------------------------------------


async def _now(effect: Now, step: Step) -> Instant:
    return Instant(now())


async def _new_id(effect: NewId, step: Step) -> Token:
    return Token(os.urandom(16).hex())


async def _sleep(effect: Sleep, step: Step) -> Instant:
    if step.intent is not None:
        await _sleep_until(step.intent.payload["deadline"])
    return Instant(now())


_OWN: dict[type[Effect[Any]], Handler] = {Now: _now, NewId: _new_id, Sleep: _sleep}
