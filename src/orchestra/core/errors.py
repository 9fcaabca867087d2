"""The error tree. An error says who must act; its message says what, where and what to do next.

OrchestraError                 never raised itself
├── UsageError                 the user acts: wrong argument, configuration, run id           exit 2
├── ContractError              a model's output broke a format: repair or retry               (becomes an outcome)
├── ProviderError              the model could not be had: S1's five codes                    exit 6
├── NotYet                     the model asks to be left alone for long: the run can go on later    exit 6
├── PolicyError                the policy does not allow it                                   exit 5
│   ├── Refused                a command that the policy forbids, or that a person did not grant
│   ├── SandboxError           this machine cannot contain it as asked: a cure lets it go on
│   ├── ForeignRun             this user's key did not make the run, or it was made for another folder: adopt it
│   └── NoConsent              the project's configuration asks for more than the person agreed to
├── BudgetReached              the money or token cap is reached                              exit 4
├── JournalFull                the run's journal is as long as one may be: the run ends       exit 1
├── StepFailed                 a step's recorded failure, raised in the flow at that step     (becomes an outcome)
└── DurabilityError            the run folder cannot be driven on as it is                    exit 1
    ├── JournalCorrupt         a line in the middle of the journal is not what was written
    ├── OddFile                a pipe, device, link or endless file stands where a file should be
    ├── IllegalEvent           the workflow's table forbids this event now
    ├── Drift                  the code now wants something else than the journal recorded
    ├── DiskFull               the disk refused a write; nothing acknowledged is lost
    └── RunLocked              another process drives this run                                exit 7

Suspended (BaseException)      the run parks; nothing in a flow may swallow it
Canceled (BaseException)       the run's tree was canceled; the same
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

ProviderErrorCode = Literal["TIMEOUT", "RATE_LIMIT", "AUTH", "BAD_REQUEST", "UNKNOWN"]


class OrchestraError(Exception):
    """Base of every error a person may see; `exit_code` is one of D-14."""

    exit_code = 1
    code = "ERROR"


class UsageError(OrchestraError):
    """The user asked for something that cannot be; the message names the cure."""

    exit_code = 2
    code = "USAGE"


class ContractError(OrchestraError):
    """A model's reply (or a record) breaks its format. `reason` is a short machine-readable word."""

    code = "CONTRACT"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ProviderError(OrchestraError):
    """A model call failed for good; `retriable` says whether a later call may succeed (S1-27, S1-28)."""

    exit_code = 6

    def __init__(self, code: ProviderErrorCode, message: str, *, retriable: bool) -> None:
        super().__init__(message)
        self.code = code
        self.retriable = retriable
        if code == "BAD_REQUEST":
            self.exit_code = 1  # the provider is there; what this run asked of it is wrong


class NotYet(OrchestraError):
    """The other side asks for more time than a process should wait. The run is not over."""

    exit_code = 6
    code = "NOT_YET"

    def __init__(self, key: str, why: str, moment: str) -> None:
        day, time = moment[:10], moment[11:19]
        why = why.rstrip(".")
        super().__init__(f"step {key}: {why}. It asks not to be called before {day} {time} UTC, too long to wait for")


class PolicyError(OrchestraError):
    """The policy does not allow it; no cure but another policy or another wish."""

    exit_code = 5
    code = "POLICY"


class Refused(PolicyError):
    """A command of a workflow that the policy forbids, or that a person did not grant."""


class SandboxError(PolicyError):
    """The containment asked for cannot be had here. Nothing is run uncontained instead; the run can go on later."""

    code = "SANDBOX"


class ForeignRun(PolicyError):
    """Nobody this machine knows vouches for the run, or it was made for another folder. It can be read, not driven."""

    code = "FOREIGN"

    def __init__(self, run_id: str, why: str, *, adoptable: bool = True) -> None:
        cure = f"To see what it would be allowed to do, and to vouch for it: orchestra adopt {run_id}"
        if not adoptable:
            cure = "Give its folder back its own name and place"
        super().__init__(
            f"run {run_id} is foreign: {why}. It can be read, verified, replayed and reported, not driven. {cure}"
        )
        self.why = why


