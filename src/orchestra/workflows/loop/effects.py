"""The loop's own effect: recording the verdict of an iteration. Data only; its handler is in evaluation.py."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import Struct

from orchestra.core.effects import Effect
from orchestra.core.records import ArtifactRef, EventType
from orchestra.core.work import FileStat

Decision = Literal["pass", "fixable", "blocked"]


class CheckResult(Struct, frozen=True):
    """One row of evaluate/iter-NNNN.json (G1-9)."""

    command: str
    status: Literal["pass", "fail", "not_run"]
    exitCode: int | None


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


class Evaluate(Effect[Judged], frozen=True):
    """Record the verdict of this iteration."""

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
