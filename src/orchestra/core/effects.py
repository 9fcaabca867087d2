"""Effects: what a flow may want of the world, as small frozen records.

A flow never does; it performs an effect under a name, and a handler does it (core/context.py). An effect says three
things the context must know: which event is its intent (None: it needs none, it only reads), which event its outcome
is, and whether it acts on the world (then everything recorded so far is synced first). The digest of the record
(`identity`) is the intent's identity: if the code later wants something else under the same key, that is drift.

    effect           intent               outcome                                       handled by
    ModelCall        PHASE_STARTED        PHASE_COMPLETED | PHASE_FAILED                providers/calling.py
    RunCommand       PHASE_STARTED        PHASE_COMPLETED | PHASE_FAILED                worker/commands.py
    ChildRun         PHASE_STARTED        PHASE_COMPLETED | PHASE_FAILED                core/engine.py
    Sleep Now NewId  PHASE_STARTED        PHASE_COMPLETED                               core/context.py
    ProposePatch     -                    PATCH_PRODUCED                                gatekeeper.py
    Approve          APPROVAL_REQUESTED   APPROVAL_GRANTED | APPROVAL_REJECTED          gatekeeper.py
    ApplyPatch       -                    PATCH_APPLIED | PATCH_APPLY_FAILED            gatekeeper.py
    AskPerson        QUESTION_RAISED      QUESTION_ANSWERED                             core/inbox.py
    Evaluate         -                    EVALUATION_PASSED | _FIXABLE | _BLOCKED       workflows' own judgement,
    written down
"""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from orchestra.core.model import Constraints, FinishReason, Prompt, Usage
from orchestra.core.records import ArtifactRef, Digest, EventType, Role

Outcome = TypeVar("Outcome")
Decision = Literal["pass", "fixable", "blocked"]

_canonical = msgspec.json.Encoder(order="deterministic").encode


