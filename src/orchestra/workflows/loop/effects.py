"""The loop's own effects: recording a verdict, and a plan that was given. Data only; evaluation.py handles them."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import UNSET, Struct, UnsetType

from orchestra.core.effects import Effect
from orchestra.core.records import ArtifactRef, EventType
from orchestra.core.work import FileStat
from orchestra.workflows.replies import Decision

Result = Literal["pass", "fail", "not_run"]


class CheckResult(Struct, frozen=True):
    """One row of evaluate/iter-NNNN.json (G1-9)."""

    command: str
    status: Result
    exitCode: int | None
    # Unset in runs of before the baseline, so that their verdicts keep their digest.
    before: Result | UnsetType = UNSET  # the same check before the plan (G1-16)


class Diffstat(Struct, frozen=True):
    """The granted change, and the verified change on disk (S1-117)."""

    before: tuple[FileStat, ...]
    after: tuple[FileStat, ...]


class Evaluation(Struct, frozen=True, omit_defaults=True):
    """evaluate/iter-NNNN.json (G1-9)."""

    decision: Decision
    grounds: str
    checks: tuple[CheckResult, ...]
    diffstat: Diffstat
    question: str = ""
    checksChanged: tuple[str, ...] = ()  # tests and files that configure checks, if this run changed them


class Judged(Struct, frozen=True, omit_defaults=True):
    """The evaluation as recorded."""

    decision: Decision
    grounds: str
    artifact: ArtifactRef
    checksChanged: tuple[str, ...] = ()
    checks: tuple[CheckResult, ...] = ()  # empty: a run of before the baseline


class Evaluate(Effect[Judged], frozen=True):
    """Record the verdict of this iteration."""

    evaluation: Evaluation
    artifact: str
    copy: str | UnsetType = UNSET  # a verdict that is given again in this iteration: the name that the last one keeps

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


class KeptPlan(Struct, frozen=True):
    """A given plan as recorded."""

    text: str
    document: ArtifactRef


class KeepPlan(Effect[KeptPlan], frozen=True):
    """Record a plan that the job brought along, with its readable copy (S1-103)."""

    text: str
    document: str

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = KeptPlan

    def public(self) -> dict[str, Any]:
        return {"document": self.document}  # the text is in the outcome
