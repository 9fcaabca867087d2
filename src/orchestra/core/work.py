"""The effects of models, patches and people, and the outcome of each (core/command.py has commands). Data only.

core/effects.py explains what an effect is, and has a table of all effects with their handlers.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from orchestra.core.effects import Effect, digest_of
from orchestra.core.model import ChatMessage, Constraints, Destination, FinishReason, Prompt, Usage, Withheld
from orchestra.core.records import ArtifactRef, Digest, EventType, Role
from orchestra.core.shown import Lines, ShownLines, Wanted

Asking = Literal["always", "risk", "never"]  # when a person must approve a change
EARLIER = "an earlier run"  # how the names of notes begin that tell of the run that a run follows
TOTAL_TIME = "TOTAL_TIMEOUT"  # the error of a step that the run has no time left for (S2-50)

# -- models -----------------------------------------------------------------------------------------------------------


class Note(Struct, frozen=True):
    """Context that the flow adds to a request (plan, answer, failure)."""

    name: str
    content: str


class ModelReply(Struct, frozen=True, omit_defaults=True):
    """A complete reply. `text` is redacted like everything in an event; the exact bytes are in the file `raw`."""

    text: str
    raw: ArtifactRef
    finishReason: FinishReason
    durationMs: int
    provider: str
    model: str = ""
    usage: Usage | UnsetType = UNSET
    costUsd: float | None = 0.0  # None: the price is not known
    document: ArtifactRef | None = None  # the readable copy, if one was requested
    files: tuple[str, ...] = ()  # workspace files in the prompt
    parts: dict[str, tuple[Lines, ...]] = {}  # of those that were not shown whole: the lines that were shown
    request: str = ""  # digest of the whole request, without the run's id: how `replay` finds this reply
    source: str | UnsetType = UNSET  # the entry of the script or recording it came from
    recovered: bool = False  # found complete on disk after a crash, so the model was not called again (S1-121)
    contextBytes: int = 0  # the most workspace bytes it was shown, computed from its context size
    asked: int = 1  # how often the call was made, if kills cut it off
    requests: int = 1  # requests that the provider made in the last call, if known
    lostUsd: float | None = None  # the most that cut-off requests may have cost; None: there were none, or unknown
    to: Destination = Destination()  # the server that answered
    withheld: tuple[Withheld, ...] = ()  # files that were mentioned and not shown

    @property
    def shown(self) -> ShownLines | None:
        """What the model had seen of the workspace; None if that is not recorded."""
        if not self.contextBytes:
            return None  # only the raw file of the reply was left
        return ShownLines(tuple(path for path in self.files if path not in self.parts), self.parts)


class ModelCall(Effect[ModelReply], frozen=True):
    """One call of a model in a role. `artifact` is the stem of its raw file, e.g. `execute/iter-0001`."""

    role: Role
    agent: str
    prompt: Prompt
    notes: tuple[Note, ...]
    constraints: Constraints
    artifact: str
    hints: tuple[str, ...] = ()  # texts: files that they mention are shown first
    files: bool = True  # whether workspace files are shown at all
    document: str = ""  # the name of a readable copy of the reply, e.g. `plan/iter-0001.md` (S1-103)
    # Unset fields are not part of the digest, so calls of older runs keep theirs.
    traces: tuple[str, ...] | UnsetType = UNSET  # output of failing checks: files and lines that it names come first
    wanted: tuple[Wanted, ...] | UnsetType = UNSET  # what the model asked to see in its earlier replies
    asking: str | UnsetType = UNSET  # a reply whose first line is this word asks to see more: it is no document
    mayAsk: bool | UnsetType = UNSET  # the reply to this call may ask
    # the schema of a reply that asks, if replies have a schema: allowed beside theirs where not everything is shown
    askSchema: dict[str, Any] | UnsetType = UNSET
    messages: tuple[ChatMessage, ...] | UnsetType = UNSET  # the conversation before the prompt (core/model.py)

    outcome: ClassVar[Any] = ModelReply

    @property
    def history(self) -> tuple[ChatMessage, ...]:
        """The messages before the prompt; empty if there are none."""
        return () if isinstance(self.messages, UnsetType) else self.messages

    def public(self) -> dict[str, Any]:
        # The prompt is not in the event; it is in a file beside the raw reply.
        return {"role": self.role, "agent": self.agent, "artifact": self.artifact}


class Reply(Struct, frozen=True):
    """The text of a reply: as journaled, and the raw file with the exact text in case redaction changed it."""

    text: str
    raw: ArtifactRef


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
    judges: bool = False  # an existing test, or a file that configures the checks


class Masked(Struct, frozen=True):
    """A masked part of a patch, which a person is not shown: its place in the new file, its length and the reason."""

    path: str
    line: int
    characters: int
    what: str


class Refusal(Struct, frozen=True, omit_defaults=True):
    """Why a patch is refused. `message` has the file, the hunk and the file's real text, for the fix prompt."""

    reason: Literal["invalid_patch", "path_violation", "context_mismatch", "conflict", "unsafe", "io_error"]
    message: str
    path: str = ""


