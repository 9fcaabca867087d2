"""The terms of a run: the policy, approval mode, models and budget that apply to it now.

Rules
1. The narrower applies of what a run recorded and what the project has now (policy/binding.py).
2. A run uses the models that a person chose last when resuming it, or those it began with. The budget and the time in
   the configuration file now apply, unless a person typed others.
3. A person's flag may change the job of a run that goes on, and so allow more than the file does. A file may not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from orchestra.core.changing import CHANGES, JobChange
from orchestra.core.errors import ForeignRun, UsageError
from orchestra.core.inbox import MODELS
from orchestra.core.reading import RunCreated
from orchestra.core.records import Event, now
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
        self._known: dict[str, RunCreated] = {}  # parents, by id

    def policy(self, created: Event) -> Policy:
        """The policy for a run: the narrowest of its own, its parents' and the project's of now."""
        return self.policy_by(self._runs.facts(created))

    def policy_by(self, facts: RunCreated) -> Policy:
        """The policy for a run with these facts."""
        above, passed = [facts], set[str]()
        while (parent := above[-1].parentRunId) and parent not in passed:
            found = self._facts_of(parent)
            if found is None:
                break
            above.append(found)
            passed.add(parent)
        return bound(above, self._project.policy, str(self._project.path))

    def _facts_of(self, run_id: str) -> RunCreated | None:
        """The facts of a parent, which never change: each of its child runs needs them."""
        if run_id not in self._known:
            first = self._runs.first_of(run_id)
            if first is None:
                return None
            self._known[run_id] = self._runs.facts(first)
        return self._known[run_id]

    def weaker(self, policy: Policy) -> tuple[str, ...]:
        """Warnings if the policy's tier is weaker than strict, or if ports of this machine are opened."""
        tier = "" if policy.tier == "strict" else weaker(policy.tier)
        return tuple(filter(None, (tier, opened_ports(policy.loopback))))

    def policy_changes(self, created: Event) -> list[str]:
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
        return self.models_by(root, self._runs.facts(created))

    def models_by(self, root: RunFolder, facts: RunCreated) -> Models:
        """The models of a run with these facts, in the tree of `root`."""
        try:
            began = msgspec.convert(facts.models, Models)
        except msgspec.ValidationError as error:
            raise UsageError(f"run {root.id} does not say which models answer in it: {error}") from error
        kept = self._project.store.kept(root, MODELS, KeptModels)
        return self._within_limits(kept.models if kept is not None else began)

    def _within_limits(self, models: Models) -> Models:
        """The models with the budget and the time that apply now: at most the file's, unless a person typed them."""
        most = self._project.config.budget
        usd = models.maxBudgetUsd if models.typedBudget else _least(models.maxBudgetUsd, most.max_usd)
        seconds = models.maxTimeSec if models.typedTime else _least(models.maxTimeSec, most.max_sec)
        return msgspec.structs.replace(models, maxBudgetUsd=usd, maxTimeSec=seconds)

    def changes(self, run: RunFolder) -> Mapping[str, Any]:
        """What a person changed of a run's job while it went on."""
        kept = self._project.store.kept(run, CHANGES, JobChange)
        return kept.values if kept is not None else {}

    def keep_changes(self, run: RunFolder, values: Mapping[str, Any], by: str) -> None:
        """Keep a change of a run's job: the next event of the run records it (core/changing.py)."""
        self._project.store.keep(run, CHANGES, JobChange({**self.changes(run), **values}, by, now()))

    def keep_models(self, root: RunFolder, models: Models) -> None:
        """Keep the models for later drives: a raised budget also holds when an approval or answer resumes the run."""
        masked = msgspec.json.decode(self._project.redactor.data(msgspec.json.encode(models)), type=Models)
        self._project.store.keep(root, MODELS, KeptModels(masked))


def _least(*limits: float | None) -> float | None:
    """The smallest of these limits; None if there is none."""
    return min((limit for limit in limits if limit is not None), default=None)
