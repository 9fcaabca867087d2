"""What a new run keeps of another run's events, when it goes on from it. Pure.

Rules
1. A step is kept whole or not at all: an intent without an outcome is not copied. So a fork has no request, no child
   run and no call in flight that are another run's.
2. A step failed for good if its last attempt failed. All attempts of that series are dropped, so that the count of
   retries starts anew. An earlier series of the same name is kept.
3. A failure counts if it was the last thing in its scope: a task, a draft, the run itself ended with it. A failure
   after which the flow went on in the same scope was handled there, and is kept: a reply that was no patch, then a fix.
4. A handled failure counts too if the run failed with its words. If the flow says `failed` and no failure counts by
   these rules, all of them do.
5. A child run that failed or was canceled is a failure of its step. So is a rejection: the person is asked again. For a
   patch that could not be applied, the step that wrote it is done again.
6. What depends on a dropped step is not decided here: core/rehearsal.py replays the flow without it. But what was
   settled before that step began cannot depend on it, even if the flow does not come to it again: an earlier process
   came further, with the files that it found (core/editions.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from orchestra.core.records import FINAL, INTENTS, Event

_INTERNAL = "INTERNAL"  # the code of an error that nobody foresaw: no step is to blame
_WRITERS = ("ModelCall", "RunCommand")
_ENDED_BADLY = ("failed", "canceled")


class StepRecord(Struct, gc=False):
    """The events of one key, and their places in the journal."""

    key: str
    began: int
    intent: Event | None = None
    outcome: Event | None = None
    ended: int = -1

    @property
    def scope(self) -> str:
        """The path of the step's scope, with its last slash; empty for the outermost."""
        head, slash, _ = self.key.rpartition("/")
        return head + slash

    @property
    def name(self) -> str:
        """The key without the repeat count."""
        return self.key.rpartition(".")[0]

    @property
    def effect(self) -> str:
        event = self.outcome or self.intent
        return str(event.payload.get("effect", "")) if event else ""

    @property
    def to_be_retried(self) -> bool:
        """Whether the next step of this name is another attempt."""
        said: Mapping[str, Any] = self.outcome.payload if self.outcome else {}
        return "retryAt" in said or "notBefore" in said

    @property
    def failed(self) -> bool:
        """Whether the step failed as such: by itself, or with its child run."""
        if self.outcome is None:
            return False
        return self.outcome.type == "PHASE_FAILED" or (self.effect == "ChildRun" and _bad_child(self.outcome))

    @property
    def refused(self) -> bool:
        """Whether a person or the gate refused it, which a flow may take as a failure (rule 5)."""
        return self.outcome is not None and self.outcome.type in ("APPROVAL_REJECTED", "PATCH_APPLY_FAILED")


def steps_of(events: Iterable[Event]) -> dict[str, StepRecord]:
    """The steps in a journal, by key, in the order in which they began."""
    steps: dict[str, StepRecord] = {}
    for place, event in enumerate(events):
        key = event.payload.get("key")
        if key is None:
            continue
        step = steps.setdefault(str(key), StepRecord(str(key), place))
        if event.type in INTENTS:
            step.intent = event
        else:
            step.outcome, step.ended = event, place
    return steps


def settled(events: Sequence[Event], without: Iterable[str] = ()) -> list[Event]:
    """The events without open steps, without the steps of these keys and without the run's end (rule 1)."""
    dropped = {key for key, step in steps_of(events).items() if step.outcome is None} | set(without)
    return [event for event in events if event.type not in FINAL and event.payload.get("key") not in dropped]


def settled_before(events: Iterable[Event], redone: Iterable[str]) -> frozenset[str]:
    """The keys that were settled before the first of the steps `redone` began (rule 6); all of them without one."""
    steps = steps_of(events)
    first = min((steps[key].began for key in redone if key in steps), default=None)
    return frozenset(key for key, step in steps.items() if step.outcome and (first is None or step.ended < first))


def open_children(events: Iterable[Event]) -> list[str]:
    """The keys of the steps that wait for a child run."""
    return [key for key, step in steps_of(events).items() if step.outcome is None and step.effect == "ChildRun"]


def failures(events: Sequence[Event], *, handled: bool = True) -> frozenset[str]:
    """The keys of the steps to do again, of a run that has ended (rules 2 to 5).

    `handled`: if no failure counts, those that the flow handled do (rule 4).
    """
    steps = steps_of(events)
    last = events[-1]
    found = [step for step in steps.values() if (step.failed and not _tried_again(step, steps)) or step.refused]
    latest = _latest(steps.values())
    counted = [
        step for step in found if latest[step.scope] <= step.ended or (step.failed and _is_blamed(step, last))
    ]  # rules 3 and 4
    error = last.payload.get("error") or {}
    if handled and not counted and last.type == "RUN_FAILED" and error.get("code") != _INTERNAL:
        counted = [step for step in found if step.failed]  # rule 4
    return frozenset(key for step in counted for key in _dropped(step, steps))


def _dropped(step: StepRecord, steps: Mapping[str, StepRecord]) -> list[str]:
    """The keys to drop for one failure: its series, or for a patch the step that wrote it."""
    if step.outcome is not None and step.outcome.type == "PATCH_APPLY_FAILED":
        before = [one for one in steps.values() if one.scope == step.scope and one.began < step.began]
        wrote = [one for one in before if one.effect in _WRITERS and one.outcome is not None]
        made = [one for one in before if one.outcome is not None and one.outcome.type == "PATCH_PRODUCED"]
        return [(wrote or made or [step])[-1].key]
    return _series(step, steps)


def _series(step: StepRecord, steps: Mapping[str, StepRecord]) -> list[str]:
    """The attempts that end with this step."""
    keys = [step.key]
    while (before := steps.get(_numbered(keys[-1], -1))) is not None and before.to_be_retried:
        keys.append(before.key)
    return keys


def _tried_again(step: StepRecord, steps: Mapping[str, StepRecord]) -> bool:
    return step.to_be_retried and _numbered(step.key, 1) in steps


def _numbered(key: str, more: int) -> str:
    """The key of an earlier or later step of the same name."""
    name, _, number = key.rpartition(".")
    return f"{name}.{int(number) + more}" if number.isdecimal() else ""


def _latest(steps: Iterable[StepRecord]) -> dict[str, int]:
    """By scope: where the last step in it, or below it, began."""
    latest: dict[str, int] = {}
    for step in steps:
        scope = step.scope
        while True:
            latest[scope] = max(latest.get(scope, -1), step.began)
            if not scope:
                break
            scope = scope[: scope.rstrip("/").rfind("/") + 1]
    return latest


def _is_blamed(step: StepRecord, last: Event) -> bool:
    """Whether the run failed with the words of this failure (rule 4)."""
    said = last.payload.get("error") or {}
    if step.outcome is None:
        return False
    message = str(said.get("message", ""))
    if step.effect == "ChildRun" and (child := _outcome(step.outcome).get("childRunId")):
        return str(child) in message
    own = step.outcome.payload.get("error") or {}
    return bool(own.get("message")) and str(own["message"]) in message


def _bad_child(event: Event) -> bool:
    return _outcome(event).get("status") in _ENDED_BADLY


def _outcome(event: Event) -> Mapping[str, Any]:
    outcome = event.payload.get("outcome")
    return outcome if isinstance(outcome, dict) else {}