class Revision(Struct, frozen=True, omit_defaults=True):
    """How a person changed a model's patch: which parts of it they declined and why, and whether they edited it."""

    reply: Reply  # the person's own patch, in the form of a reply
    by: str
    reason: str = ""
    declined: str = ""  # the declined parts, as a diff
    edited: bool = False


class PatchProposal(Struct, frozen=True, omit_defaults=True):
    """A patch as it would change the workspace now; if it does not apply, `refusal` has the reason."""

    patch: ArtifactRef
    digest: Digest  # of the exact patch and of the files it was computed against (D-11)
    files: tuple[PatchFile, ...]
    added: int
    removed: int
    risks: tuple[str, ...] = ()
    approval: Asking | None = None  # the project's approval mode of now, if it asks more often than the run's
    refusal: Refusal | None = None
    guarded: tuple[str, ...] = ()  # why a person must approve, whatever the approval mode
    masked: tuple[Masked, ...] = ()
    exact: ArtifactRef | None = None  # the reply with the exact patch, if the shown patch differs
    repaired: tuple[str, ...] = ()  # repairs of the reply's diff; `patch` has the repaired form
    doubts: tuple[str, ...] = ()  # guesses made while reading the diff; only a person may approve them
    by: str = ""  # "person": it is not a model's patch, but what a person made of one
    revision: Revision | None = None


def refused_patch(patch: ArtifactRef, of: Digest, why: Refusal, *, repaired: tuple[str, ...] = ()) -> PatchProposal:
    """A patch that does not apply: it changes nothing."""
    return PatchProposal(patch, of, files=(), added=0, removed=0, refusal=why, repaired=repaired)


class ProposePatch(Effect[PatchProposal], frozen=True):
    """Compute how a reply's patch would change the workspace. Only reads."""

    reply: Reply
    artifact: str
    shown: ShownLines | UnsetType = UNSET  # what the writer of the patch had seen; unset: not judged

    intent: ClassVar[EventType | None] = None
    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = PatchProposal

    def identity(self) -> str:
        # Without `shown`: it follows from the reply, and older runs recorded their proposals without it.
        return digest_of([type(self).__name__, msgspec.structs.replace(self, shown=UNSET)])

    def outcome_event(self, outcome: PatchProposal) -> EventType:
        return "PATCH_PRODUCED"


class Approval(Struct, frozen=True, omit_defaults=True):
    """The decision of a person or the policy on one digest. `accepted` names the granted files; empty means all."""

    granted: bool
    by: str
    digest: Digest
    reason: str = ""
    accepted: tuple[str, ...] = ()
    end: bool = False  # the rejection ends the run (S1-77)
    approvalId: str = ""


class Approve(Effect[Approval], frozen=True, omit_defaults=True):
    """Ask a person whether this patch may be applied, this plan carried out, or this command run."""

    approvalId: str
    digest: Digest
    policy: str
    reasons: tuple[str, ...]
    summary: str
    patch: ArtifactRef | None  # the file of the patch or the plan
    files: tuple[PatchFile, ...]
    subject: Literal["patch", "plan", "command"] = "patch"
    masked: tuple[Masked, ...] = ()  # empty for a plan: a plan with a secret is refused
    commands: tuple[Digest, ...] = ()  # the commands that need a grant, each as its `command_digest`

    intent: ClassVar[EventType | None] = "APPROVAL_REQUESTED"
    continues: ClassVar[bool] = True
    outcome: ClassVar[Any] = Approval

    def outcome_event(self, outcome: Approval) -> EventType:
        return "APPROVAL_GRANTED" if outcome.granted else "APPROVAL_REJECTED"


