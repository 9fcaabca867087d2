"""Typed views of events: the fields of each kind of event, as records. Pure.

Rules
1. Outside the core no payload is read by the name of a field. `RunCreated`, `StepEvent`, `Request` and `RunEnded` have
   the fields of each kind of event, `StepOutcome` the outcome of orchestra's own steps.
2. These records are the only list of fields. core/shape.py checks the payloads of foreign journals against them.
3. Reading never fails, because a journal may come from anybody. A field that is missing, or has a value of the wrong
   type, gets its default. A view gets only payloads that fit (core/lines.py, rule 4).
4. The outcome of a person's own step is read by its flow only: `outcome_of` returns an empty record for it.
5. Fields that only the core reads (seals, intents, the facts of a model call) are not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from orchestra.core.records import Event, GitFacts
from orchestra.core.shown import Conversation
from orchestra.core.work import Masked

R = TypeVar("R", bound=Struct)
T = TypeVar("T")

# The effects whose outcome is a StepOutcome; "" is a step without the name of its effect.
OWN_EFFECTS = {"", "AdoptPlan", "ApplyPatch", "Approve", "AskPerson", "AskWorkspace", "AutoApprove", "ChildRun"}
OWN_EFFECTS |= {"Evaluate", "GrantRevision", "KeepPlan", "ModelCall", "NewId", "Now", "ProposeCommit", "ProposePatch"}
OWN_EFFECTS |= {"ProposeTakeBack", "RefusePatch", "ReviewPatch", "RunCommand", "Sleep", "TakeBack", "WriteCommit"}
OWN_EFFECTS |= {"Revise", "TakeOver"}


class Failure(Struct, frozen=True):
    """Why a step or a run failed, or a patch was refused."""

    code: Any = ""
    message: str = ""
    reason: str = ""
    stack: str = ""
    retriable: bool = False


class ChangedFile(Struct, frozen=True):
    """A file that a patch changes, as a diffstat or a request names it."""

    path: str
    added: int = 0
    removed: int = 0
    change: Any = ""


class Reference(Struct, frozen=True):
    """A reference to a file of the run. Only `RunFolder.recorded` checks the file's bytes against it."""

    path: str
    bytes: int = 0
    sha256: str = ""


class Behind(Struct, frozen=True, omit_defaults=True):
    """The child run of the source that a fork's child goes on from, and the intent of the step that began it."""

    runId: str
    intent: str = ""
    path: tuple[str, ...] = ()  # to a question that is answered anew: the keys of child runs, then the question's id
    text: str = ""  # the new answer
    by: str = ""
    # The runs to do stale parts of again, each as the keys that lead to it from this child; the child's own is empty.
    # Nothing: the child failed or is open, and is gone on from without its failures.
    stale: tuple[tuple[str, ...], ...] = ()


class Origin(Struct, frozen=True):
    """Where a fork comes from."""

    runId: str
    at: str = ""  # the last of the source's events that it kept
    origin: str = ""  # the run in which this history began
    events: int = 0  # how many of its events are copies; 0: made by an older version, which kept all up to `at`
    made: str = ""  # when it was made; its first events have the times of its source
    children: dict[str, Behind] = {}  # by key: failed and open children, which are gone on from

    @property
    def last(self) -> str:
        """The id of its last copied event."""
        return str(self.events).zfill(8) if self.events else self.at


class Remark(Struct, frozen=True):
    """A connection that was refused, or a change that could not be taken over, and why."""

    what: str = ""
    why: str = ""


class CheckRow(Struct, frozen=True):
    """A check in a verdict: its result before the plan, and now."""

    command: str = ""
    status: str = ""
    before: str = ""


# -- how a run began and ended ----------------------------------------------------------------------------------------


class Params(Struct, frozen=True):
    """The fields of a run's job that orchestra itself reads. `job_of` returns the whole job."""

    dry: bool = False
    planOnly: bool = False
    intent: str = ""
    asker: str = ""
    plan: str | None = None
    checks: Any = None
    policy: Any = None
    approval: Any = None
    context: Any = None
    hidden: Any = None
    session: str = ""  # the conversation that the run is a turn of

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """The checks as commands, each as its argv."""
        return tuple(tuple(map(str, _items(argv))) or (str(argv),) for argv in _items(self.checks))

    @property
    def opened(self) -> tuple[str, ...]:
        """The files that a person opened for the models of the run."""
        return tuple(map(str, _items(self.context)))

    @property
    def hides(self) -> tuple[str, ...]:
        """The globs of files that a person hid from the models of the run."""
        return tuple(map(str, _items(self.hidden)))


