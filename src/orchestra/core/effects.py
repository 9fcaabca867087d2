"""Effects: what a flow can ask for, as small frozen records.

A flow does nothing itself. It performs an effect under a name, and a handler carries the effect out (core/context.py).
An effect class tells the context three things: which event records its intent (none, if the outcome alone is recorded),
which event records its outcome, and whether it acts on the world. Before an effect that acts, everything recorded so
far is synced. The digest of the record (`identity`) is kept with the intent: if the code later performs another effect
under the same key, that is drift.

Effects of time and child runs are defined here; those of models, patches and people in core/work.py, of commands in
core/command.py; those of one workflow in its folder. A failed step is recorded as PHASE_FAILED, whatever its effect.

    effect           intent               outcome                                        handled by
    ModelCall        PHASE_STARTED        PHASE_COMPLETED                                providers/calling.py
    RunCommand       PHASE_STARTED        PHASE_COMPLETED                                commands/run.py
    ChildRun         PHASE_STARTED        PHASE_COMPLETED                                core/engine.py
    Sleep            PHASE_STARTED        PHASE_COMPLETED                                core/times.py
    Now              PHASE_STARTED        PHASE_COMPLETED                                core/times.py
    NewId            PHASE_STARTED        PHASE_COMPLETED                                core/times.py
    AskPerson        QUESTION_RAISED      QUESTION_ANSWERED                              core/people.py
    AskWorkspace     QUESTION_RAISED      QUESTION_ANSWERED                              core/people.py
    Approve          APPROVAL_REQUESTED   APPROVAL_GRANTED | APPROVAL_REJECTED           core/people.py
    ProposePatch     -                    PATCH_PRODUCED                                 patch/gatekeeper.py
    ReviewPatch      APPROVAL_REQUESTED   APPROVAL_GRANTED | APPROVAL_REJECTED           core/people.py
                                          | PATCH_PRODUCED (a person's own version)
    Revise           -                    PATCH_PRODUCED                                 patch/gatekeeper.py
    GrantRevision    -                    APPROVAL_GRANTED                               core/people.py
    AutoApprove      -                    APPROVAL_GRANTED                               patch/gatekeeper.py
    ApplyPatch       -                    PATCH_APPLIED | PATCH_APPLY_FAILED             patch/gatekeeper.py
    RefusePatch      -                    PATCH_APPLY_FAILED                             patch/gatekeeper.py
    ProposeTakeBack  -                    PATCH_PRODUCED                                 patch/takeback.py
    TakeBack         -                    PATCH_APPLIED | PATCH_APPLY_FAILED             patch/takeback.py
    TakeOver         PHASE_STARTED        PHASE_COMPLETED                                patch/takeover.py
    ProposeCommit    -                    PATCH_PRODUCED                                 patch/git/committing.py
    WriteCommit      -                    PATCH_APPLIED | PATCH_APPLY_FAILED             patch/git/committing.py
    Evaluate         -                    EVALUATION_PASSED | EVALUATION_FAILED_FIXABLE  workflows/loop/evaluation.py
                                          | EVALUATION_FAILED_BLOCKED
    KeepPlan         PHASE_STARTED        PHASE_COMPLETED                                workflows/loop/evaluation.py
    AdoptPlan        PHASE_STARTED        PHASE_COMPLETED                                workflows/dag/files.py
    Edition          -                    PHASE_COMPLETED                                core/editions.py
    Keep             -                    PHASE_COMPLETED                                core/editions.py
    Look             -                    PHASE_COMPLETED                                core/looks.py
    TreeHash         -                    PHASE_COMPLETED                                core/looks.py
    WriteFile        PHASE_STARTED        PHASE_COMPLETED                                patch/looked.py
    Compact          PHASE_STARTED        PHASE_COMPLETED                                workflows/evidence/effects.py
    Decline          PHASE_STARTED        PHASE_COMPLETED                                workflows/evidence/effects.py
    Conclude         PHASE_STARTED        PHASE_COMPLETED                                workflows/evidence/effects.py
    SaveSession      PHASE_STARTED        PHASE_COMPLETED                                workflows/evidence/effects.py
    SettlePhase      PHASE_STARTED        PHASE_COMPLETED                                workflows/team/effects.py
    TakeRequest      PHASE_STARTED        PHASE_COMPLETED                                workflows/contracts/effects.py
    LookUp           PHASE_STARTED        PHASE_COMPLETED                                workflows/contracts/effects.py
    ReadTests        PHASE_STARTED        PHASE_COMPLETED                                workflows/contracts/effects.py
    Settle           PHASE_STARTED        PHASE_COMPLETED                                workflows/contracts/effects.py
    PlanFaults       PHASE_STARTED        PHASE_COMPLETED                                workflows/contracts/proving.py
    ReadCoverage     PHASE_STARTED        PHASE_COMPLETED                                workflows/contracts/proving.py
    CallFunction     PHASE_STARTED        PHASE_COMPLETED                                workflows/own/effects.py
    KeepDiff         PHASE_STARTED        PHASE_COMPLETED                                workflows/own/effects.py
"""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from orchestra.core.records import Event, EventType
from orchestra.core.redact import Redactor
from orchestra.core.text import brief

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

    def outcome_in(self, event: EventType) -> Any:
        """The type of the outcome that an event of this type has."""
        return self.outcome


