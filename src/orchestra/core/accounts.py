"""What a tree of runs has cost and changed, read from one journal: its own calls, and its children's sums. Pure.

Rules
1. A finished child run is a step of its parent, whose outcome has the child's sums. So nothing below is read again.
2. A child that an older version finished has no sums. Who needs them reads the child (`BegunChild.summed`).
3. Calls that a fork or a retry copied were made and paid by another run: they are in no sum.
4. A call that a kill cut off, and whose run ended before the call was made again (its edition was replaced, say), may
   have been paid: it is summed at the amount that was reserved for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec
from msgspec import Struct, UnsetType

from orchestra.core.calls import PastCall, calls_in, last_copied
from orchestra.core.effects import ChildResult, ChildRun, Tokens
from orchestra.core.reading import RunCreated, StepEvent, outcome_as, outcome_of
from orchestra.core.records import Event
from orchestra.core.run import RunFolder

_CHILD = ChildRun.__name__


class Account(Struct, frozen=True):
    """Sums over model calls."""

    calls: int = 0
    costUsd: float = 0.0
    lostUsd: float = 0.0
    tokens: Tokens = Tokens()
    unpriced: int = 0
    unanswered: int = 0
    uncounted: bool = False

    def __add__(self, other: Account) -> Account:
        return Account(
            calls=self.calls + other.calls,
            costUsd=self.costUsd + other.costUsd,
            lostUsd=self.lostUsd + other.lostUsd,
            tokens=Tokens(self.tokens.input + other.tokens.input, self.tokens.output + other.tokens.output),
            unpriced=self.unpriced + other.unpriced,
            unanswered=self.unanswered + other.unanswered,
            uncounted=self.uncounted or other.uncounted,
        )


class Spending:
    """What one run has spent so far on its own calls: a sum that grows event by event (rule 3)."""

    def __init__(self) -> None:
        self.usd = 0.0
        self.calls = 0
        self.tokens = 0
        self.context = 0  # input tokens of the newest call that has told them
        self.unpriced = 0  # calls whose cost is not known
        self._copied = ""
        self._newest = ""

    def add(self, event: Event) -> None:
        """Count an event of the run; one that was counted already is left out."""
        if event.id <= self._newest:
            return
        self._newest = event.id
        if event.type == "RUN_CREATED":
            self._copied = last_copied(event)
        if event.payload.get("effect") != "ModelCall" or event.type == "PHASE_STARTED" or event.id <= self._copied:
            return
        outcome = event.payload.get("outcome")
        cost = outcome.get("costUsd") if isinstance(outcome, Mapping) else None
        self.calls += 1
        self._use(outcome.get("usage") if isinstance(outcome, Mapping) else None)
        if isinstance(cost, int | float) and 0 <= cost < float("inf"):
            self.usd += cost
        else:
            self.unpriced += isinstance(outcome, Mapping)

    def _use(self, usage: object) -> None:
        """Count the tokens of a call, as far as its provider told them."""
        if not isinstance(usage, Mapping):
            return
        given, made, both = (_count(usage.get(name)) for name in ("inputTokens", "outputTokens", "totalTokens"))
        self.tokens += both or given + made
        self.context = given or self.context


class BegunChild(Struct, frozen=True):
    """A child run as its parent's journal tells of it."""

    key: str
    workflow: str
    run_id: str
    result: ChildResult | None = None  # None: it has not ended, or its step's outcome cannot be read
    kept: bool = False  # copied with its step from another run, whose child it is

    @property
    def status(self) -> Literal["open", "completed", "failed", "canceled"]:
        return self.result.status if self.result else "open"

    @property
    def summed(self) -> bool:
        """Whether the child ended with recorded sums (rule 2)."""
        return self.result is not None and self.result.costUsd is not None

    @property
    def account(self) -> Account:
        """The recorded sums of the child and of the runs below it; zero if there are none."""
        done = self.result
        if done is None or done.costUsd is None or self.kept:
            return Account()
        return Account(
            calls=done.calls,
            costUsd=done.costUsd,
            lostUsd=done.lostUsd,
            tokens=done.tokens,
            unpriced=done.unpriced,
            unanswered=done.unanswered,
            uncounted=done.uncounted,
        )