class ContextFacts(Struct, frozen=True, omit_defaults=True):
    """The `context` section of the configuration as a run began with it, for the models of its whole tree."""

    show: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()


class RunCreated(Struct, frozen=True):
    """RUN_CREATED: the job of a run, and its rights."""

    workflow: str = ""
    goal: str = ""
    number: int = 0  # of a root run in its project; 0: it has none
    parentRunId: str | None = None
    parentKey: str = ""  # the step of the parent that began this run
    models: dict[str, Any] = {}
    approval: Any = ""
    workspace: str = ""  # the project's folder; empty: not recorded
    folder: str = ""  # the folder in the project that the run works in, as a relative path; empty: the project itself
    copy: str = ""  # the copy of the project that the run works in (core/copies.py); empty: the project itself
    policy: Any = ""
    typed: tuple[str, ...] = ()
    maxFixes: int | None = None  # of a retry: the limit of child runs that ended at theirs
    forkedFrom: Origin | None = None
    inputRunId: str = ""  # the run whose files this one began with, or which it is about
    git: GitFacts | None = None  # None: not in a repository, or an older run
    atEnd: bool = False  # a person is asked about the result, not about patches in the copies of its child runs
    aside: bool = False  # it only does something with another run (undo, apply): never `last`, not in the usual list
    inputs: dict[str, str] = {}  # their digests, by path
    scenario: Any = ""
    asker: str = ""  # whose wish the commands are that this run hands to its child runs
    environment: str = ""  # of its commands: a folder, relative if it lies in the project, or `none`
    own: bool = False  # the workflow is a person's own, and may be unknown here
    maxFixIterations: int = 3
    context: ContextFacts = ContextFacts()
    rules: Reference | None = None  # the file with the project's own rules; None: it has none, or an older run
    recorded_params: Params | None = field(name="params", default=None)

    @classmethod
    def of(cls, event: Event | None) -> RunCreated:
        """The record of a run's first event; an empty one for None (the run is not here)."""
        return cls() if event is None else _read(event.payload, cls)

    @property
    def params(self) -> Params:
        """The job, as far as its fields are orchestra's: those of a person's own workflow have their own meaning."""
        return Params() if self.own or self.recorded_params is None else self.recorded_params


class RunEnded(Struct, frozen=True):
    """RUN_COMPLETED, RUN_FAILED and RUN_CANCELED."""

    exitCode: int = 0
    error: Failure | None = None
    result: Any = None  # what the flow returned, as JSON

    @classmethod
    def of(cls, event: Event) -> RunEnded:
        return _read(event.payload, cls)

    @property
    def message(self) -> str:
        """Why the run failed; empty if not recorded."""
        return self.error.message if self.error else ""

    @property
    def reason(self) -> str:
        """Why the run was canceled; empty if not recorded."""
        return str(self.result.get("reason", "")) if isinstance(self.result, dict) else ""


# -- steps ------------------------------------------------------------------------------------------------------------


class StepEvent(Struct, frozen=True):
    """An event of a step: its beginning or its end. `outcome_of` returns the outcome."""

    key: str = ""
    effect: str = ""
    attempt: int = 1
    artifact: str = ""  # of a model call or a command: the stem of its files
    role: str = ""  # of a model call
    agent: str = ""
    task: str = ""
    taskId: str = ""
    argv: tuple[str, ...] = ()
    line: str = ""  # of a pipe: all its stages
    tier: str = ""
    policy: Any = ""  # the digest of the policy that a command runs under
    process: Any = None
    error: Failure | None = None
    retryAt: str = ""  # when the step is tried again; empty: not at all, or at once
    notBefore: str = ""
    childRunId: str = ""
    workflow: str = ""  # of the child run
    approvalId: str = ""  # of the request that this event answers
    questionId: str = ""
    state: str = ""  # this and the next six: a workflow's own names (context.py: Labels)
    native: str = ""
    step: int = 0
    stage: int = 0
    turn: int = 0
    round: int = 0
    target: str = ""
    conversation: Conversation | None = None  # of a model call in a conversation: what it was told

    @classmethod
    def of(cls, event: Event) -> StepEvent:
        return _read(event.payload, cls)

    @property
    def message(self) -> str:
        """Why the step failed; empty if it did not fail, or no reason is recorded."""
        return self.error.message if self.error else ""

    @property
    def started(self) -> tuple[int, str] | None:
        """The id and the start time of the process that was begun; None if none was."""
        if not isinstance(self.process, Mapping):
            return None
        pid, start = self.process.get("pid"), self.process.get("startTime")
        return (pid, str(start)) if isinstance(pid, int) and start is not None else None


