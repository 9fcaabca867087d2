"""The task graph's own effect: recording its plan. Data only; its handler is in files.py."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct

from orchestra.core.effects import Effect, digest_of
from orchestra.core.records import ArtifactRef
from orchestra.core.work import Asking


class Adopted(Struct, frozen=True, omit_defaults=True):
    """The recorded plan of a task graph."""

    plan: dict[str, Any]
    file: ArtifactRef  # plan.json
    added: bool = False  # a second plan, for what failed in the first
    approval: Asking | None = None  # the project's approval mode of now, if it asks more often than the run's


class AdoptPlan(Effect[Adopted], frozen=True):
    """Record a plan: write plan.json, and an event with the tasks."""

    plan: dict[str, Any]
    added: bool = False

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Adopted

    def identity(self) -> str:
        # Without the tasks' ids: they are derived from the run's id, and a fork has another id.
        labels = {task["task_id"]: task["label"] for task in self.plan["tasks"]}
        tasks = [
            {**task, "task_id": task["label"], "depends_on": [labels[name] for name in task["depends_on"]]}
            for task in self.plan["tasks"]
        ]
        return digest_of([tasks, self.added])

    def public(self) -> dict[str, Any]:
        return {}  # the plan is in the outcome