def of_calls(calls: Iterable[PastCall]) -> Account:
    """The sums over these calls (rule 3)."""
    made = [call for call in calls if not call.kept]
    used = [(call.usage.inputTokens, call.usage.outputTokens) for call in made]
    return Account(
        calls=len(made),
        costUsd=sum(call.costUsd or 0.0 for call in made),
        lostUsd=sum(call.lostUsd or 0.0 for call in made),
        tokens=Tokens(sum(_known(one) for one, _ in used), sum(_known(one) for _, one in used)),
        unpriced=sum(call.raw is not None and call.costUsd is None for call in made),
        unanswered=sum(call.raw is None for call in made),
        uncounted=any(isinstance(one, UnsetType) for pair in used for one in pair),
    )


def of_ended(calls: Iterable[PastCall]) -> Account:
    """The sums over the calls of a run that has ended: a call without a reply counts at what was reserved (rule 4)."""
    calls = list(calls)
    sums = of_calls(calls)
    lost = sum(call.mostUsd for call in calls if call.status == "open" and not call.kept)
    return msgspec.structs.replace(sums, lostUsd=sums.lostUsd + lost)


def children_of(events: Iterable[Event]) -> Iterator[tuple[str, str, str]]:
    """The child runs that these events began: key, workflow and id of each."""
    for event in events:
        if event.type == "PHASE_STARTED" and "childRunId" in event.payload:
            step = StepEvent.of(event)
            yield step.key, step.workflow, step.childRunId


def children(events: Iterable[Event]) -> list[BegunChild]:
    """The child runs that these events began, in order."""
    found: dict[str, BegunChild] = {}
    copied = ""
    for event in events:
        payload = event.payload
        if event.type == "RUN_CREATED":
            copied = last_copied(event)
        if payload.get("effect") != _CHILD:
            continue
        key = str(payload.get("key", ""))
        if event.type == "PHASE_STARTED":
            found[key] = BegunChild(key, str(payload.get("workflow", "")), str(payload.get("childRunId", "")))
        elif event.type == "PHASE_FAILED":
            found.pop(key, None)  # it could not be admitted: there is no child
        elif event.type == "PHASE_COMPLETED" and key in found:
            result, kept = outcome_as(event, ChildResult), event.id <= copied
            found[key] = msgspec.structs.replace(found[key], result=result, kept=kept)
    return list(found.values())


def changed_paths(events: Iterable[Event]) -> Iterator[str]:
    """The files that the patches of a run and of the runs below it changed, as they are called in the project.

    A file may come more than once. What was changed in a copy of the project (core/copies.py) is not in the project.
    """
    place = ""
    for event in events:  # copied ones too: what a fork kept is in the files
        if event.type == "RUN_CREATED":
            created = RunCreated.of(event)
            if created.copy:
                return
            place = f"{created.folder}/" if created.folder else ""
        elif event.type == "PATCH_APPLIED":
            yield from (f"{place}{file.path}" for file in outcome_of(event).applied)
        elif event.payload.get("effect") == _CHILD and (done := outcome_as(event, ChildResult)):
            yield from done.paths


def summed(result: ChildResult, folder: RunFolder, events: Iterable[Event], *, tree_ms: int = 0) -> ChildResult:
    """The result of a child run with the sums over its journal (rule 1). `tree_ms`: how long the tree has worked."""
    events = list(events)
    sums = of_ended(calls_in(folder, events))
    for told in children(events):
        sums += told.account
    return msgspec.structs.replace(
        result,
        costUsd=sums.costUsd,
        tokens=sums.tokens,
        calls=sums.calls,
        unpriced=sums.unpriced,
        unanswered=sums.unanswered,
        uncounted=sums.uncounted,
        lostUsd=sums.lostUsd,
        paths=tuple(dict.fromkeys(changed_paths(events))),
        treeMs=tree_ms,
    )


def money(usd: float, unpriced: int = 0) -> str:
    """An amount for people; `unpriced` calls have cost an unknown amount more."""
    return f"${usd:.4f}" + ("+?" if unpriced else "")


def _count(number: object) -> int:
    return number if isinstance(number, int) and 0 < number < 1 << 53 else 0


def _known(number: int | UnsetType) -> int:
    return 0 if isinstance(number, UnsetType) else number
