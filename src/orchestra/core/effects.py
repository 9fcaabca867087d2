"""Effects: what a flow may want of the world, as small frozen records.

A flow never does; it performs an effect under a name, and a handler does it (core/context.py). An effect says three
things the context must know: which event is its intent (None: it needs none, it only reads), which event its outcome
is, and whether it acts on the world (then everything recorded so far is synced first). The digest of the record
(`identity`) is the intent's identity: if the code later wants something else under the same key, that is drift.

The effects of models, commands, patches, people and judgement are in core/work.py.

    effect           intent               outcome                                       handled by
    ModelCall        PHASE_STARTED        PHASE_COMPLETED | PHASE_FAILED                providers/calling.py
    RunCommand       PHASE_STARTED        PHASE_COMPLETED | PHASE_FAILED                worker/commands.py
    ChildRun         PHASE_STARTED        PHASE_COMPLETED | PHASE_FAILED                core/engine.py
    Sleep Now NewId  PHASE_STARTED        PHASE_COMPLETED                               core/context.py
    ProposePatch     -                    PATCH_PRODUCED                                patch/gatekeeper.py
    Approve          APPROVAL_REQUESTED   APPROVAL_GRANTED | APPROVAL_REJECTED          patch/gatekeeper.py
    ApplyPatch       -                    PATCH_APPLIED | PATCH_APPLY_FAILED            patch/gatekeeper.py
    AskPerson        QUESTION_RAISED      QUESTION_ANSWERED                             core/people.py
    Evaluate         -                    EVALUATION_PASSED | _FIXABLE | _BLOCKED       workflows' own judgement,
    written down
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
    """The identity of what is wanted: the same for the same wish, whatever the order of its keys."""
    return "sha256:" + hashlib.sha256(_canonical(wish)).hexdigest()


class Effect(Struct, Generic[Outcome], frozen=True):
    """Base of all effects. Subclasses set `outcome` to the record their handler returns."""

    intent: ClassVar[EventType | None] = "PHASE_STARTED"
    acts: ClassVar[bool] = True
    continues: ClassVar[bool] = False  # doing it again after a crash only goes on waiting; nothing happens twice
    outcome: ClassVar[Any] = None

    def identity(self) -> str:
        """The identity of this intent."""
        return digest_of([type(self).__name__, self])

    def public(self) -> dict[str, Any]:
        """What the intent event tells a reader; bulky or private fields are left out by overriding this."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields

    def outcome_event(self, outcome: Outcome) -> EventType:
        """Which event records this outcome."""
        return "PHASE_COMPLETED"


# -- time and chance --------------------------------------------------------------------------------------------------


class Instant(Struct, frozen=True):
    """A recorded reading of the clock."""

    at: str


class Now(Effect[Instant], frozen=True):
    """The time, read once and remembered."""

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Instant


class Sleep(Effect[Instant], frozen=True):
    """Wait. The deadline is journaled with the intent, so a kill does not start the wait anew."""

    seconds: float
    continues: ClassVar[bool] = True
    outcome: ClassVar[Any] = Instant


class RandomId(Struct, frozen=True):
    """A recorded random id."""

    id: str


class NewId(Effect[RandomId], frozen=True):
    """A fresh unique id, made once and remembered."""

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
        # The child's id follows from the parent's, which a fork changes; what is wanted stays the same.
        return digest_of([self.workflow, self.params])

    def public(self) -> dict[str, Any]:
        return {"workflow": self.workflow, "childRunId": self.childRunId}
