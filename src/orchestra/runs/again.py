"""Going on from another run: a fork of its history, a retry after a failure, another answer to a question of it.

Rules
1. A new run is made; the old journals are only read. What it keeps is decided in core/settled.py and core/rehearsal.py.
2. The new run is bound by the policy of now. What differs from the old run's is named, and so are files that are not as
   what is kept of the old run left them: they are used as they are.
3. It has the models that a person chose for it, or else last for the old run. They are in its first event: a kill
   leaves no run that has others.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from orchestra.core.engine import Engine
from orchestra.core.errors import JournalCorrupt, UsageError
from orchestra.core.faces import Face, Notice
from orchestra.core.files import read_below
from orchestra.core.fork import NewAnswer
from orchestra.core.looks import MOST_TEXT
from orchestra.core.reading import RunCreated, RunEnded, job_of, recorded
from orchestra.core.records import FINAL, Event
from orchestra.core.run import RunFolder, digest
from orchestra.core.staleness import Stale
from orchestra.core.vouching import Standing
from orchestra.providers.choose import Models
from orchestra.runs.changes import Changes, Unlike
from orchestra.runs.find import Runs, RunSummary
from orchestra.runs.lineage import files_of
from orchestra.runs.terms import Terms
from orchestra.workflows.description import Renewed, Workflow
from orchestra.workflows.known import Workflows
from orchestra.workflows.project import ENVIRONMENT, Project


class Again:
    """Makes runs that go on from other runs of a project."""

    def __init__(
        self,
        project: Project,
        workflows: Workflows,
        runs: Runs,
        terms: Terms,
        engine: Engine,
        face: Face,
        changes: Changes,
        models: Models | None = None,
    ) -> None:
        """`models` are those that a person chose for the new runs."""
        self._project = project
        self._workflows = workflows
        self._runs = runs
        self._terms = terms
        self._engine = engine
        self._face = face
        self._changes = changes
        self._models = models

    def fork(self, folder: RunFolder, at: str) -> RunFolder:
        """Make a new run with the settled steps of another run's history up to event `at`.

        It gets the current policy; differences are shown.
        """
        self._refuse_open(folder)
        standing, kept = self._engine.history(folder, at)
        new = self._engine.fork(folder, kept, at, self._forked(folder, standing, kept[0]))
        self._tell_changes(folder, new, kept[0])
        return new

    async def retry(
        self, folder: RunFolder, *, fixes: int | None = None, accept_drift: frozenset[str] = frozenset()
    ) -> RunFolder:
        """Make a new run that goes on from this one, with everything that succeeded kept (core/settled.py).

        `fixes` raises the limit of fixes.
        """
        self._refuse_open(folder)
        standing, events = self._engine.history(folder)
        facts = self._forked(folder, standing, events[0])
        if fixes is not None:
            facts |= self._with_fixes(folder, events, fixes)
        new = await self._engine.again(folder, events, facts, accept_drift=accept_drift)
        self._tell_changes(folder, new, events[0])
        return new

    def at_limit(self, folder: RunFolder) -> Iterator[RunSummary]:
        """The runs of a tree that ended at their limit of fixes: `retry --max-fixes` raises it."""
        for member in self._runs.members(folder):
            ended, workflow = member.summary.events[-1], self._workflows.of(member.summary.workflow)
            if ended.type in FINAL and not member.kept and _is_at_limit(workflow, ended):
                yield member.summary

    def _with_fixes(self, folder: RunFolder, events: Sequence[Event], fixes: int) -> dict[str, Any]:
        """The facts of a retry with another limit of fixes: for the run itself, or for the child runs that need it."""
        workflow = self._workflows.named(RunCreated.of(events[0]).workflow)
        if workflow.raised:
            return _raised(workflow, events, fixes)
        for below in self.at_limit(folder):  # a limit that is too low is refused here, before the new run exists
            _raised(self._workflows.of(below.workflow), (below.created, below.events[-1]), fixes)
        return {"maxFixes": fixes}

    async def answered(self, folder: RunFolder, answer: NewAnswer) -> RunFolder:
        """Make a new run that keeps everything of this one that does not depend on a question's earlier answer."""
        self._refuse_open(folder)
        standing, events = self._engine.history(folder)
        facts = self._forked(folder, standing, events[0])
        new = await self._engine.again(folder, events, facts, answer=answer)
        self._tell_changes(folder, new, events[0])
        return new

    async def rerun(self, folder: RunFolder, stale: Stale) -> RunFolder:
        """Make a new run that does again what is stale of this one, which has ended. Everything else is kept.

        Its job is what the project's files say now. UsageError if they cannot be used.
        """
        standing, events = self._engine.history(folder)
        renewed = self.renewed(events[0])
        if renewed.wrong:
            raise UsageError(renewed.wrong)
        facts = self._forked(folder, standing, events[0])
        if renewed.params:
            facts["params"] = {**job_of(events[0]), **renewed.params}
        new = await self._engine.rerun(folder, events, stale, facts)
        self._tell_changes(folder, new, events[0])
        return new

    async def stale(self, folder: RunFolder) -> Stale:
        """What of a run that has ended, and of its finished child runs, would be done anew.

        That is so if a file was edited or an input is another one.
        """
        try:
            summary = self._runs.vouched(folder)
            self._project.consent.require()
            self.refuse_scenario(folder, summary.created)
            facts = self._runs.facts(summary.created)
            self._project.resume_environment(facts.environment, chosen=ENVIRONMENT in facts.typed)
            self._workflows.named(summary.workflow)  # its code is needed
            found = await self._engine.stale(folder)
            return replace(found, own=(*self.renewed(summary.created).why, *found.own))
        finally:
            await self._project.close()

    def renewed(self, created: Event) -> Renewed:
        """What a new run of the same job would take from the project's files, where these have changed since."""
        return self._workflows.named(RunCreated.of(created).workflow).renewed(self._project, job_of(created))

    def refuse_scenario(self, folder: RunFolder, created: Event) -> None:
        """UsageError for a run of a scenario: without the scenario's configuration more might be allowed."""
        scenario = RunCreated.of(created).scenario
        if self._project.overlay is None and scenario:
            raise UsageError(
                f"run {folder.id} had the configuration of a scenario and cannot go on without it."
                f" Run that again: {shlex.join(('orchestra', 'eval', 'run', str(scenario)))}."
                f" End this one: orchestra cancel {folder.id}"
            )

    def brought_in(self, run: str) -> dict[str, Any]:
        """The facts about the run whose files a new one begins with: its id, and the digest of each file as it is now.

        The files are also those of its child runs. One that is gone is left out. UsageError if it has not completed.
        """
        summary = self._runs.vouched(self._runs.find(run))
        if (status := summary.fold.state.status) != "completed":
            raise UsageError(
                f"--input-run: run {summary.folder.id} is {status}, and only a completed run has its files"
            )
        inputs: dict[str, str] = {}
        for member in self._runs.members(summary.folder):
            facts = member.summary.facts
            if member.summary.foreign or (facts.copy and member.path):
                continue  # what a child run made in its own copy is not in the project
            for path in files_of(member.summary.events, facts.folder):
                with suppress(OSError):
                    inputs[path] = digest(read_below(self._project.path, path, MOST_TEXT))
        return {"inputRunId": summary.folder.id, "inputs": inputs}

    def _forked(self, folder: RunFolder, standing: Standing, created: Event) -> dict[str, Any]:
        """The facts that a fork records anew: the policy of now, and the models that a person chose (rule 3)."""
        project = self._project
        project.consent.require()
        self._workflows.named(RunCreated.of(created).workflow)
        self._terms.refuse_elsewhere(folder, standing)
        facts = {"policy": msgspec.to_builtins(project.policy), "workspace": standing.workspace or str(project.path)}
        facts |= {"number": 0, **self.numbered()}
        said = recorded(created, "models", "typed")
        if self._models:
            facts["models"] = msgspec.to_builtins(project.providers.settled(self._models))
        elif "models" in said:
            facts["models"] = msgspec.to_builtins(self._terms.models(self._runs.root_of(folder), created))
        if "typed" in said:
            facts["typed"] = self._runs.facts(created).typed
        return facts

    def numbered(self) -> dict[str, Any]:
        """The fact with the number of a new root run; none if it can have no number (runs/projects.py)."""
        number = self._project.projects.next_number(self._project.path, self._runs.greatest_number)
        return {"number": number} if number else {}

    def _refuse_open(self, folder: RunFolder) -> None:
        """UsageError if the run, or an open child run of it, must end before it is forked (`Workflow.forks_open`)."""
        try:
            members = list(self._runs.members(folder, only_open=True))
        except JournalCorrupt:
            return  # it cannot go on; what is before the damage can be forked
        for summary in (member.summary for member in members):
            if summary.fold.state.status in FINAL.values() or self._workflows.of(summary.workflow).forks_open:
                continue
            raise UsageError(
                f"run {summary.folder.id} has not ended, and its files are its own until then."
                f" Go on with it: orchestra resume {folder.id}. End it first: orchestra cancel {folder.id}"
            )

    def _tell_changes(self, folder: RunFolder, new: RunFolder, created: Event) -> None:
        for difference in self._terms.policy_changes(created):
            self._face.tell(Notice(new.id, f"another policy than that of {folder.id}: {difference}"))
        found = self._changes.unlike(folder, new)
        if found.paths:
            what = f"{', '.join(found.paths)}: not as what is kept of run {folder.id} left it; used as it is now"
            self._face.tell(Notice(new.id, what + self._restoring(folder, new, found)))

    def _restoring(self, folder: RunFolder, new: RunFolder, found: Unlike) -> str:
        """How to have the files as they were where the new run goes on from; empty if a person edited them."""
        *_, last = self._changes.history(folder)
        origin = self._runs.began(new).forkedFrom
        if last.id != folder.id:
            return f". The run was undone; to have its changes again: orchestra undo {last.id}"
        if origin and found.dropped:
            return f". To have it as it was then: orchestra undo {folder.id} --to {int(origin.at)}"
        return ""


def beyond_limit(workflow: Workflow, created: Event, last: Event, fixes: int | None) -> dict[str, Any] | None:
    """The facts with which a run goes on beyond the limit it ended at; None if it ended otherwise."""
    return _raised(workflow, (created, last), fixes) if _is_at_limit(workflow, last) else None


def _is_at_limit(workflow: Workflow, last: Event) -> bool:
    error = RunEnded.of(last).error
    return error is not None and error.code in workflow.limits


def _raised(workflow: Workflow, events: Sequence[Event], fixes: int | None) -> dict[str, Any]:
    """The facts of a run with a higher limit of fixes than the old one had at its end."""
    if workflow.raised is None:
        raise UsageError(f"--max-fixes: workflow {workflow.name} has no limit of fixes")
    job, ended = job_of(events[0]), RunEnded.of(events[-1]).result
    changed = workflow.raised({**job, **ended} if isinstance(ended, dict) else job, fixes)
    return {"params": {**job, **changed}, **changed}
