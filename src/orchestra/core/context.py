"""The context: makes linear async code durable. It is everything a flow sees of its run.

Rules
1. `perform(name, effect)` is the primitive. A step's key is the scope's path, the name and a repeat count (`fix.2`,
   `research/draft.1`). Keys are made of names, not positions, so inserting a step into the code does not disturb a
   waiting run (D-03).
2. A step whose outcome is recorded is not performed again; the flow gets the recorded outcome. A step with a recorded
   intent and no outcome is performed again, and its handler gets `redo`.
3. The flow gets the outcome as it was written, decoded from the event. So live and replayed runs see the same values.
4. If the recorded intent differs from the effect that the code performs now, `Drift` is raised, unless a person
   accepted it for this key.
5. Everything recorded so far is synced before an effect that acts on the world.
6. A failed step is recorded and raised as `StepFailed`. A retry is the next step of the same name. Its waiting time is
   journaled as a deadline (`retryAt`), so a kill resets neither the count nor the wait. If a server asks for a longer
   wait than a process should make, the moment is journaled (`notBefore`) and the run stops. When a person resumes the
   run, the step is tried at once: there may be another provider or a higher quota by then.
7. Branches of `fan_out` and `graph` have scopes of their own. While they run, their parent scope performs nothing. A
   branch that parks does not stop the others; a failed one neither. Tasks are started nowhere else.
8. `Suspended` passes through everything: nothing waits in memory only. A flow that catches it and returns has failed.
9. A handler may make ready before the intent is written (a process that exists, but may not run yet), so that the
   intent can say what it made (its pid). A step begun again by a later process is announced again, for the same reason.
10. An error that a cure lets the run go on after (drift, a budget, a full disk) stops the run, also if the flow catches
   it: the engine asks for it when the flow returns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar, overload

import msgspec
from msgspec import UNSET, Struct, UnsetType

from orchestra.core import editions
from orchestra.core.branches import Branches
from orchestra.core.changing import Changing
from orchestra.core.effects import ChildResult, ChildRun, Effect, NewId, Now, Outcome, Sleep, difference, named_ids
from orchestra.core.errors import (
    CURABLE,
    ContractError,
    Drift,
    DurabilityError,
    JournalFull,
    NotYet,
    OrchestraError,
    StepFailed,
    Suspended,
    as_recorded,
)
from orchestra.core.guarding import is_guarded, is_prepared, pauses
from orchestra.core.ledger import Ledger
from orchestra.core.looks import Hashed, Inside, Looked, Usable, WriteFile, any_text, has_files
from orchestra.core.order import Order
from orchestra.core.records import ErrorInfo, Event, EventType, Phase, utc
from orchestra.core.retry import NO_RETRY, Attempt, Retry
from orchestra.core.scopes import NO_LABELS, Labels, Scope
from orchestra.core.times import new_id, now_is, sleep, sleep_until

T = TypeVar("T")


class Verdict(Struct, frozen=True):
    """How a flow ends. `result` is JSON that a parent, a report or a caller may use."""

    status: Literal["completed", "failed", "canceled"]
    result: Any = {}
    error: ErrorInfo | None = None
    exit_code: int = 0

    def __post_init__(self) -> None:
        if self.status == "failed" and self.error is None:  # S1-119
            raise ValueError("a failed run needs an error: Verdict(status='failed', error=ErrorInfo(code, message))")


class Step(Struct, frozen=True):
    """The step that a handler performs."""

    key: str
    phase: Phase
    iteration: int
    redo: bool  # an earlier process began this step and did not finish it
    ledger: Ledger
    intent: Event | None


class Handler(Protocol):
    """Carries out an effect and returns its outcome; StepFailed for a failure that the flow should get."""

    async def __call__(self, effect: Any, step: Step, /) -> Any: ...


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
        only: frozenset[type[Effect[Any]]] = frozenset(),
        name_child: ChildNamer = lambda workflow, key: f"{workflow}-{key}",
        stale: list[str] | None = None,
        end_replaced: Callable[[], Awaitable[None]] | None = None,
        changing: Changing | None = None,
    ) -> None:
        """`stale`: perform nothing, only note what is stale; `end_replaced` ends child runs of replaced editions."""
        self._ledger = ledger
        self._handlers = {**_OWN, **handlers}
        self._guards = {kind: h.guard for kind, h in handlers.items() if is_guarded(h)}
        self._preparers = {kind: h for kind, h in handlers.items() if is_prepared(h)}
        self._accepted = accepted_drift
        self._only = only  # the effects allowed in a run that is being ended; empty: all effects
        self._name_child = name_child
        files = handlers.get(WriteFile)
        self._drive = editions.Drive(
            stale=stale,
            only_ends=bool(only),
            files=files if has_files(files) else None,
            end_replaced=end_replaced or _nothing,
        )
        self._changing = changing or Changing(None, ())
        self._stopped: list[OrchestraError] = []  # what stopped a step for good, in whichever scope
        self._waiting: set[str] = set()  # the steps that Suspended was raised at, in whichever scope
        self._scope = Scope("")
        self._phase: Phase = "plan"
        self._iteration = 1
        self._labels = NO_LABELS

    @property
    def run_id(self) -> str:
        return self._ledger.folder.id

    @property
    def origin(self) -> str:
        """The id of the run in which this history began: this run, or the first one it was forked from."""
        return str(self.recorded("forkedFrom", {}).get("origin", self.run_id))

    def recorded(self, fact: str, otherwise: Any = None) -> Any:
        """A fact that the run recorded when it began, the same on every replay."""
        return self._ledger.events[0].payload.get(fact, otherwise)

    @property
    def changes(self) -> Mapping[str, Any]:
        """What a person changed of the job since the run began, as far as the flow has come (core/changing.py)."""
        return self._changing.values

    def peek_key(self, name: str) -> str:
        """The key that the next step of this name will have."""
        return self._scope.peek_key(name)

    def at(self, phase: Phase, iteration: int, labels: Labels = NO_LABELS) -> Context:
        """The same scope, with its events labelled by this phase and iteration, and by names of the workflow's own."""
        context = self._derive(self._scope, phase, iteration)
        context._labels = labels
        return context

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
        """Perform `effect` once, under `name`, and return its outcome, or the result of the pure `accept(outcome)`.

        If `accept` raises ContractError, the step is recorded as failed, and the outcome is kept.
        """
        this = Attempt(1, retry, {})
        while True:
            key = self._scope.next_key(name)
            earlier = self._ledger.recorded(key).outcome is not None
            try:
                return await self._step(key, effect, accept, this)
            except Suspended:
                self._waiting.add(key)
                raise
            except (*CURABLE, JournalFull) as stopped:
                self._stopped.append(stopped)
                raise
            except OSError as error:
                self._stopped.append(self._disk_trouble(error))
                raise self._stopped[-1] from error
            except StepFailed as failure:
                if not failure.retriable or this.is_last:
                    raise
                waited = await self._wait_for_retry(key, effect, failure, earlier=earlier)
                this = Attempt(this.number + 1, retry, waited)

    def raise_stopped(self) -> None:
        """Raise what stopped a step for good, although the flow went on: a flow may catch too much (rule 10)."""
        if self._stopped:
            raise self._stopped[0]

    def still_waits(self) -> str:
        """A step that still waits although the flow returned: the flow caught Suspended. Empty if there is none."""
        return min((key for key in self._waiting if not self._is_settled(key)), default="")

    def _is_settled(self, key: str) -> bool:
        recorded = self._ledger.recorded(key)
        withdrawn = recorded.intent is not None and self._ledger.fold.is_withdrawn(recorded.intent)
        return recorded.outcome is not None or withdrawn

    def _disk_trouble(self, error: OSError) -> DurabilityError:
        what = f"{error.strerror or error} ({error.filename or 'a file'})"
        return DurabilityError(f"run {self.run_id}: {what}. When that is cured: orchestra resume {self.run_id}")

    async def _step(
        self,
        key: str,
        effect: Effect[Outcome],
        accept: Callable[[Outcome], T] | None,
        this: Attempt,
    ) -> Outcome | T:
        recorded = self._ledger.recorded(key)
        if begun := recorded.intent or recorded.outcome:
            self._check_drift(key, effect, begun)
            self._changing.came_to(begun)
        event = recorded.outcome
        if event is None:
            if self._only and type(effect) not in self._only:
                raise Suspended(f"{key}: the run is being ended")
            self._drive.note_stale(f"step {key} was not done yet")
            facts: Mapping[str, Any] | None = None
            if type(effect) in self._guards:
                facts = await self._guards[type(effect)](effect, key, redo=begun is not None)
            if type(effect) in self._preparers:
                intent = await self._prepare(key, effect, this, recorded.intent)
            elif recorded.intent is not None and not self._ledger.fold.is_withdrawn(recorded.intent):
                intent = recorded.intent
            else:  # also a request that was withdrawn, and is come to again (core/newest.py)
                intent = self._begin(key, effect, this, facts or {})
            if effect.acts and self._scope.alone:
                self._ledger.journal.sync()
            elif effect.acts:
                await self._ledger.journal.barrier()
            step = Step(key, self._phase, self._iteration, begun is not None, self._ledger, intent)
            event = await self._do(effect, step, accept, this)
        self._changing.came_to(event)
        if event.type == "PHASE_FAILED":
            error = event.payload["error"]
            again = bool(error.get("retriable"))
            raise StepFailed(key, error["code"], error["message"], reason=error.get("reason", ""), retriable=again)
        outcome: Outcome = msgspec.convert(event.payload["outcome"], effect.outcome_in(event.type))
        try:
            return outcome if accept is None else accept(outcome)
        except ContractError as broken:  # `accept` passed when this was recorded and fails now: the code changed
            raise Drift(
                self.run_id, key, f"the recorded outcome was accepted, and is refused now: {broken}"
            ) from broken

    async def _prepare(self, key: str, effect: Effect[Outcome], this: Attempt, left: Event | None) -> Event | None:
        """Prepare the effect, then write and sync its intent (rule 9). Undo the preparation if that fails."""
        handler = self._preparers[type(effect)]
        facts = await handler.prepare(effect, key, left)
        try:
            intent = self._begin(key, effect, this, facts)
            await self._ledger.journal.barrier()
        except BaseException:
            await handler.drop(key)
            raise
        return intent

    def _begin(
        self, key: str, effect: Effect[Outcome], this: Attempt, facts: Mapping[str, Any] = MappingProxyType({})
    ) -> Event | None:
        if effect.intent is None:
            return None
        named = {"key": key, "effect": type(effect).__name__, "intent": effect.identity()}
        payload = {**self._labels.begun, **named, **effect.public(), **facts}
        if this.number > 1:
            payload |= {"attempt": this.number, **this.wait}
        if isinstance(effect, Sleep):
            payload["deadline"] = utc(datetime.now(UTC) + timedelta(seconds=effect.seconds))
        return self._record(effect.intent, payload)

    async def _do(
        self,
        effect: Effect[Outcome],
        step: Step,
        accept: Callable[[Outcome], T] | None,
        this: Attempt,
    ) -> Event:
        payload: dict[str, Any] = {**self._labels.ended, "key": step.key, "effect": type(effect).__name__}
        if effect.intent is None:
            payload["intent"] = effect.identity()
        if step.redo and not effect.continues:
            payload["redone"] = True  # the audit reports this call as possibly paid twice
        try:
            outcome = await self._handlers[type(effect)](effect, step)
            if effect.continues:
                payload |= named_ids(outcome)
            payload["outcome"] = msgspec.to_builtins(outcome)
            if accept is not None:  # `accept` gets what a replay will read, that is after redaction
                payload["outcome"] = self._ledger.redactor.record(payload["outcome"])
                accept(msgspec.convert(payload["outcome"], effect.outcome))
        except (StepFailed, ContractError) as failure:
            payload["error"] = as_recorded(failure)
            if isinstance(failure, StepFailed):
                payload |= failure.details
                if failure.retriable and not this.is_last:
                    payload |= this.next_moment(failure.retry_after)
            return self._record("PHASE_FAILED", payload)
        return self._record(effect.outcome_event(outcome), payload)

    async def _wait_for_retry(
        self, key: str, effect: Effect[Any], failure: StepFailed, *, earlier: bool
    ) -> Mapping[str, Any]:
        """Wait for the next attempt, or stop (rule 6); `earlier`: the failure was recorded by an earlier process.

        Returns what the intent of the next attempt says of the wait: how long this process waited (core/worked.py).
        """
        failed = self._ledger.recorded(key).outcome
        if failed is None or self._only or self._drive.stale is not None:
            return {}
        await self._ledger.journal.barrier()
        if "retryAt" in failed.payload:
            return {"waitedMs": await self._wait_until(failed.payload["retryAt"], key, self._handlers[type(effect)])}
        if "notBefore" in failed.payload and not earlier:
            raise NotYet(key, str(failure), failed.payload["notBefore"])
        return {}

    async def _wait_until(self, moment: str, key: str, handler: Handler) -> int:
        """Wait until a recorded moment; returns the milliseconds."""
        if not pauses(handler):
            return await sleep_until(moment)
        try:
            return await sleep_until(moment, lambda seconds: handler.pause(seconds, key))
        except CURABLE as stopped:
            self._stopped.append(stopped)
            raise

    def _check_drift(self, key: str, effect: Effect[Outcome], event: Event) -> None:
        if key in self._accepted:
            return
        if event.payload.get("intent", "") != effect.identity():
            raise Drift(self.run_id, key, difference(effect, event, self._ledger.redactor))

    def _record(self, type: EventType, payload: dict[str, Any]) -> Event:
        event = self._ledger.record(type, {**payload, **self._changing.facts()}, self._phase, self._iteration)
        self._changing.came_to(event)
        return event

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

    async def call(
        self,
        name: str,
        workflow: str,
        params: dict[str, Any],
        *,
        workspace: str | UnsetType = UNSET,
        copied: Literal[True] | UnsetType = UNSET,
    ) -> ChildResult:
        """Run another workflow as a child run and wait for its end (D-08).

        `workspace` is the folder that the child works in, from the folder of this run; unset: the same folder. With
        `copied` the child works in its own copy of the project (core/copies.py).
        """
        child = self._name_child(workflow, self._scope.peek_key(name))
        return await self.perform(name, ChildRun(workflow, params, child, workspace, copied))

    # -- editions and looks (core/editions.py) ------------------------------------------------------------------------

    async def edition(self, name: str, inputs: Mapping[str, object]) -> Context:
        """The context of steps that hold for these inputs only: with others they are done anew (`name@2/`)."""
        return await editions.begin_edition(self._here(), self._scope.place(name), inputs)

    async def look(
        self, name: str, path: str, made: str, *, inside: Inside = "project", usable: Usable = any_text
    ) -> Looked:
        """A file with a text that the run `made`: written if it is not there, or not `usable`; read in every drive."""
        return await self._looking(editions.look_at(self._here(), self._scope.place(name), path, made, inside, usable))

    async def tree_hash(self, name: str, globs: Collection[str] = ()) -> Hashed:
        """The digest of the project's files that these globs name (none: of all), read again in every drive."""
        return await self._looking(editions.hash_tree(self._here(), self._scope.place(name), tuple(globs)))

    def kept(self, name: str, first: Any) -> Any:
        """The newest value that was kept under this name here, as JSON; `first` if there is none."""
        return editions.newest_kept(self._here(), name, first)

    async def keep(self, name: str, value: object) -> None:
        """Keep a value, which replaces the one before it."""
        await editions.keep_value(self._here(), name, value)

    def again(self) -> Context:
        """This scope from its beginning, as a replay comes to it: after `keep`, a part of the flow is done again."""
        return self._derive(Scope(self._scope.path), self._phase, self._iteration)

    async def _looking(self, look: Awaitable[T]) -> T:
        try:
            return await look
        except CURABLE as stopped:
            self._stopped.append(stopped)  # rule 10
            raise
        except OSError as error:
            self._stopped.append(self._disk_trouble(error))
            raise self._stopped[-1] from error

    def _here(self) -> editions.Here:
        def below(path: str) -> Context:
            return self._derive(Scope(path), self._phase, self._iteration)

        return editions.Here(self._ledger, self._drive, self._scope.path, self.perform, below)

    # -- concurrency --------------------------------------------------------------------------------------------------

    async def fan_out(
        self, branches: Mapping[str, Callable[[Context], Awaitable[T]]], *, limit: int = 0
    ) -> dict[str, T]:
        """Run branches concurrently, each in its own scope; all settle before this returns or raises (rule 7)."""
        return await self.graph(branches, {}, limit=limit)

    async def graph(
        self,
        branches: Mapping[str, Callable[[Context], Awaitable[T]]],
        after: Mapping[str, Collection[str]],
        *,
        limit: int = 0,
        go_on: Callable[[T], bool] = lambda result: True,
    ) -> dict[str, T]:
        """Run each branch as soon as all branches before it (`after`) are done, at most `limit` at once (0: no limit).

        If a branch fails, parks, or its result does not `go_on`, the branches after it are not run and are not in the
        result. All others are. If branches failed, the first failure in the order of `branches` is raised; else, if
        one parked, Suspended.
        """
        paths = {name: self._scope.branch(name) for name in branches}
        try:
            order = Order({name: after.get(name, ()) for name in branches})
        except KeyError as unknown:
            raise DurabilityError(f"a branch comes after {unknown}, which is no branch") from unknown

        def begin(name: str) -> Awaitable[T]:
            if self._waiting:  # the branch parked, and begins again: what it waits for now is seen then
                self._waiting -= {key for key in self._waiting if key.startswith(paths[name])}
            return branches[name](self._derive(Scope(paths[name]), self._phase, self._iteration))

        with self._scope.busy():
            return await Branches(begin, order, limit=limit, go_on=go_on).run(branches)

    def _derive(self, scope: Scope, phase: Phase, iteration: int) -> Context:
        context = Context.__new__(Context)
        context.__dict__.update(self.__dict__)  # copy.copy takes five times as long, and every task has a context
        context._scope, context._phase, context._iteration = scope, phase, iteration
        return context


async def _nothing() -> None:
    pass


_OWN: Handlers = {Now: now_is, NewId: new_id, Sleep: sleep, **editions.HANDLERS}