class Effect(Struct, Generic[Outcome], frozen=True):
    """Base of all effects. Subclasses set `outcome` to the record their handler returns."""

    intent: ClassVar[EventType | None] = "PHASE_STARTED"
    acts: ClassVar[bool] = True
    continues: ClassVar[bool] = False  # doing it again after a crash only goes on waiting; nothing happens twice
    outcome: ClassVar[Any] = None

    def identity(self) -> str:
        """The identity of this intent."""
        return "sha256:" + hashlib.sha256(_canonical([type(self).__name__, self])).hexdigest()

    def public(self) -> dict[str, Any]:
        """What the intent event tells a reader; bulky or private fields are left out by overriding this."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields

    def outcome_event(self, outcome: Outcome) -> EventType:
        """Which event records this outcome."""
        return "PHASE_COMPLETED"


# -- models -----------------------------------------------------------------------------------------------------------


class Note(Struct, frozen=True):
    """A piece of context the flow itself holds (plan, answer, failure): a context artifact of the request."""

    name: str
    content: str


class ModelReply(Struct, frozen=True, omit_defaults=True):
    """A reply that arrived whole. `text` is redacted like everything in an event; the exact bytes are in `raw`."""

    text: str
    raw: ArtifactRef
    finishReason: FinishReason
    durationMs: int
    provider: str
    model: str = ""
    usage: Usage | UnsetType = UNSET
    costUsd: float = 0.0
    document: ArtifactRef | None = None  # the readable copy, where one was asked for
    files: tuple[str, ...] = ()  # workspace files that went in as context
    request: str = ""  # digest of the whole request, without the run's id: how `replay` finds this reply
    source: str | UnsetType = UNSET  # which entry of a script or recording it was
    recovered: bool = False  # found complete on disk after a crash, not asked for again (S1-121)


class ModelCall(Effect[ModelReply], frozen=True):
    """One call of a model in a role. `artifact` is the stem of its raw file, e.g. `execute/iter-0001`."""

    role: Role
    agent: str
    prompt: Prompt
    notes: tuple[Note, ...]
    constraints: Constraints
    artifact: str
    hints: tuple[str, ...] = ()  # texts whose mention of a file makes that file more worth showing
    files: bool = True  # whether workspace files are shown at all
    document: str = ""  # a second, readable copy of the reply, e.g. `plan/iter-0001.md` (S1-103)

    outcome: ClassVar[Any] = ModelReply

    def public(self) -> dict[str, Any]:
        # The prompt stays out of the event: it is kept beside the raw reply, once.
        return {"role": self.role, "agent": self.agent, "artifact": self.artifact}


# -- commands ---------------------------------------------------------------------------------------------------------


class CommandOutcome(Struct, frozen=True):
    """What a command really did. A non-zero exit is an outcome, not a failure of the step."""

    command: str
    exitCode: int | None
    status: Literal["pass", "fail", "not_run"]
    durationMs: int
    timedOut: bool
    output: str  # bounded, cleaned, redacted: what a person and the fixer see
    artifact: ArtifactRef | None = None
    error: str = ""


class RunCommand(Effect[CommandOutcome], frozen=True):
    """Run one command in the workspace; argv only, never a shell."""

    argv: tuple[str, ...]
    timeoutMs: int
    artifact: str

    outcome: ClassVar[Any] = CommandOutcome


# -- patches and the gate ---------------------------------------------------------------------------------------------


class PatchFile(Struct, frozen=True, omit_defaults=True):
    """One file a patch touches, with the hashes that make application exactly-once (D-12)."""

    path: str
    change: Literal["modify", "create", "delete", "rename"]
    before: Digest | None
    after: Digest | None
    added: int
    removed: int
    mode: int | None = None
    beforeMode: int | None = None
    oldPath: str | None = None


class PatchProposal(Struct, frozen=True, omit_defaults=True):
    """A patch as it would change the workspace now; `refusal` says why it would not apply."""

    patch: ArtifactRef
    digest: Digest  # of the exact patch and of the files it was computed against (D-11)
    files: tuple[PatchFile, ...]
    added: int
    removed: int
    risks: tuple[str, ...] = ()
    refusal: Refusal | None = None


class Refusal(Struct, frozen=True, omit_defaults=True):
    """Why a patch was not applied; `message` is precise enough for a fixer."""

    reason: str
    message: str
    path: str = ""


class Reply(Struct, frozen=True):
    """Where the exact text of a reply is found: inline as journaled, or in its raw file if redaction changed it."""

    text: str
    raw: ArtifactRef


class ProposePatch(Effect[PatchProposal], frozen=True):
    """Work out what a reply's patch would do to the workspace; reads only."""

    reply: Reply
    artifact: str

    intent: ClassVar[EventType | None] = None
    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = PatchProposal

    def outcome_event(self, outcome: PatchProposal) -> EventType:
        return "PATCH_PRODUCED"


class Approval(Struct, frozen=True, omit_defaults=True):
    """A person's (or the policy's) word on one digest. `accepted` names the files taken; empty means all."""

    granted: bool
    by: str
    digest: Digest
    reason: str = ""
    accepted: tuple[str, ...] = ()
    end: bool = False  # rejected for good: the run ends (S1-77)
    approvalId: str = ""


class Approve(Effect[Approval], frozen=True):
    """Ask a person whether this patch may be applied."""

    approvalId: str
    digest: Digest
    policy: str
    reasons: tuple[str, ...]
    summary: str
    patch: ArtifactRef
    files: tuple[PatchFile, ...]

    intent: ClassVar[EventType | None] = "APPROVAL_REQUESTED"
    continues: ClassVar[bool] = True
    outcome: ClassVar[Any] = Approval

    def outcome_event(self, outcome: Approval) -> EventType:
        return "APPROVAL_GRANTED" if outcome.granted else "APPROVAL_REJECTED"


class AutoApprove(Effect[Approval], frozen=True):
    """The policy needs no person for this patch; the grant is recorded all the same (C-19, S1-75)."""

    digest: Digest
    policy: str

    intent: ClassVar[EventType | None] = None
    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Approval

    def outcome_event(self, outcome: Approval) -> EventType:
        return "APPROVAL_GRANTED"


class FileStat(Struct, frozen=True):
    """One row of a diffstat."""

    path: str
    added: int
    removed: int


class Applied(Struct, frozen=True, omit_defaults=True):
    """What applying did. Exactly one of: everything written, or `refusal` and nothing written."""

    before: tuple[FileStat, ...]  # the diffstat the patch announced (S1-117)
    after: tuple[FileStat, ...]  # the diffstat measured on disk afterwards
    digest: Digest
    refusal: Refusal | None = None


