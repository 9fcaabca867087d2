"""What is stale in a finished run and its finished child runs, and what a new run keeps of it. Pure.

Rules
1. A finished child run is stale if a file that it looked at was edited, if an input of an edition is another one, or if
   a child run below it is stale. Its step in the parent is done again: by a new child run that goes on from the old one
   (core/fork.py), so that only what is stale is done there.
2. What follows that step is done again, as far as the flow does not come to it without the step (core/rehearsal.py).
   Steps below an edition are kept, unless the step lies in that edition: other inputs begin a new edition anyway. Looks
   and beginnings of editions are always kept: they tell a person's edit from the run's own text.
3. A finished child run among the steps that are done again is gone on from in the same way. If its job is the same and
   nothing of it is stale, that costs nothing.
4. Child runs that failed, and those below a replaced edition, are not looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from orchestra.core.newest import LOOKS, NUMBERED, Newest, editions_above
from orchestra.core.records import Event
from orchestra.core.settled import StepRecord, steps_of

Path = tuple[str, ...]  # the keys of the child runs that lead to a run


class Stale(Struct, frozen=True):
    """What would be done anew of a finished run: in the run itself, and by step in its finished child runs."""

    own: tuple[str, ...] = ()  # for a person
    below: dict[str, Stale] = {}

    def __bool__(self) -> bool:
        return bool(self.own or self.below)

    def lines(self, keys: Path = ()) -> Iterator[str]:
        """Everything that is stale, for a person, each with the keys of the child runs that lead to it."""
        for what in self.own:
            yield ": ".join((*keys, what))
        for key, stale in self.below.items():
            yield from stale.lines((*keys, key))

    def paths(self) -> Iterator[Path]:
        """The stale runs, the run itself not included."""
        for key, stale in self.below.items():
            yield (key,)
            yield from ((key, *path) for path in stale.paths())


class FinishedChild(NamedTuple):
    """A child run that completed, and the step that waited for it."""

    key: str
    workflow: str
    run_id: str


def finished_children(events: Sequence[Event], newest: Newest) -> list[FinishedChild]:
    """The child runs of these events that may be stale (rule 4)."""
    steps = [step for key, step in steps_of(events).items() if _is_child(step) and not newest.is_replaced(key)]
    return [_child(step) for step in steps if not step.failed]


def kept_again(events: Sequence[Event], keys: Collection[str], newest: Newest) -> list[Event]:
    """Those of the events that a new run keeps after a failure or with another answer: these keys, and what files hold.

    The flow need not come to what lies below a replaced edition: the patches there are in the files. So are the texts
    of the project's files that the run looked at. (Those of its own folder are not: a new run writes its own.)
    """
    return [
        event
        for event in events
        if (key := event.payload.get("key")) is None
        or key in keys
        or _is_in_the_project(event)
        or newest.is_replaced(key)
    ]


def _is_in_the_project(event: Event) -> bool:
    """Whether this is a look at a file of the project."""
    said = event.payload.get("outcome") if event.type == "PHASE_COMPLETED" else event.payload
    return event.payload.get("effect") in LOOKS and isinstance(said, dict) and said.get("inside") == "project"


def kept_beside(
    events: Sequence[Event], redone: Collection[str], reached: Collection[str], newest: Newest
) -> list[Event]:
    """Those of the events that a new run keeps, if the steps `redone` are done again (rule 2)."""
    return [
        event
        for event in events
        if (key := event.payload.get("key")) is None
        or key in reached
        or event.payload.get("effect") in NUMBERED
        or newest.is_replaced(key)
        or _is_apart(key, redone)
    ]


def _is_apart(key: str, redone: Collection[str]) -> bool:
    """Whether a step lies below an edition in which nothing is done again."""
    edition = next(reversed(list(editions_above(key))), "")
    return bool(edition) and not any(one.startswith(edition) for one in redone)


def _is_child(step: StepRecord) -> bool:
    return step.effect == "ChildRun" and step.outcome is not None and step.intent is not None


def _child(step: StepRecord) -> FinishedChild:
    said = step.intent.payload if step.intent else {}
    return FinishedChild(step.key, str(said.get("workflow", "")), str(said.get("childRunId", "")))