class ReviewPatch(Effect[Approval | PatchProposal], frozen=True, omit_defaults=True):
    """Ask a person about a patch. They grant or reject it, or send their own version: parts of it, or an edited one.

    Their own version is a patch of its own (PATCH_PRODUCED), and GrantRevision records its grant (D-11).
    """

    approvalId: str
    digest: Digest
    policy: str
    reasons: tuple[str, ...]
    summary: str
    patch: ArtifactRef
    files: tuple[PatchFile, ...]
    masked: tuple[Masked, ...] = ()

    intent: ClassVar[EventType | None] = "APPROVAL_REQUESTED"
    continues: ClassVar[bool] = True

    def identity(self) -> str:
        return digest_of([Approve.__name__, self])  # as older runs recorded it, which may still wait

    def outcome_event(self, outcome: Approval | PatchProposal) -> EventType:
        if isinstance(outcome, PatchProposal):
            return "PATCH_PRODUCED"
        return "APPROVAL_GRANTED" if outcome.granted else "APPROVAL_REJECTED"

    def outcome_in(self, event: EventType) -> Any:
        return PatchProposal if event == "PATCH_PRODUCED" else Approval


class Revise(Effect[PatchProposal], frozen=True):
    """How a person's own version of a patch would change the files; performed by core/people.py, never by a flow.

    `digest` is that of the version as the person saw it: of its text and of the files it was computed against."""

    review: ReviewPatch
    patch: str
    digest: Digest
    by: str
    reason: str
    declined: str
    edited: bool

    intent: ClassVar[EventType | None] = None
    outcome: ClassVar[Any] = PatchProposal


class GrantRevision(Effect[Approval], frozen=True):
    """Record the grant of a person's own version of a patch: whoever wrote it has granted it."""

    approvalId: str
    digest: Digest
    by: str
    reason: str
    accepted: tuple[str, ...]  # its files; empty: all that the model's patch has

    intent: ClassVar[EventType | None] = None
    acts: ClassVar[bool] = False
    continues: ClassVar[bool] = True  # the event has the id of the request that it answers
    outcome: ClassVar[Any] = Approval

    def outcome_event(self, outcome: Approval) -> EventType:
        return "APPROVAL_GRANTED"


class AutoApprove(Effect[Approval], frozen=True):
    """Record the policy's own grant of a patch that needs no person (C-19, S1-75)."""

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
    """The result of applying a patch: everything was written, or nothing was and `refusal` has the reason."""

    before: tuple[FileStat, ...]  # the diffstat that was granted (S1-117)
    after: tuple[FileStat, ...]  # the same, verified by the hashes on disk; empty if nothing was written
    digest: Digest
    refusal: Refusal | None = None
    undo: ArtifactRef | None = None  # what the files were before (patch/undo.py); None: an older run, or a commit
    commit: str = ""  # the commit that the patch was written to, in place of the files


class ApplyPatch(Effect[Applied], frozen=True):
    """Write an approved patch, exactly once, all or nothing (D-12). The grant before it serves as its intent."""

    reply: Reply
    digest: Digest
    files: tuple[PatchFile, ...]

    intent: ClassVar[EventType | None] = None
    outcome: ClassVar[Any] = Applied

    def outcome_event(self, outcome: Applied) -> EventType:
        return "PATCH_APPLY_FAILED" if outcome.refusal else "PATCH_APPLIED"


class Since(Struct, frozen=True):
    """An event of a run, and when it was recorded."""

    event: str
    time: str


class ProposeTakeBack(Effect[PatchProposal], frozen=True):
    """Compute the patch that restores what the patches of these runs, and of the runs below them, have changed."""

    runs: tuple[str, ...]
    artifact: str
    below: str | UnsetType = UNSET  # and those of steps of this run whose key begins so, and of their child runs
    since: Since | UnsetType = UNSET  # an event of the first run: only what was applied after it is restored

    intent: ClassVar[EventType | None] = None
    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = PatchProposal

    def outcome_event(self, outcome: PatchProposal) -> EventType:
        return "PATCH_PRODUCED"