class ApplyPatch(Effect[Applied], frozen=True):
    """Make the approved change, exactly once, all or nothing (D-12). Its recorded intent is the grant before it."""

    reply: Reply
    digest: Digest
    files: tuple[PatchFile, ...]

    intent: ClassVar[EventType | None] = None
    outcome: ClassVar[Any] = Applied

    def outcome_event(self, outcome: Applied) -> EventType:
        return "PATCH_APPLY_FAILED" if outcome.refusal else "PATCH_APPLIED"


class RefusePatch(Effect[Applied], frozen=True):
    """Write down that a patch cannot be applied as it is; touches nothing."""

    refusal: Refusal
    digest: Digest

    intent: ClassVar[EventType | None] = None
    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Applied

    def outcome_event(self, outcome: Applied) -> EventType:
        return "PATCH_APPLY_FAILED"


# -- people -----------------------------------------------------------------------------------------------------------


class Answer(Struct, frozen=True):
    """A person's answer."""

    questionId: str
    text: str
    by: str


class AskPerson(Effect[Answer], frozen=True):
    """Ask a person one question (C-18)."""

    questionId: str
    question: str
    reason: str
    needed_input: tuple[str, ...]
    artifact: str  # the readable copy, `ask/iter-0002.md` (S1-109)
    kind: Literal["input", "decision", "yes_no"] = "input"

    intent: ClassVar[EventType | None] = "QUESTION_RAISED"
    continues: ClassVar[bool] = True
    outcome: ClassVar[Any] = Answer

    def outcome_event(self, outcome: Answer) -> EventType:
        return "QUESTION_ANSWERED"


# -- judgement --------------------------------------------------------------------------------------------------------


class CheckResult(Struct, frozen=True):
    """One row of evaluate/iter-NNNN.json (G1-9)."""

    command: str
    status: Literal["pass", "fail", "not_run"]
    exitCode: int | None


class Diffstat(Struct, frozen=True):
    """What the patch announced and what it really changed (S1-117)."""

    before: tuple[FileStat, ...]
    after: tuple[FileStat, ...]


class Evaluation(Struct, frozen=True, omit_defaults=True):
    """evaluate/iter-NNNN.json (G1-9)."""

    decision: Decision
    grounds: str
    checks: tuple[CheckResult, ...]
    diffstat: Diffstat
    question: str = ""


class Judged(Struct, frozen=True):
    """The evaluation as recorded."""

    decision: Decision
    grounds: str
    artifact: ArtifactRef


class Evaluate(Effect[Judged], frozen=True):
    """Write down the verdict of this iteration."""

    evaluation: Evaluation
    artifact: str

    intent: ClassVar[EventType | None] = None
    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Judged

    def outcome_event(self, outcome: Judged) -> EventType:
        return _JUDGED[outcome.decision]


_JUDGED: dict[Decision, EventType] = {
    "pass": "EVALUATION_PASSED",
    "fixable": "EVALUATION_FAILED_FIXABLE",
    "blocked": "EVALUATION_FAILED_BLOCKED",
}


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


class Token(Struct, frozen=True):
    """A recorded random id."""

    id: str


class NewId(Effect[Token], frozen=True):
    """A fresh unique id, made once and remembered."""

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Token


# -- other runs -------------------------------------------------------------------------------------------------------


class ChildResult(Struct, frozen=True):
    """What a parent keeps of a child run (D-08)."""

    childRunId: str
    status: Literal["completed", "failed", "canceled"]
    result: dict[str, Any]


class ChildRun(Effect[ChildResult], frozen=True):
    """Run another workflow as a run of its own and wait for its end."""

    workflow: str
    params: dict[str, Any]
    childRunId: str
    continues: ClassVar[bool] = True
    outcome: ClassVar[Any] = ChildResult

    def identity(self) -> str:
        # The child's id follows from the parent's, which a fork changes; what is wanted stays the same.
        return "sha256:" + hashlib.sha256(_canonical([self.workflow, self.params])).hexdigest()

    def public(self) -> dict[str, Any]:
        return {"workflow": self.workflow, "childRunId": self.childRunId}
