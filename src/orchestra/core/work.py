"""The effects of working: models, commands, patches, people and judgement, and what comes of each. Data only.

core/effects.py says what an effect is and has the table of all; their handlers are outside the core, where the doing
is.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import UNSET, Struct, UnsetType

from orchestra.core.effects import Effect
from orchestra.core.model import Constraints, FinishReason, Prompt, Usage
from orchestra.core.records import ArtifactRef, Digest, EventType, Role

Decision = Literal["pass", "fixable", "blocked"]

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

    before: tuple[FileStat, ...]  # the diffstat that was granted (S1-117)
    after: tuple[FileStat, ...]  # the same, once the hashes on disk have shown that it is so; else nothing
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
