"""Makes the handlers of one run: one for each effect of models, commands and patches, and those its workflow adds.

The engine calls `Wiring.handlers` when it drives a run, and `Wiring.before_end` before a run ends.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator

from msgspec import Struct

from orchestra.commands.clock import InTime, Timekeeper
from orchestra.commands.run import Runner, end_left_over
from orchestra.context.reading import from_record
from orchestra.context.workspace import gather
from orchestra.core.calls import PastCall, past_calls
from orchestra.core.context import Handlers, Verdict
from orchestra.core.errors import ForeignRun, SandboxError
from orchestra.core.faces import Face
from orchestra.core.ledger import Ledger
from orchestra.core.model import Provider
from orchestra.core.reading import RunCreated
from orchestra.core.records import Event, now, utf8
from orchestra.core.run import RunFolder
from orchestra.core.shown import Opened
from orchestra.core.vouching import elsewhere
from orchestra.core.work import ApplyPatch, AutoApprove, ModelCall, ProposePatch, RefusePatch, RunCommand
from orchestra.patch.gatekeeper import Gatekeeper
from orchestra.policy.binding import asks_more
from orchestra.policy.policy import ApprovalPolicy
from orchestra.providers.budget import Budget
from orchestra.providers.calling import Caller
from orchestra.providers.choose import Models
from orchestra.providers.contract import Remembers, Route
from orchestra.providers.rawfiles import UNKNOWN, settle
from orchestra.providers.setup import Choice
from orchestra.runs.find import Runs
from orchestra.runs.terms import Terms
from orchestra.workflows.description import Running, Workflow
from orchestra.workflows.guard import closed_folders, code_files, code_folders
from orchestra.workflows.project import Project
from orchestra.workflows.report import Reported


class _Limits(Struct, frozen=True):
    """What a tree of runs may spend and how long it may take."""

    budget: Budget
    clock: Timekeeper


class Wiring:
    """Makes the handlers of the runs of one project."""

    def __init__(
        self,
        project: Project,
        runs: Runs,
        terms: Terms,
        face: Face,
        *,
        workflow: Callable[[str], Workflow],
        reading: Callable[[str], Workflow],
        override: Models | None,
    ) -> None:
        """`workflow` looks a workflow up to drive a run, `reading` to write its report.

        `override` are the models that a person chose when resuming a run.
        """
        self._project = project
        self._runs = runs
        self._terms = terms
        self._face = face
        self._workflow = workflow
        self._reading = reading
        self._override = override
        self._providers: dict[tuple[str, str, str], Provider] = {}
        self._trees: dict[str, _Limits] = {}  # by the id of the root

    def handlers(self, ledger: Ledger, created: Event) -> Handlers:
        """The handler of each effect, for this run."""
        project = self._project
        root = self._runs.root_of(ledger.folder)
        if misplaced := elsewhere(ledger.workspace, str(project.path)):
            raise ForeignRun(ledger.folder.id, misplaced)
        if self._override:
            self._terms.keep_models(root, project.providers.settled(self._override))
        models = self._terms.models(root, created)
        workflow = self._workflow(RunCreated.of(created).workflow)
        asking = self._asking(workflow, created)
        policy = self._terms.policy(created)
        limits = self._limits(ledger, root, workflow.limit(policy), models.maxBudgetUsd)
        gate = self._gatekeeper(models, asking)

        def route(call: ModelCall) -> Route:
            choice = project.providers.choice_for(models, call.agent, call.role)
            return project.providers.route(choice, self._provider(choice, root))

        caller = Caller(
            ledger,
            route,
            gather=functools.partial(
                gather,
                project.path,
                opened=self._opened(root, created),
                memory=project.context_memory,
                mask=project.redactor.text,
            ),
            face=self._face,
            budget=limits.budget,
            debug=project.environ.get("DEBUG_LLM_REQUESTS", "").lower() in ("1", "true", "yes"),
        )
        backoff = project.config.retries.backoff_base_sec
        return {
            ModelCall: InTime(caller, limits.clock),
            RunCommand: Runner(project.workshop, policy, ledger, limits.clock, backoff=backoff, face=self._face),
            ProposePatch: gate.propose,
            AutoApprove: gate.grant,
            RefusePatch: gate.refuse,
            ApplyPatch: gate.apply,
            **workflow.effects(Running(project, ledger, asking)),
        }

    def _limits(self, ledger: Ledger, root: RunFolder, seconds: float, cap: float | None) -> _Limits:
        """The budget and the clock of a run's tree: made when its root is driven, and shared by the runs below."""
        if ledger.folder.id == root.id or root.id not in self._trees:
            events = [
                ledger.events,
                *(self._project.store.events(run, keep=False) for run in self._runs.below(ledger.events)),
            ]
            calls = [call for one in events for call in past_calls(one)]
            budget = Budget(
                cap,
                run_id=root.id,
                spent=sum(call.costUsd or 0.0 for call in calls),
                lost=sum(call.lostUsd or 0.0 for call in calls),
            )
            self._trees[root.id] = _Limits(budget, Timekeeper(seconds, itertools.chain.from_iterable(events)))
        return self._trees[root.id]

    def before_end(self, ledger: Ledger, verdict: Verdict) -> None:
        """Finish a run: end its commands, write its report, delete its scratch folder (C-26: before the last event)."""
        end_left_over(ledger.events)
        settle(ledger)
        workflow = self._reading(RunCreated.of(ledger.events[0]).workflow)
        result = verdict.result if isinstance(verdict.result, dict) else {}
        why = verdict.error.message if verdict.error else str(result.get("reason", ""))
        events = ledger.events
        run = Reported(ledger.folder, events, verdict.status, message=why, ended=now(), whole=events)
        for name, text in workflow.left(run).items():
            ledger.disk.publish(ledger.folder.path / name, utf8(ledger.redactor.text(text)), durable=False)
        try:
            self._project.scratch(ledger.folder.id).remove()
        except SandboxError:
            pass  # no scratch folder can be made on this machine, so there is none to delete

    def _asking(self, workflow: Workflow, created: Event) -> ApprovalPolicy | None:
        """The project's approval mode of now, if it asks a person more often than the run's; else None."""
        now_asks = workflow.approval(self._project.config)
        return asks_more(self._runs.facts(created), now_asks) if now_asks else None

    def _opened(self, root: RunFolder, created: Event) -> tuple[Opened, ...]:
        """The files that a person opened for the models of a run's whole tree."""
        first = created if created.runId == root.id else self._project.store.first(root)
        return tuple(from_record(self._project.path, text) for text in RunCreated.of(first).params.opened)

    def _gatekeeper(self, models: Models, approval: ApprovalPolicy | None) -> Gatekeeper:
        project = self._project
        code = code_files(project.config, project.config_path, project.place, project.providers, models)
        closed, folders = closed_folders(project.config, project.place), code_folders(project.config, project.place)
        return Gatekeeper(
            project.path, project.watchful, closed=closed, code=code, code_folders=folders, approval=approval
        )

    def _provider(self, choice: Choice, root: RunFolder) -> Provider:
        """The provider of a choice. A tree of runs shares it: a script's reply that one run used is used for all."""
        key = (choice.spec, choice.model, root.id)
        if key not in self._providers:
            provider = self._project.providers.make(choice)
            if isinstance(provider, Remembers):
                for call in self._calls_of(root):
                    if call.provider in (choice.spec, UNKNOWN):  # not replies of another script
                        provider.remember(call)
            self._providers[key] = provider
        return self._providers[key]

    def _calls_of(self, folder: RunFolder) -> Iterator[PastCall]:
        """Every finished model call of a run and of the child runs below it."""
        for one in self._runs.tree(folder):
            events = self._project.store.events(one, keep=False)
            yield from (call for call in past_calls(events) if call.status != "open")
