"""Effects: what a flow can ask for, as small frozen records.

A flow does nothing itself. It performs an effect under a name, and a handler carries the effect out (core/context.py).
An effect class tells the context three things: which event records its intent (none, if the outcome alone is recorded),
which event records its outcome, and whether it acts on the world. Before an effect that acts, everything recorded so
far is synced. The digest of the record (`identity`) is kept with the intent: if the code later performs another effect
under the same key, that is drift.

Effects of time and child runs are defined here; those of models, commands, patches and people in core/work.py; those of
one workflow in its folder. A failed step is recorded as PHASE_FAILED, whatever its effect.

    effect           intent               outcome                                        handled by
    ModelCall        PHASE_STARTED        PHASE_COMPLETED                                providers/calling.py
    RunCommand       PHASE_STARTED        PHASE_COMPLETED                                commands/run.py
    ChildRun         PHASE_STARTED        PHASE_COMPLETED                                core/engine.py
    Sleep            PHASE_STARTED        PHASE_COMPLETED                                core/context.py
    Now              PHASE_STARTED        PHASE_COMPLETED                                core/context.py
    NewId            PHASE_STARTED        PHASE_COMPLETED                                core/context.py
    AskPerson        QUESTION_RAISED      QUESTION_ANSWERED                              core/people.py
    AskWorkspace     QUESTION_RAISED      QUESTION_ANSWERED                              core/people.py
    Approve          APPROVAL_REQUESTED   APPROVAL_GRANTED | APPROVAL_REJECTED           core/people.py
    ProposePatch     -                    PATCH_PRODUCED                                 patch/gatekeeper.py
    AutoApprove      -                    APPROVAL_GRANTED                               patch/gatekeeper.py
    ApplyPatch       -                    PATCH_APPLIED | PATCH_APPLY_FAILED             patch/gatekeeper.py
    RefusePatch      -                    PATCH_APPLY_FAILED                             patch/gatekeeper.py
    Evaluate         -                    EVALUATION_PASSED | EVALUATION_FAILED_FIXABLE  workflows/loop/evaluation.py
                                          | EVALUATION_FAILED_BLOCKED
    AdoptPlan        PHASE_STARTED        PHASE_COMPLETED                                workflows/dag/files.py
    CallFunction     PHASE_STARTED        PHASE_COMPLETED                                workflows/own/effects.py
    KeepDiff         PHASE_STARTED        PHASE_COMPLETED                                workflows/own/effects.py
"""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec
from msgspec import Struct

from orchestra.core.records import EventType

Outcome = TypeVar("Outcome")

_canonical = msgspec.json.Encoder(order="deterministic").encode


def digest_of(wish: object) -> str:
    """The digest of an effect's contents. The order of keys does not change it."""
    return "sha256:" + hashlib.sha256(_canonical(wish)).hexdigest()


class Effect(Struct, Generic[Outcome], frozen=True):
    """Base of all effects. Subclasses set `outcome` to the record their handler returns."""

    intent: ClassVar[EventType | None] = "PHASE_STARTED"
    acts: ClassVar[bool] = True
    continues: ClassVar[bool] = False  # performing it again after a crash only resumes waiting; nothing happens twice
    outcome: ClassVar[Any] = None

    def identity(self) -> str:
        """The digest that the intent event keeps; a different one under the same key is drift."""
        return digest_of([type(self).__name__, self])

    def public(self) -> dict[str, Any]:
        """The fields that the intent event shows. A subclass overrides this to leave out long or private ones."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields

    def outcome_event(self, outcome: Outcome) -> EventType:
        """The type of the event that records this outcome."""
        return "PHASE_COMPLETED"


# -- time and chance --------------------------------------------------------------------------------------------------


class Instant(Struct, frozen=True):
    """A recorded reading of the clock."""

    at: str


class Now(Effect[Instant], frozen=True):
    """Read the clock once; a replay gets the recorded time."""

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Instant


class Sleep(Effect[Instant], frozen=True):
    """Wait. The intent records the deadline, so a killed run waits only for the rest."""

    seconds: float
    continues: ClassVar[bool] = True
    outcome: ClassVar[Any] = Instant


class RandomId(Struct, frozen=True):
    """A recorded random id."""

    id: str


class NewId(Effect[RandomId], frozen=True):
    """Make a unique id once; a replay gets the recorded id."""

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = RandomId


# -- other runs -------------------------------------------------------------------------------------------------------


class ChildResult(Struct, frozen=True, omit_defaults=True):
    """What a parent keeps of a child run (D-08)."""

    childRunId: str
    status: Literal["completed", "failed", "canceled"]
    result: Any
    error: str = ""  # why it failed or was canceled
    exitCode: int = 0


class ChildRun(Effect[ChildResult], frozen=True):
    """Run another workflow as a run of its own and wait for its end."""

    workflow: str
    params: dict[str, Any]
    childRunId: str
    continues: ClassVar[bool] = True
    outcome: ClassVar[Any] = ChildResult

    def identity(self) -> str:
        # Without the child's id: it is derived from the parent's id, and a fork has another id.
        return digest_of([self.workflow, self.params])

    def public(self) -> dict[str, Any]:
        return {"workflow": self.workflow, "childRunId": self.childRunId}