class NoConsent(PolicyError):
    """The configuration of the project would do more than the defaults, and nobody agreed to that."""

    code = "NO_CONSENT"


class BudgetReached(OrchestraError):
    """The run's money cap would be passed by the next call."""

    exit_code = 4
    code = "BUDGET"


class JournalFull(OrchestraError):
    """What comes next would make the journal too long to be read again. It was not begun; the run ends with this."""

    code = "JOURNAL_FULL"

    def __init__(self, run_id: str, why: str) -> None:
        super().__init__(
            f"run {run_id}: {why}. What was done is recorded: orchestra report {run_id}. To go on, give what is left "
            f"to a new run, or go another way from an earlier event: orchestra fork {run_id} --at EVENT"
        )


class StepFailed(OrchestraError):
    """A step whose failure is in the journal. The flow may catch it and take another path."""

    def __init__(
        self,
        key: str,
        code: str,
        message: str,
        *,
        reason: str = "",
        retriable: bool = False,
        retry_after: float = 0.0,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.key = key
        self.code = code
        self.reason = reason
        self.retriable = retriable
        self.retry_after = retry_after  # seconds the other side asked us to wait at least
        self.details = details or {}  # what is recorded beside the error: the raw reply, the usage


def end_of_run(failed: StepFailed) -> OrchestraError:
    """What a model call that failed for good ends a run with: the provider's error; a broken contract as it is."""
    match failed.code:
        case "TIMEOUT" | "RATE_LIMIT" | "AUTH" | "BAD_REQUEST" | "UNKNOWN" as code:
            return ProviderError(code, f"step {failed.key}: {failed}", retriable=failed.retriable)
    return failed


class DurabilityError(OrchestraError):
    """The run folder cannot be driven on as it stands. Nothing in it has been overwritten."""

    code = "DURABILITY"


class JournalCorrupt(DurabilityError):
    """A line before the last one is damaged: that is no crash, so nothing is repaired by guessing."""

    code = "JOURNAL_CORRUPT"

    def __init__(self, path: str, line: int, why: str) -> None:
        way = "Restore the file from a backup"
        if line:
            way += ", or go on from before that line: orchestra fork RUN --at EVENT"
        what = f"{path}: line {line} is damaged ({why})" if line else f"{path} {why}"
        super().__init__(f"{what}. Nothing was changed. {way}")
        self.path = path
        self.line = line


class OddFile(DurabilityError):
    """Something else than a plain file of a sensible size stands where one should be; nothing of it was read."""

    code = "ODD_FILE"

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path} {what}. Nothing of it was read; move it away")
        self.what = what


class IllegalEvent(DurabilityError):
    """The workflow's transition table refuses this event in this state; nothing was written."""

    code = "ILLEGAL_EVENT"


class Drift(DurabilityError):
    """The recorded intent of a step differs from what the code now wants."""

    code = "DRIFT"

    def __init__(self, run_id: str, key: str, recorded: str, wanted: str) -> None:
        super().__init__(
            f"run {run_id}: step {key} was recorded with intent {recorded[:19]}… but the code now wants "
            f"{wanted[:19]}…. To keep the recorded result: orchestra resume {run_id} --accept-drift {key}. "
            f"To go another way from before it: orchestra fork {run_id} --at EVENT"
        )
        self.key = key


class DiskFull(DurabilityError):
    """A write was refused by the disk. What was acknowledged is kept; resume after making room."""

    code = "DISK_FULL"


class RunLocked(DurabilityError):
    """Another process drives this run."""

    exit_code = 7
    code = "LOCKED"


class Canceled(BaseException):
    """The run's tree was canceled. A BaseException like Suspended, and like it collected by `fan_out`."""


class Suspended(BaseException):
    """The run waits for a person (or for a cure) and leaves memory.

    A BaseException, so that `except Exception` in a flow cannot swallow it. Only the engine catches it.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


# What stops a drive without ending the run: a cure lets the run go on.
CURABLE = (DurabilityError, BudgetReached, NotYet, UsageError, SandboxError, ForeignRun, NoConsent)