def difference(effect: Effect[Any], begun: Event, redactor: Redactor) -> str:
    """What an effect has other than the step that this event began, in words, as far as the event shows it."""
    kind, name = begun.payload.get("effect", ""), type(effect).__name__
    if kind != name:
        return f"it was {kind or 'another one'}, and is {name} now"
    shown: Any = redactor.record(msgspec.to_builtins(effect.public()))
    shown = msgspec.json.decode(msgspec.json.encode(shown))
    others = [field for field in shown if field in begun.payload and begun.payload[field] != shown[field]]
    told = [f"{field} was {_brief(begun.payload[field])}, and is {_brief(shown[field])} now" for field in others]
    return "; ".join(told) or f"it is a {name} as before, with other arguments"


def _brief(value: object) -> str:
    return brief(msgspec.json.encode(value).decode(), 100)


# -- time and chance --------------------------------------------------------------------------------------------------


class Instant(Struct, frozen=True):
    """A recorded reading of the clock."""

    at: str


class Now(Effect[Instant], frozen=True):
    """Read the clock once; a replay gets the recorded time."""

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Instant


class Slept(Struct, frozen=True):
    """When a sleep was over, and how long the process waited that ended it; an older version does not say that."""

    at: str
    waitedMs: int | UnsetType = UNSET


class Sleep(Effect[Slept], frozen=True):
    """Wait. The intent records the deadline, so a killed run waits only for the rest."""

    seconds: float
    continues: ClassVar[bool] = True
    outcome: ClassVar[Any] = Slept


class RandomId(Struct, frozen=True):
    """A recorded random id."""

    id: str


class NewId(Effect[RandomId], frozen=True):
    """Make a unique id once; a replay gets the recorded id."""

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = RandomId


# -- other runs -------------------------------------------------------------------------------------------------------


class Tokens(Struct, frozen=True, omit_defaults=True):
    """How many tokens model calls took, as far as providers counted them."""

    input: int = 0
    output: int = 0


class ChildResult(Struct, frozen=True, omit_defaults=True):
    """What a parent keeps of a child run (D-08): enough for its report and its budget, without the child's journal.

    Money, tokens and paths are those of the child and of all runs below it (core/accounts.py).
    """

    childRunId: str
    status: Literal["completed", "failed", "canceled"]
    result: Any
    error: str = ""  # why it failed or was canceled
    exitCode: int = 0
    code: str = ""  # of that error
    costUsd: float | None = None  # of replies at a known price; None: an older version recorded no sums
    tokens: Tokens = Tokens()
    calls: int = 0
    unpriced: int = 0  # of the calls: with a reply at an unknown price
    unanswered: int = 0  # of the calls: without a reply
    uncounted: bool = False  # a provider did not say how many tokens a call took
    lostUsd: float = 0.0  # the most that requests without a reply may have cost
    paths: tuple[str, ...] = ()  # files that its patches changed, each once
    treeMs: int = 0  # how long the whole tree had worked when the child ended (commands/clock.py)


class ChildRun(Effect[ChildResult], frozen=True):
    """Run another workflow as a run of its own and wait for its end."""

    workflow: str
    params: dict[str, Any]
    childRunId: str
    workspace: str | UnsetType = UNSET  # a folder in the parent's workspace that the child works in; unset: all of it
    copied: Literal[True] | UnsetType = UNSET  # the child works in its own copy of the project (core/copies.py)
    continues: ClassVar[bool] = True
    outcome: ClassVar[Any] = ChildResult

    def identity(self) -> str:
        # Without the child's id: it is derived from the parent's id, and a fork has another id.
        where: list[object] = [] if isinstance(self.workspace, UnsetType) else [self.workspace]
        where += [] if isinstance(self.copied, UnsetType) else [{"copied": self.copied}]
        return digest_of([self.workflow, self.params, *where])

    def public(self) -> dict[str, Any]:
        told: dict[str, Any] = {"workflow": self.workflow, "childRunId": self.childRunId}
        told |= {} if isinstance(self.workspace, UnsetType) else {"workspace": self.workspace}
        return told if isinstance(self.copied, UnsetType) else {**told, "copied": self.copied}


def named_ids(outcome: object) -> dict[str, Any]:
    """The id of the request that an outcome answers, for readers of its event alone (S1-47, S1-48)."""
    return {name: value for name in ("approvalId", "questionId") if (value := getattr(outcome, name, None))}
