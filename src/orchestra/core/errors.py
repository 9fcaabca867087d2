"""The error tree. The class shows who must act; the message has what, where and what to do next.

OrchestraError                 never raised itself
├── UsageError                 the user acts: wrong argument, configuration, run id           exit 2
├── ContractError              a model's output broke a format: repair or retry               (becomes an outcome)
├── ProviderError              the model did not answer: S1's five codes                     exit 6
├── NotYet                     the provider asks for a long wait: resume the run later        exit 6
├── PolicyError                the policy does not allow it                                   exit 5
│   ├── Refused                a command that the policy forbids, or that a person did not grant
│   ├── SandboxError           the sandbox does not work on this machine: repair it, then resume
│   ├── ForeignRun             this user's key did not make the run, or it was made for another folder: adopt it
│   └── NoConsent              the configuration needs more rights than the person agreed to
├── BudgetReached              the money or token cap is reached                              exit 4
├── TimeReached                the time that a person gave the run is used up                 exit 4
├── JournalFull                the run's journal has its maximal length: the run ends         exit 1
├── StepFailed                 a step's recorded failure, raised in the flow at that step     (becomes an outcome)
└── DurabilityError            the run folder cannot be driven on as it is                    exit 1
    ├── JournalCorrupt         a line in the middle of the journal is not what was written
    ├── OddFile                a pipe, device, link or endless file is in a file's place
    ├── IllegalEvent           the workflow's table forbids this event now
    ├── Drift                  the code performs another effect than the journal recorded
    ├── DiskFull               the disk refused a write; nothing acknowledged is lost
    └── RunLocked              another process drives this run                                exit 7

Suspended (BaseException)      the run parks; a flow must not catch it
Canceled (BaseException)       the run's tree was canceled; a flow must not catch it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

ProviderErrorCode = Literal["TIMEOUT", "RATE_LIMIT", "AUTH", "BAD_REQUEST", "UNKNOWN"]


class OrchestraError(Exception):
    """Base of every error a person may see; `exit_code` is one of D-14."""

    exit_code = 1
    code = "ERROR"


class UsageError(OrchestraError):
    """The user's request is wrong; the message has the remedy."""

    exit_code = 2
    code = "USAGE"


class ContractError(OrchestraError):
    """A model's reply (or a record) breaks its format. `reason` is a short code for programs."""

    code = "CONTRACT"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ProviderError(OrchestraError):
    """A model call failed after all retries; `retriable`: a later call may succeed (S1-27, S1-28)."""

    exit_code = 6

    def __init__(self, code: ProviderErrorCode, message: str, *, retriable: bool) -> None:
        super().__init__(message)
        self.code = code
        self.retriable = retriable
        if code == "BAD_REQUEST":
            self.exit_code = 1  # the provider works; this run's request is wrong


class NotYet(OrchestraError):
    """The provider asks for a longer wait than a process should make. The run can be resumed."""

    exit_code = 6
    code = "NOT_YET"

    def __init__(self, key: str, why: str, moment: str) -> None:
        day, time = moment[:10], moment[11:19]
        why = why.rstrip(".")
        super().__init__(f"step {key}: {why}. It asks not to be called before {day} {time} UTC, too long to wait for")


class PolicyError(OrchestraError):
    """The policy does not allow this; only another policy or another request helps."""

    exit_code = 5
    code = "POLICY"


class Refused(PolicyError):
    """A command of a workflow that the policy forbids, or that a person did not grant."""


class SandboxError(PolicyError):
    """The configured sandbox does not work here. Nothing is run without it; the run can be resumed."""

    code = "SANDBOX"


class ForeignRun(PolicyError):
    """The run is neither this user's nor adopted, or was made for another folder. It can be read, not driven."""

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
    """The project's configuration allows more than the defaults, and the person did not agree to that."""

    code = "NO_CONSENT"


