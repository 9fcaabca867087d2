"""The composition root: what every face (CLI, TUI, web) and the library call.

An `App` consists of a project (its folder, configuration and key), its runs (found, answered, bound to a policy) and an
engine that drives them. The handlers of effects are made in handlers.py. No workflow is named here: workflows are
looked up by name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from orchestra.config.overlay import Overlay
from orchestra.core.engine import INHERITED, Beginning, ChildRun, Engine, Kind, RunEnd, RunFolder
from orchestra.core.errors import NoConsent, OrchestraError, RunLocked, UsageError
from orchestra.core.faces import Bell, Face, GuardedFace, Notice, Silent
from orchestra.core.reading import RunCreated, job_of, recorded
from orchestra.core.records import FINAL, Event, OnAsk
from orchestra.handlers import Wiring
from orchestra.providers.choose import Models
from orchestra.runs.again import Again, beyond_limit
from orchestra.runs.answers import Answers
from orchestra.runs.find import Drivable, Runs, RunSummary
from orchestra.runs.terms import Terms
from orchestra.workflows.description import Projection, Workflow
from orchestra.workflows.known import Workflows
from orchestra.workflows.project import ENVIRONMENT, Project


class App:
    """One project folder, opened, and everything that can be done with its runs."""

    def __init__(
        self,
        path: Path,
        *,
        face: Face | None = None,
        environ: Mapping[str, str] = os.environ,
        models: Models | None = None,
        config: Path | None = None,
        overlay: Overlay | None = None,
        more: tuple[Workflow, ...] = (),
    ) -> None:
        """`models` are those of a run that goes on, or is made from another one; `more` adds workflows."""
        self.project = Project(
            path, environ=environ, config=config, overlay=overlay, find=lambda run: self.runs.find(run)
        )
        self.workflows = Workflows(self.project, more)
        self.runs = Runs(self.project.path, self.workflows.roots, self.workflows.root, self.project.store)
        self.terms = Terms(self.project, self.runs)
        store, redactor = self.project.store, self.project.redactor
        self.answers = Answers(self.runs, store, lambda run: wiring.gate(run), redactor)
        self.trees = self.answers.trees
        self.meant = self.answers.meant
        self.face: Face = Bell(GuardedFace(face or Silent()), self._notify)
        self._typed = models or Models()
        self.refuse_unknown_roles(self._typed)
        wiring = Wiring(
            self.project,
            self.runs,
            self.terms,
            self.face,
            workflow=self.workflows.named,
            described=self.workflows.of,
            override=models,
        )
        self._kinds: dict[str, Kind] = {}  # of workflows whose code is loaded
        self.engine = Engine(
            self._kind,
            store=self.project.store,
            disk=self.project.disk,
            redactor=self.project.redactor,
            face=self.face,
            handlers_for=wiring.handlers,
            before_end=wiring.before_end,
            after_drive=wiring.after_drive,
            worked=wiring.worked,
            copies=self.project.copies,
        )
        self.again = Again(
            self.project, self.workflows, self.runs, self.terms, self.engine, self.face, self.trees.changes, models
        )

    # -- starting -----------------------------------------------------------------------------------------------------

    def job(self, name: str, params: Mapping[str, Any]) -> Any:
        """The job of a workflow with these parameters; the configuration gives the others."""
        return self.workflows.named(name).job(self.project, params)

    def check(self, name: str, job: Any, models: Models) -> tuple[Any, Models]:
        """Raise what `start` would raise, but start nothing.

        Returns the job and the models the run would begin with.
        """
        self.project.refuse_home()
        workflow = self.workflows.named(name)
        self.refuse_unknown_roles(models, workflow)
        models = self.project.providers.settled(models)
        job, models = workflow.prepare(self.project, job, models)
        self.runs.refuse_links()
        self.project.consent.require()
        self.project.refuse_context()
        self.project.notify.refuse()
        return job, models

    def start(
        self,
        name: str,
        job: Any,
        models: Models,
        *,
        typed: tuple[str, ...] = (),
        input_run: str = "",
        follows: str = "",
    ) -> RunFolder:
        """Start a run, unless `check` refuses it.

        `typed` names the settings that a person typed on the command line; `input_run` is the run whose files it
        begins with, `follows` one that has ended, however, and whose goal it goes on from.
        """
        brought = self.again.brought_in(input_run) if input_run else {"inputRunId": follows} if follows else {}
        job, models = self.check(name, job, models)
        workflow = self.workflows.named(name)
        self.project.hide_runs(workflow.root(self.project))
        facts = {"models": msgspec.to_builtins(models), "workspace": str(self.project.path), "typed": typed}
        facts |= self.again.numbered()
        environment, chosen = self.project.recorded_environment()
        if environment:
            facts |= {"environment": environment, "typed": (*typed, ENVIRONMENT) if chosen else typed}
        shown = self.project.shown_to_models()
        git = self.project.begun_from(workflow.uncommitted)
        beginning = self._beginning(workflow, job, {**facts, **shown.facts, **git.facts, **brought})
        beginning = msgspec.structs.replace(beginning, files={**beginning.files, **shown.files})
        folder = self.engine.start(name, workflow.goal(job), beginning)
        for what in (*shown.notices, *git.notices, *self.project.providers.warnings(models)):
            self.face.tell(Notice(folder.id, what))
        return folder

    def _child(self, workflow: Workflow, begun: ChildRun, parent: Event) -> Beginning:
        """How a child run begins: like a root run, its own workflow prepares or refuses the job and adds its facts."""
        facts = recorded(parent, *INHERITED, "workspace")
        above = RunCreated.of(parent)
        project = self.project.at(above.copy).below(above.folder, begun.workspace)
        job = self.job(workflow.name, begun.params)
        models = msgspec.convert(RunCreated.of(parent).models, Models)
        job = workflow.as_child(project, job, parent)
        job, _ = workflow.prepare(project, job, models)
        self.project.hide_runs(workflow.root(self.project))
        beginning = self._beginning(workflow, job, facts)
        # The copy or the folder is made now that nothing is refused any more.
        if begun.copied is True:
            project = self.project.copied(workflow.root(self.project) / begun.childRunId)
        else:
            self.project.at(project.copy).inside(project.folder)
        places = {"folder": project.folder, "copy": project.copy}
        return replace(beginning, facts={**beginning.facts, **{name: path for name, path in places.items() if path}})

    def _beginning(self, workflow: Workflow, job: Any, facts: dict[str, Any]) -> Beginning:
        own = {"goal": workflow.goal(job), **workflow.facts(self.project, job)}
        parts = workflow.id_parts(job) if workflow.id_parts else None
        return Beginning(msgspec.to_builtins(job), {**facts, **own}, workflow.files(self.project, job), parts)

    def _kind(self, name: str) -> Kind:
        if name in self._kinds:
            return self._kinds[name]
        try:
            workflow = self.workflows.named(name)
        except (UsageError, NoConsent):
            return self._as_kind(name, self.workflows.of(name))  # enough to cancel a run; `drive` needs its code
        return self._kinds.setdefault(name, self._as_kind(name, workflow))

    def _as_kind(self, name: str, workflow: Workflow) -> Kind:
        return Kind(
            name=name,
            root=workflow.root(self.project),
            table=workflow.transitions,
            params=workflow.params,
            flow=workflow.flow,
            admit_child=partial(self._child, workflow),
            projections=partial(self._derived, workflow),
            goes_on=partial(beyond_limit, workflow),
        )

    def _derived(self, workflow: Workflow, folder: RunFolder) -> tuple[Projection, ...]:
        """The derived files of a run. If a newer run has those outside the run's folder, a notice names it."""

        def left_alone(newer: str) -> None:
            self.face.tell(
                Notice(folder.id, f"run {newer} was made from {folder.id} and has its files now: left alone")
            )

        return workflow.derived(self.project, self.workflows.root, folder, left_alone)

    def refuse_unknown_roles(self, models: Models, workflow: Workflow | None = None) -> None:
        """UsageError for a name that is no role and no agent; the file's names may be those of another workflow."""
        for name in models.roles:
            started = None if name in self.project.config.roles else workflow
            if wrong := self.workflows.wrong_role(name, started):
                raise UsageError(f"--role {name}: {wrong}")

    # -- driving ------------------------------------------------------------------------------------------------------

    async def drive(
        self,
        folder: RunFolder,
        *,
        patient: bool = False,
        accept_drift: frozenset[str] = frozenset(),
        on_ask: OnAsk = "park",
    ) -> RunEnd:
        """Drive the root of this run's tree; a child run is driven by its parent. The end has the tree's status."""
        project = self.project
        try:
            run = self.runs.drivable_root(folder)
            root, policy = run.folder, self.terms.policy(run.created)
            self.runs.refuse_links()
            project.consent.require()
            self.project.notify.refuse()
            self.again.refuse_scenario(root, run.created)
            for note in self.terms.weaker(policy):
                self.face.tell(Notice(root.id, note))
            for edited in self.again.renewed(run.created).why:
                self.face.tell(Notice(root.id, f"{edited}: this run goes on with what it recorded when it began"))
            facts = self.runs.facts(run.created)
            project.resume_environment(facts.environment, chosen=ENVIRONMENT in facts.typed)
            self.refuse_unknown_roles(self._typed, self.workflows.named(facts.workflow))
            if self.workflows.named(facts.workflow).needs_commands(job_of(run.created)):
                for line in project.workshop.introduction():
                    self.face.tell(Notice(root.id, line))
            if self._needs_trial(run):
                await project.try_command(policy, root.id)
            end = await self.engine.drive(root, patient=patient, accept_drift=accept_drift, on_ask=on_ask)
        finally:
            await project.close()
        if end.status not in FINAL.values() and not end.alone:
            end = msgspec.structs.replace(end, status=self.trees.status(root))
        self._notify(root, end.status)
        return end

    def _notify(self, folder: RunFolder, status: str = "") -> None:
        """Start the person's own command, if the configuration has one: a run waits for them, or has ended."""
        if not self.project.config.notify:
            return
        try:
            root = self.runs.root_of(folder)
            began = self.runs.began(root)
            problem = self.project.notify(root.id, began.number, status or self.trees.status(root), began.goal)
        except (OrchestraError, OSError) as error:  # whatever is wrong with it, the run goes on
            root, problem = folder, f"notify: {error}"
        if problem:
            self.face.tell(Notice(root.id, problem))

    def change(self, folder: RunFolder, wishes: Mapping[str, Any], by: str) -> None:
        """Change the job of a run that has not ended, as a person wishes: its next event records that."""
        run = self.runs.vouched(folder)
        workflow = self.workflows.named(run.workflow)
        if (status := run.fold.state.status) in FINAL.values():
            verb, rest = ("more", ' "GOAL"') if status == "completed" else ("retry", "")
            cure = f"A new run that goes on from it: orchestra {verb} {folder.id}{rest}"
            raise UsageError(f"run {folder.id} is {status}: nothing of it can be changed. {cure}")
        if run.driven:
            raise RunLocked(folder.id, "another process")
        if workflow.changed is None:
            raise UsageError(f"workflow {workflow.name} has nothing that can be changed while a run of it goes on")
        now = {**job_of(run.created), **self.terms.changes(folder)}
        self.terms.keep_changes(folder, msgspec.to_builtins(workflow.changed(self.project, now, wishes)), by)

    def weaknesses(self, created: Event) -> tuple[str, ...]:
        """What to expect of the models of a run, where little can be expected."""
        return self.project.providers.warnings(msgspec.convert(RunCreated.of(created).models, Models))

    def keep_models(self, root: RunFolder, models: Models) -> None:
        """Keep models that replace those of a run, for another process that is about to drive it."""
        if self.project.store.is_driven(root):
            raise RunLocked(root.id, "another process")
        self.terms.keep_models(root, self.project.providers.settled(models))

    def _needs_trial(self, run: Drivable) -> bool:
        """Whether to try a command before a model is called: the run needs commands, and no patch is applied yet."""
        if not self.workflows.named(run.facts.workflow).needs_commands(job_of(run.created)):
            return False
        return not any(event.type == "PATCH_APPLIED" or event.type in FINAL for event in run.events)

    async def cancel(self, folder: RunFolder, reason: str = "") -> RunEnd | None:
        """Record a cancel and end the run; None: the process that drives the run will end it.

        A patch that a kill cut short is finished first, also one of a child run. Only for that the code of the
        workflow is needed: if it is not here, nothing is recorded.
        """
        for run in self.answers.half_applied(folder, only_open=True):
            self.workflows.named(run.workflow)
        self.answers.ask_to_cancel(folder, reason=reason)
        return await self.engine.cancel(folder)

    # -- reading ------------------------------------------------------------------------------------------------------

    def workflow_of(self, run_id: str) -> Workflow:
        """The workflow of a run, for showing the run; its code need not be loaded."""
        return self.workflows.of(RunCreated.of(self.runs.first_of(run_id)).workflow)

    def report(self, summary: RunSummary) -> Iterator[str]:
        """The report of a run that has not ended, line by line."""
        events = summary.events
        whole = events if summary.foreign else events.whole()
        status, roots = summary.fold.state.status, self.workflows.root
        return self.workflows.of(summary.workflow).so_far(summary.folder, events, status, whole, roots)

    def rebuild(self, summary: RunSummary) -> None:
        """Write the derived files of a run anew that are missing or not what its journal gives, if that can be."""
        try:
            if not summary.foreign:
                self.engine.rebuild(summary.folder)
        except (RunLocked, OSError):
            pass  # another process drives the run, or nothing can be written: the report is shown all the same
