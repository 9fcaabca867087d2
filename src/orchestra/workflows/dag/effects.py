"""The effect of a task graph's own: writing its plan down. Data only; its handler is in files.py."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct

from orchestra.core.effects import Effect, digest_of
from orchestra.core.records import ArtifactRef
from orchestra.core.work import Asking


class Adopted(Struct, frozen=True, omit_defaults=True):
    """A task graph's plan, as it will be carried out."""

    plan: dict[str, Any]
    file: ArtifactRef  # plan.json
    added: bool = False  # it goes on from an earlier plan's failed remainder
    approval: Asking | None = None  # what the project says now, where that asks a person more often than the run does


class AdoptPlan(Effect[Adopted], frozen=True):
    """Write a plan down: plan.json, and the event from which every reader knows the tasks."""

    plan: dict[str, Any]
    added: bool = False

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Adopted

    def identity(self) -> str:
        # The tasks' ids follow from the run's, which a fork changes; what is wanted stays the same.
        labels = {task["task_id"]: task["label"] for task in self.plan["tasks"]}
        tasks = [
            {**task, "task_id": task["label"], "depends_on": [labels[name] for name in task["depends_on"]]}
            for task in self.plan["tasks"]
        ]
        return digest_of([tasks, self.added])

    def public(self) -> dict[str, Any]:
        return {}  # the plan is in the outcome, once
