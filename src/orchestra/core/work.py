"""The effects of working: models, commands, patches, people and judgement, and what comes of each. Data only.

core/effects.py says what an effect is and has the table of all; their handlers are outside the core, where the doing
is.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import UNSET, Struct, UnsetType

from orchestra.core.effects import Effect, digest_of
from orchestra.core.model import Constraints, Destination, FinishReason, Prompt, Usage, Withheld
from orchestra.core.records import ArtifactRef, Digest, EventType, Role

Asking = Literal["always", "risk", "never"]  # when a person must see a change first
Asker = Literal["model", "person"]  # whose wish a command is: a person's needs no whitelist
Keeps = Literal["layer", "files", "nothing"]  # what stays of a command's writing (RunCommand)
TOTAL_TIME = "TOTAL_TIMEOUT"  # how a step fails for which the run has no time left (S2-50)
NOT_GRANTED = "NOT_GRANTED"  # how a command fails that a rule wants a person to grant, and nobody has

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
    costUsd: float | None = 0.0  # None: nobody knows the price
    document: ArtifactRef | None = None  # the readable copy, where one was asked for
    files: tuple[str, ...] = ()  # workspace files that went in as context
    request: str = ""  # digest of the whole request, without the run's id: how `replay` finds this reply
    source: str | UnsetType = UNSET  # which entry of a script or recording it was
    recovered: bool = False  # found complete on disk after a crash, not asked for again (S1-121)
    contextBytes: int = 0  # how much of the workspace it was shown at most, by what it can read
    asked: int = 1  # how often it was asked for, if a kill cut it off
    requests: int = 1  # how many the provider made when it was asked last, as far as that can be known
    lostUsd: float | None = None  # what the requests that were cut off may have cost at most; None: none, or unknown
    to: Destination = Destination()  # the server that was asked
    withheld: tuple[Withheld, ...] = ()  # files that were mentioned and not shown


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


class Reply(Struct, frozen=True):
    """Where the exact text of a reply is found: inline as journaled, or in its raw file if redaction changed it."""

    text: str
    raw: ArtifactRef


# -- commands ---------------------------------------------------------------------------------------------------------


class InputFile(Struct, frozen=True):
    """A file a command finds beside the workspace's own (S2-21)."""

    path: str
    content: str


class Denied(Struct, frozen=True):
    """A connection the sandbox's proxy refused, or a written file that could not be taken over."""

    what: str
    why: str


class CommandOutcome(Struct, frozen=True, omit_defaults=True):
    """What a command really did. A non-zero exit is an outcome, not a failure of the step."""

    command: str
    exitCode: int | None
    status: Literal["pass", "fail", "not_run"]
    durationMs: int
    timedOut: bool
    output: str  # bounded, cleaned, redacted: what a person and the fixer see
    artifact: ArtifactRef | None = None  # what it printed
    error: str = ""
    artifacts: tuple[ArtifactRef, ...] = ()  # what it printed and the files it left in its artifact folder
    limit: str = ""  # the limit that ended it
    denials: tuple[Denied, ...] = ()  # connections that were refused
    changes: Reply | None = None  # what it changed in the workspace's copy, as a patch for the gate
    untaken: tuple[Denied, ...] = ()  # changes no patch can carry
    tier: str = ""  # the containment it ran in
    stdout: str = ""  # of a tool call, apart from `output`; bounded, cleaned and redacted as that
    stderr: str = ""


class RunCommand(Effect[CommandOutcome], frozen=True, omit_defaults=True, kw_only=True):
    """Run one command in the sandbox: an L3 task (D-09). argv only, never a shell.

    `asker` has no default: who wants a command decides whether the whitelist holds for it (policy/decide.py, rule 2).
    `keeps` says what stays of what it writes, and which of the three kinds of command it is:

        layer     a check: its build output is there for the checks after it; its output is one file, `artifact`
        files     a graph's task: the files it hands over and its two outputs are kept in the folder `artifact`; its
                  changes become a patch if it may write (`fs`)
        nothing   a tool call: what it writes is thrown away; its outcome carries stdout and stderr apart
    """

    argv: tuple[str, ...]
    timeoutMs: int
    artifact: str
    asker: Asker
    keeps: Keeps
    task: str = ""  # the label of the graph's task
    taskId: str = ""
    env: tuple[tuple[str, str], ...] = ()
    files: tuple[InputFile, ...] = ()
    fs: Literal["read-only", "rw"] = "read-only"
    net: bool = False
    after: tuple[str, ...] = ()  # tasks whose private layers (build output, caches) it sees
    mustPass: bool = False  # anything but exit 0 fails the step, and may be tried again (S2-13, G2-5)
    dry: bool = False

    outcome: ClassVar[Any] = CommandOutcome

    def identity(self) -> str:
        return digest_of([type(self).__name__, _recorded_form(self)])

    def public(self) -> dict[str, Any]:
        # The inputs stay out of the event: the plan has them, once.
        told: dict[str, Any] = {"argv": self.argv, "timeoutMs": self.timeoutMs, "artifact": self.artifact}
        if self.task:
            told |= {"task": self.task, "taskId": self.taskId}
        return told