class StepOutcome(Struct, frozen=True):
    """The outcome of one of orchestra's own steps, of any kind. `outcome_as` returns the full record (core/work.py)."""

    accepted: tuple[str, ...] = ()
    added: Any = 0
    after: tuple[ChangedFile, ...] | UnsetType = UNSET
    artifact: Reference | None = None
    artifacts: tuple[Reference, ...] = ()
    before: tuple[ChangedFile, ...] | UnsetType = UNSET
    by: str = ""
    changes: Any = None
    checks: Any = ()
    checksChanged: Any = ()
    command: str = ""
    decision: str = ""
    denials: tuple[Remark, ...] = ()
    digest: str = ""
    durationMs: int | float = 0
    error: str = ""
    exitCode: int | UnsetType | None = UNSET  # None: the command was not run, or has none
    file: Reference | None = None
    files: tuple[Any, ...] = ()
    finishReason: str = ""
    grounds: str = ""
    masked: Any = ()
    output: str = ""
    patch: Reference | None = None
    plan: dict[str, Any] = {}
    provider: str = ""
    provisional: bool = False  # of an answer: the default was taken, nobody was asked
    raw: Reference | None = None
    reason: str = ""
    refusal: Failure | None = None
    removed: int = 0
    repaired: Any = ()
    status: str = ""
    text: str = ""
    tier: Any = ""
    timedOut: bool = False
    untaken: tuple[Remark, ...] = ()
    usage: dict[str, Any] | None = None

    @property
    def is_command(self) -> bool:
        """Whether this is the outcome of a command."""
        return self.exitCode is not UNSET

    @property
    def exit_code(self) -> int | None:
        return None if isinstance(self.exitCode, UnsetType) else self.exitCode

    @property
    def applied(self) -> tuple[ChangedFile, ...]:
        """The files that a patch changed."""
        return () if isinstance(self.after, UnsetType) else self.after

    @property
    def has_diffstats(self) -> bool:
        """Whether this has both diffstats of an applied patch: the granted and the actual one."""
        return self.before is not UNSET and self.after is not UNSET

    @property
    def hidden(self) -> tuple[Masked, ...]:
        """The masked parts of a patch."""
        return _all_of(self.masked, Masked)

    @property
    def repairs(self) -> tuple[str, ...]:
        """The repairs of the reply's diff."""
        return tuple(map(str, _items(self.repaired)))

    @property
    def changed_checks(self) -> tuple[str, ...]:
        """The changed files that affect the checks."""
        return tuple(map(str, _items(self.checksChanged)))

    @property
    def check_results(self) -> tuple[CheckRow, ...]:
        """The checks of a verdict, each before the plan and now; empty if there was no baseline."""
        return _all_of(self.checks, CheckRow)

    @property
    def tokens(self) -> int:
        """How many tokens a model call took; 0 if that is not recorded."""
        usage = self.usage or {}
        counts = {name: value for name, value in usage.items() if isinstance(value, int)}
        return counts.get("totalTokens", 0) or counts.get("inputTokens", 0) + counts.get("outputTokens", 0)


# -- requests to a person ---------------------------------------------------------------------------------------------