class BudgetReached(OrchestraError):
    """The next call would exceed the run's budget."""

    exit_code = 4
    code = "BUDGET"


class TimeReached(OrchestraError):
    """The run and the runs below it have worked as long as a person, or the configuration, lets them."""

    exit_code = 4
    code = "TIME"


class JournalFull(OrchestraError):
    """The next step would make the journal too long to be read again. It is not begun; the run ends."""

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
        self.retry_after = retry_after  # the least seconds to wait, as the provider asked
        self.details = details or {}  # recorded with the error: the raw reply, the usage


def as_recorded(error: StepFailed | ContractError) -> dict[str, Any]:
    """The failure of a step as its event has it."""
    retriable = isinstance(error, StepFailed) and error.retriable
    info = {"code": error.code, "message": str(error), "retriable": retriable}
    return {**info, "reason": error.reason} if error.reason else info


def end_of_run(failed: StepFailed) -> OrchestraError:
    """The error that ends a run after a failed model call: ProviderError, or a broken contract unchanged."""
    match failed.code:
        case "TIMEOUT" | "RATE_LIMIT" | "AUTH" | "BAD_REQUEST" | "UNKNOWN" as code:
            return ProviderError(code, f"step {failed.key}: {failed}", retriable=failed.retriable)
    return failed


class DurabilityError(OrchestraError):
    """The run cannot be driven with its folder as it is. Nothing in the folder has been overwritten."""

    code = "DURABILITY"


class JournalCorrupt(DurabilityError):
    """A line before the last one is damaged. A crash does not cause that, so nothing is repaired."""

    code = "JOURNAL_CORRUPT"

    def __init__(self, path: str, why: str, *, line: int = 0) -> None:
        way = "Restore the file from a backup"
        if line:
            way += ", or go on from before that line: orchestra fork RUN --at EVENT"
        what = f"{path}: line {line} is damaged ({why})" if line else f"{path} {why}"
        super().__init__(f"{what}. Nothing was changed. {way}")
        self.path = path
        self.line = line


class OddFile(DurabilityError):
    """A path is not a regular file, or the file is too large; nothing of it was read."""

    code = "ODD_FILE"

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path} {what}. Nothing of it was read; move it away")
        self.what = what


class IllegalEvent(DurabilityError):
    """The workflow's transition table refuses this event in this state; nothing was written."""

    code = "ILLEGAL_EVENT"


class Drift(DurabilityError):
    """The recorded intent of a step differs from the effect that the code performs now."""

    code = "DRIFT"

    def __init__(self, run_id: str, key: str, difference: str) -> None:
        """`difference` completes "the code now wants another step than the recorded one"."""
        super().__init__(
            f"run {run_id}: step {key}: the code now wants another step than the recorded one: {difference}. "
            f"To keep the recorded result: orchestra resume {run_id} --accept-drift {key}. "
            f"To go another way from before it: orchestra fork {run_id} --at EVENT"
        )
        self.key = key


class DiskFull(DurabilityError):
    """The disk refused a write. Everything acknowledged is kept; free space, then resume."""

    code = "DISK_FULL"


class RunLocked(DurabilityError):
    """Another process drives this run."""

    exit_code = 7
    code = "LOCKED"


class Canceled(BaseException):
    """The run's tree was canceled. A BaseException like Suspended; `fan_out` collects both."""


class Suspended(BaseException):
    """The run waits for a person, and its process may end.

    A BaseException, so that `except Exception` in a flow does not catch it. Only the engine and branches catch it.
    `came` tells whether an answer has arrived since: then what parked can go on (core/branches.py, rule 5).
    """

    def __init__(self, why: str, came: Callable[[], bool] = lambda: False) -> None:
        super().__init__(why)
        self.why = why
        self.came = came


# What stops a drive without ending the run: a cure lets the run go on.
CURABLE = (DurabilityError, BudgetReached, TimeReached, NotYet, UsageError, SandboxError, ForeignRun, NoConsent)
