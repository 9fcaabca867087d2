"""The terms of a run: the policy, approval mode, models and budget that apply to it now.

Rules
1. The narrower applies of what a run recorded and what the project has now (policy/binding.py).
2. A run uses the models that a person chose last when resuming it, or those it began with. The budget in the
   configuration file now applies, unless a person typed another.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from orchestra.core.errors import ForeignRun, UsageError
from orchestra.core.inbox import MODELS
from orchestra.core.reading import RunCreated
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.core.vouching import Standing, elsewhere
from orchestra.policy.binding import bound, differences, opened_ports, recorded, weaker
from orchestra.policy.policy import Policy
from orchestra.providers.choose import Models
from orchestra.runs.find import Runs
from orchestra.workflows.project import Project


class KeptModels(Struct, frozen=True):
    """`inbox/models.json`: the models that a person chose when resuming the run."""

    models: Models
    seal: str = ""


class Terms:
    """The terms of the runs of a project."""

    def __init__(self, project: Project, runs: Runs) -> None:
        self._project = project
        self._runs = runs

    def policy(self, created: Event) -> Policy:
        """The policy for a run: the narrowest of its own, its parents' and the project's of now."""
        above: list[Event] = [created]
        while parent := RunCreated.of(above[-1]).parentRunId:
            first = self._runs.first_of(parent)
            if first is None or any(first.runId == event.runId for event in above):
                break
            above.append(first)
        return bound(map(self._runs.facts, above), self._project.policy, str(self._project.path))

    def weaker(self, policy: Policy) -> tuple[str, ...]:
        """Warnings if the policy's tier is weaker than strict, or if ports of this machine are opened."""
        tier = "" if policy.tier == "strict" else weaker(policy.tier)
        return tuple(filter(None, (tier, opened_ports(policy.loopback))))

    def changes(self, created: Event) -> list[str]:
        """The differences between the project's current policy and the run's, as lines for a person."""
        return differences(self.recorded_policy(created), self._project.policy)

    def refuse_elsewhere(self, folder: RunFolder, standing: Standing) -> None:
        """ForeignRun for a run that belongs to another folder."""
        if misplaced := elsewhere(standing.workspace, str(self._project.path)):
            raise ForeignRun(folder.id, misplaced)

    def recorded_policy(self, created: Event) -> Policy:
        """The policy that a run recorded when it began; the project's, if it recorded none."""
        return recorded(RunCreated.of(created), str(self._project.path)) or self._project.policy

    def models(self, root: RunFolder, created: Event) -> Models:
        """The models of a run: those a person chose last when resuming it, or those it began with."""
        try:
            began = msgspec.convert(self._runs.facts(created).models, Models)
        except msgspec.ValidationError as error:
            raise UsageError(f"run {root.id} does not say which models answer in it: {error}") from error
        kept = self._project.store.kept(root, MODELS, KeptModels)
        return self._within_budget(kept.models if kept is not None else began)

    def _within_budget(self, models: Models) -> Models:
        """The models with the budget that applies now: at most the file's, unless a person typed one."""
        most = self._project.config.budget.max_usd
        if most is None or models.typedBudget or (models.maxBudgetUsd is not None and models.maxBudgetUsd <= most):
            return models
        return msgspec.structs.replace(models, maxBudgetUsd=most)

    def keep_models(self, root: RunFolder, models: Models) -> None:
        """Keep the models for later drives: a raised budget also holds when an approval or answer resumes the run."""
        masked = msgspec.json.decode(self._project.redactor.data(msgspec.json.encode(models)), type=Models)
        self._project.store.keep(root, MODELS, KeptModels(masked))