class Request(Struct, frozen=True):
    """APPROVAL_REQUESTED and QUESTION_RAISED: a request to a person."""

    approvalId: str = ""
    questionId: str = ""
    subject: str = "patch"
    digest: str = ""  # what a grant is bound to (D-11)
    summary: str = ""
    reasons: tuple[str, ...] = ()
    policy: Any = ""
    patch: Reference | None = None
    files: tuple[ChangedFile, ...] = ()
    masked: Any = ()
    commands: Any = ()
    question: str = ""
    reason: str = ""
    needed_input: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # no other answer is accepted
    kind: str = ""  # of a question: input, decision or yes_no
    default: str = ""
    impact: str = ""  # what depends on the answer

    @classmethod
    def of(cls, event: Event) -> Request:
        return _read(event.payload, cls)

    @property
    def id(self) -> str:
        """The id of the request, which an answer repeats."""
        return self.approvalId or self.questionId

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that the patch touches."""
        return tuple(file.path for file in self.files)

    @property
    def hidden(self) -> tuple[Masked, ...]:
        """The masked parts of the patch."""
        return _all_of(self.masked, Masked)

    @property
    def granted_commands(self) -> tuple[str, ...]:
        """The digests of the commands that a grant allows."""
        return tuple(map(str, _items(self.commands)))


def key_of(event: Event) -> str:
    """The key of the step that an event belongs to; empty if it belongs to none."""
    return str(event.payload.get("key", ""))


def branch_of(event: Event) -> str:
    """The branch that an event belongs to: the first name of its key. In a task graph, the task's label."""
    return key_of(event).split("/", 1)[0]


def scope_of(event: Event) -> str:
    """The scope that an event belongs to: its key without the last name."""
    return key_of(event).rpartition("/")[0]


def effect_of(event: Event) -> str:
    """The name of the effect that an event begins or ends; empty if not recorded."""
    return str(event.payload.get("effect", ""))


def outcome_of(event: Event) -> StepOutcome:
    """The outcome of one of orchestra's own steps; an empty record for any other event (rule 4)."""
    outcome = event.payload.get("outcome")
    return _read(outcome, StepOutcome) if outcome and effect_of(event) in OWN_EFFECTS else _NOTHING


def outcome_as(event: Event, kind: type[T]) -> T | None:
    """The full outcome of a step, as a record of its effect (core/work.py); None if it does not fit."""
    try:
        return msgspec.convert(event.payload.get("outcome"), kind)
    except msgspec.ValidationError:
        return None


def duration_of(event: Event) -> float:
    """How many milliseconds a step took; 0 if not recorded."""
    outcome = event.payload.get("outcome")
    taken = outcome.get("durationMs") if isinstance(outcome, dict) else 0
    return taken if isinstance(taken, int | float) else 0


def job_of(event: Event | None) -> Mapping[str, Any]:
    """The whole job of a run, whose fields only its workflow knows; empty for a run that is not here."""
    params = event.payload.get("params") if event is not None else None
    return params if isinstance(params, dict) else {}


def recorded(event: Event, *names: str) -> dict[str, Any]:
    """These fields of an event, unchanged, without missing ones: for copying to another event."""
    return {name: event.payload[name] for name in names if name in event.payload}


def is_abridged(event: Event) -> bool:
    """Whether the longest parts of an event were left out (core/lines.py, rule 3)."""
    return "abridged" in event.payload


_NOTHING = StepOutcome()


def _read(value: Any, kind: type[R]) -> R:
    """A payload, or a part of it, as a record of this kind (rule 3)."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return _as_far_as_it_fits(value, kind)


def _as_far_as_it_fits(value: Any, kind: type[R]) -> R:
    """The record with the fields that fit. A wrong `error` becomes an empty error, so that no failure is lost."""
    found: dict[str, Any] = {}
    for part in msgspec.structs.fields(kind) if isinstance(value, Mapping) else ():
        own = value.get(part.encode_name, UNSET)
        try:
            if own is not UNSET:
                found[part.name] = msgspec.convert(own, part.type)
        except msgspec.ValidationError:
            if part.name == "error" and kind is not StepOutcome:
                found[part.name] = _as_far_as_it_fits(own, Failure)
    return kind(**found)


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _all_of(value: Any, kind: type[R]) -> tuple[R, ...]:
    """The values that fit this kind of record."""
    found: list[R] = []
    for item in _items(value):
        try:
            found.append(msgspec.convert(item, kind))
        except msgspec.ValidationError:
            continue
    return tuple(found)