class TakenOver(Struct, frozen=True, omit_defaults=True):
    """What a run changed in its copy of the project, as a reply for the gate; None: it changed nothing."""

    reply: Reply | None = None
    risks: tuple[str, ...] = ()  # of the patches that it applied there; their sum does not show all of them


class TakeOver(Effect[TakenOver], frozen=True):
    """Make a diff of everything that a run, and the runs below it, changed in the run's copy of the project."""

    run: str
    artifact: str

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = TakenOver


class TakeBack(Effect[Applied], frozen=True):
    """Restore these files, exactly once, all or nothing (D-12). The grant before it serves as its intent."""

    runs: tuple[str, ...]
    digest: Digest
    files: tuple[PatchFile, ...]
    below: str | UnsetType = UNSET
    since: Since | UnsetType = UNSET

    intent: ClassVar[EventType | None] = None
    outcome: ClassVar[Any] = Applied

    def outcome_event(self, outcome: Applied) -> EventType:
        return "PATCH_APPLY_FAILED" if outcome.refusal else "PATCH_APPLIED"


class CommitTo(Struct, frozen=True):
    """Where a run's result is committed, by whom and when. `parent` is the commit that it goes on from."""

    branch: str
    parent: str
    checkedOut: bool  # the branch is checked out: the files must have the result already, and the index gets it too
    name: str
    email: str
    seconds: int
    zone: int  # of the time, in seconds east of UTC
    message: str


class ProposeCommit(Effect[PatchProposal], frozen=True):
    """Compute what the net change of the first run does to the files of a commit. The other runs came after it."""

    runs: tuple[str, ...]
    to: CommitTo
    artifact: str

    intent: ClassVar[EventType | None] = None
    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = PatchProposal

    def outcome_event(self, outcome: PatchProposal) -> EventType:
        return "PATCH_PRODUCED"


class WriteCommit(Effect[Applied], frozen=True):
    """Write the commit and move the branch to it, exactly once. The grant before it serves as its intent."""

    runs: tuple[str, ...]
    to: CommitTo
    digest: Digest
    files: tuple[PatchFile, ...]

    intent: ClassVar[EventType | None] = None
    outcome: ClassVar[Any] = Applied

    def outcome_event(self, outcome: Applied) -> EventType:
        return "PATCH_APPLY_FAILED" if outcome.refusal else "PATCH_APPLIED"


class RefusePatch(Effect[Applied], frozen=True):
    """Record that a patch cannot be applied. Changes no file."""

    refusal: Refusal
    digest: Digest

    intent: ClassVar[EventType | None] = None
    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Applied

    def outcome_event(self, outcome: Applied) -> EventType:
        return "PATCH_APPLY_FAILED"


# -- people -----------------------------------------------------------------------------------------------------------


class Answer(Struct, frozen=True, omit_defaults=True):
    """A person's answer, or the question's default in its place."""

    questionId: str
    text: str
    by: str
    provisional: bool = False  # the default, taken because nobody was asked (`--on-ask default`)


class AskPerson(Effect[Answer], frozen=True):
    """Ask a person one question (C-18)."""

    questionId: str
    question: str
    reason: str
    needed_input: tuple[str, ...]
    artifact: str  # the readable copy, `ask/iter-0002.md` (S1-109)
    kind: Literal["input", "decision", "yes_no"] = "input"
    # Unset fields are not part of the digest, so older questions that still wait keep theirs.
    options: tuple[str, ...] | UnsetType = UNSET  # no other answer is accepted
    default: str | UnsetType = UNSET
    impact: str | UnsetType = UNSET  # what depends on the answer

    intent: ClassVar[EventType | None] = "QUESTION_RAISED"
    continues: ClassVar[bool] = True
    outcome: ClassVar[Any] = Answer

    def outcome_event(self, outcome: Answer) -> EventType:
        return "QUESTION_ANSWERED"


class AskWorkspace(Effect[Answer], frozen=True):
    """Record a model's question that the workspace answers: it only asks to see files. Nobody waits."""

    questionId: str
    question: str
    reason: str
    needed_input: tuple[str, ...]
    artifact: str

    intent: ClassVar[EventType | None] = "QUESTION_RAISED"
    continues: ClassVar[bool] = True
    outcome: ClassVar[Any] = Answer

    def outcome_event(self, outcome: Answer) -> EventType:
        return "QUESTION_ANSWERED"