class _RecordedCommand(Struct, frozen=True, omit_defaults=True):
    """A RunCommand in the form whose digest journals hold: that form is older than `asker` and `keeps`.

    Checks and tasks keep their old digest, so that runs which waited since then go on. Any other kind names both.
    """

    argv: tuple[str, ...]
    timeoutMs: int
    artifact: str
    task: str = ""
    taskId: str = ""
    env: tuple[tuple[str, str], ...] = ()
    files: tuple[InputFile, ...] = ()
    fs: Literal["read-only", "rw"] = "read-only"
    net: bool = False
    after: tuple[str, ...] = ()
    mustPass: bool = False
    dry: bool = False
    typed: bool = False
    keeps: str = ""
    asker: str = ""


def _recorded_form(command: RunCommand) -> _RecordedCommand:
    fields = {name: getattr(command, name) for name in command.__struct_fields__ if name not in ("asker", "keeps")}
    if command.keeps == "files" and command.task:
        return _RecordedCommand(**fields, typed=command.asker == "person")
    if command.keeps == "layer" and command.asker == "person":
        return _RecordedCommand(**fields)
    return _RecordedCommand(**fields, keeps=command.keeps, asker=command.asker)


def command_digest(argv: tuple[str, ...], *, net: bool) -> Digest:
    """What a person grants when a rule asks about a command: exactly these words, and the network only if it is said.

    Without the network it is the digest of the words, as journals have held it from the beginning.
    """
    return digest_of({"argv": argv, "net": True} if net else argv)


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
    judges: bool = False  # checks are judged by it: a test that was there before, what decides what checks mean


class Masked(Struct, frozen=True):
    """What a patch writes and a person is not shown: where it is in the new file, how long, and why it is masked."""

    path: str
    line: int
    characters: int
    what: str


class Refusal(Struct, frozen=True, omit_defaults=True):
    """Why a patch is refused. `message` names file, hunk and the file's real text; it goes into the fix prompt."""

    reason: Literal["invalid_patch", "path_violation", "context_mismatch", "conflict", "unsafe", "io_error"]
    message: str
    path: str = ""


class PatchProposal(Struct, frozen=True, omit_defaults=True):
    """A patch as it would change the workspace now; `refusal` says why it would not apply."""

    patch: ArtifactRef
    digest: Digest  # of the exact patch and of the files it was computed against (D-11)
    files: tuple[PatchFile, ...]
    added: int
    removed: int
    risks: tuple[str, ...] = ()
    approval: Asking | None = None  # what the project says now, where that asks a person more often than the run does
    refusal: Refusal | None = None
    guarded: tuple[str, ...] = ()  # why a person must agree under every approval mode
    masked: tuple[Masked, ...] = ()
    exact: ArtifactRef | None = None  # the reply with the patch's exact bytes, where what is shown differs
    repaired: tuple[str, ...] = ()  # what the reply's diff lacked and was given; `patch` has it in the normal form
    doubts: tuple[str, ...] = ()  # what was worked out but cannot be known; only a person may grant it


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
    masked: tuple[Masked, ...] = ()  # a plan has none: one that holds a secret is refused
    commands: tuple[Digest, ...] = ()  # the commands that rules want granted, each by `command_digest`

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
    # Unset, they are not part of what is wanted: questions that wait since before they existed stay the same.
    options: tuple[str, ...] | UnsetType = UNSET  # no other answer is taken
    default: str | UnsetType = UNSET
    impact: str | UnsetType = UNSET  # what depends on the answer

    intent: ClassVar[EventType | None] = "QUESTION_RAISED"
    continues: ClassVar[bool] = True
    outcome: ClassVar[Any] = Answer

    def outcome_event(self, outcome: Answer) -> EventType:
        return "QUESTION_ANSWERED"
