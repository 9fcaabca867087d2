"""Makes the handlers of one run: one for each effect of models, commands and patches, and those its workflow adds.

The engine calls `Wiring.handlers` when it drives a run, `Wiring.before_end` before a run ends, and `Wiring.after_drive`
before the run is released.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from msgspec import Struct

from orchestra.commands.clock import InTime, Timekeeper
from orchestra.commands.run import Runner, end_left_over
from orchestra.context.opening import recorded as opened_again
from orchestra.context.rules import kept_rules
from orchestra.context.treehash import tree_hash
from orchestra.context.view import View
from orchestra.core.accounts import children
from orchestra.core.calls import PastCall, past_calls
from orchestra.core.clockfile import ClockReading
from orchestra.core.command import RunCommand
from orchestra.core.context import Handlers, Verdict
from orchestra.core.effects import Sleep
from orchestra.core.errors import DurabilityError, ForeignRun, SandboxError
from orchestra.core.faces import Face
from orchestra.core.ledger import Ledger
from orchestra.core.looks import WriteFile
from orchestra.core.model import Provider
from orchestra.core.names import OWN
from orchestra.core.reading import RunCreated, job_of
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.core.secretfiles import secret_by_name
from orchestra.core.times import sleep
from orchestra.core.vouching import elsewhere
from orchestra.core.work import (
    ApplyPatch,
    AutoApprove,
    ModelCall,
    ProposeCommit,
    ProposePatch,
    ProposeTakeBack,
    RefusePatch,
    Revise,
    TakeBack,
    TakeOver,
    WriteCommit,
)
from orchestra.patch.gatekeeper import Gatekeeper
from orchestra.patch.git.committing import Committing
from orchestra.patch.journaled import Journaled
from orchestra.patch.looked import LookedFiles
from orchestra.patch.takeback import TakingBack
from orchestra.patch.takeover import TakingOver
from orchestra.policy.binding import asks_more
from orchestra.policy.policy import ApprovalPolicy, with_tools
from orchestra.providers.budget import Budget, budget_of
from orchestra.providers.calling import Caller
from orchestra.providers.choose import Models
from orchestra.providers.contract import Remembers, Route
from orchestra.providers.rawfiles import UNKNOWN, settle
from orchestra.providers.setup import Choice
from orchestra.providers.showing import Showing
from orchestra.runs.find import Runs, RunSummary, trusted
from orchestra.runs.terms import Terms
from orchestra.workflows.description import Running, Workflow
from orchestra.workflows.guard import code_files, code_folders, environment_folders
from orchestra.workflows.project import Project


class _Tree(Struct, frozen=True):
    """A tree of runs that is driven here: its root, what it may spend and how long it may take."""

    root: RunFolder
    facts: RunCreated  # of the root
    budget: Budget
    clock: Timekeeper


class _Driven(Struct, frozen=True):
    """A run that is driven here, for its child runs: they are driven while it is, and a first event never changes."""

    folder: RunFolder
    facts: RunCreated
    tree: _Tree


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
        described: Callable[[str], Workflow],
        override: Models | None,
    ) -> None:
        """`workflow` looks a workflow up to drive a run, `described` one whose code need not be loaded.

        `override` are the models of a person who resumes a run.
        """
        self._project = project
        self._runs = runs
        self._terms = terms
        self._face = face
        self._workflow = workflow
        self._described = described
        self._override = override
        self._providers: dict[tuple[str, str, str], Provider] = {}
        self._remembered: set[tuple[tuple[str, str, str], str]] = set()  # a provider, and a run whose calls it knows
        self._trees: dict[str, _Tree] = {}  # by the id of the root
        self._driven: dict[str, _Driven] = {}  # by the id of the run, until it ends

    def handlers(self, ledger: Ledger, created: Event) -> Handlers:
        """The handler of each effect, for this run."""
        if misplaced := elsewhere(ledger.workspace, str(self._project.path)):
            raise ForeignRun(ledger.folder.id, misplaced)
        facts = trusted(RunCreated.of(created), own=ledger.journal.own_first)
        project = self._project.at(facts.copy).inside(facts.folder)
        root = self._root(ledger.folder, facts)
        if self._override:
            self._terms.keep_models(root, project.providers.settled(self._override))
        workflow = self._workflow(facts.workflow)
        models = workflow.routed(job_of(created), self._terms.models_by(root, facts))
        asking = self._asking(workflow, ledger.folder, facts, self._driven)
        policy = with_tools(self._terms.policy_by(facts), workflow.tools(job_of(created), project.config))
        tree = self._tree(ledger, facts, root, models)
        gate = self._gatekeeper(project, models, asking)
        back = TakingBack(project.workspace, project.folder, project.copy, trees=self._journals, closed=gate.closed_to)
        committing = Committing(project.copies, project.place.homes, trees=self._journals)
        if facts.forkedFrom:  # a child that is made from another one begins with its calls
            for key in [key for key in self._providers if key[2] == root.id]:
                self._remember(key, ledger.folder.id, ledger.events)

        def route(call: ModelCall) -> Route:
            choice = project.providers.choice_for(models, call.agent, call.role)
            return project.providers.route(choice, self._provider(choice, root))

        caller = Caller(
            ledger,
            route,
            showing=Showing(self._view(project, tree), ledger, self._face, most=project.config.context.bytes),
            face=self._face,
            budget=tree.budget,
            debug=project.environ.get("DEBUG_LLM_REQUESTS", "").lower() in ("1", "true", "yes"),
        )
        backoff = project.config.retries.backoff_base_sec
        return {
            ModelCall: InTime(caller, tree.clock),
            RunCommand: Runner(project.workshop, policy, ledger, tree.clock, backoff=backoff, face=self._face),
            ProposePatch: gate.propose,
            AutoApprove: gate.grant,
            RefusePatch: gate.refuse,
            Revise: gate.revise,
            ApplyPatch: gate.apply,
            ProposeTakeBack: back.propose,
            TakeBack: back.apply,
            TakeOver: TakingOver(project.copies, trees=self._journals),
            ProposeCommit: committing.propose,
            WriteCommit: committing.commit,
            WriteFile: LookedFiles(
                project.workspace,
                ledger.folder,
                refused=gate.refused_path,
                hash_of=partial(tree_hash, project.workspace),
            ),
            Sleep: InTime(sleep, tree.clock),
            **_in_time(workflow.effects(Running(project, ledger, asking)), tree.clock),
        }

    def gate(self, run: RunSummary) -> Gatekeeper:
        """The gate of a run that is not driven here, for a person who decides on its patch."""
        project = self._project.at(run.facts.copy).inside(run.facts.folder)
        workflow = self._described(run.workflow)  # its code is not needed, and may be in a program of the person's
        models = workflow.routed(job_of(run.created), self._terms.models(self._runs.root_of(run.folder), run.created))
        return self._gatekeeper(project, models, self._asking(workflow, run.folder, self._runs.facts(run.created), {}))

    def _tree(self, ledger: Ledger, facts: RunCreated, root: RunFolder, models: Models) -> _Tree:
        """A run's tree: its budget and its clock are made when its root is driven, and shared by the runs below."""
        is_root = ledger.folder.id == root.id
        if is_root or root.id not in self._trees:
            events = ledger.events if is_root else self._project.store.events(root, keep=False)
            seconds, asked = self._time(events[0], models)
            journals = self._unsummed(root, events)
            spans = itertools.chain.from_iterable(journal for _, journal in journals)
            self._trees[root.id] = _Tree(
                root,
                RunCreated.of(events[0]),
                budget_of(models.maxBudgetUsd, root.id, journals),
                self._clock(root, seconds, spans, asked=asked, claimed=is_root),
            )
        self._driven[ledger.folder.id] = _Driven(ledger.folder, facts, self._trees[root.id])
        return self._trees[root.id]

    def _root(self, run: RunFolder, facts: RunCreated) -> RunFolder:
        """The run at the top of a run's tree. A parent that is driven in this process knows it."""
        parent = self._driven.get(facts.parentRunId or "")
        return parent.tree.root if parent else self._runs.root_of(run)

    def _time(self, created: Event, models: Models) -> tuple[float, bool]:
        """How many seconds a tree may work, and whether that was asked for; `created` is its root's first event.

        The default of the root's workflow also applies, unless a person typed another limit.
        """
        default = self._workflow(RunCreated.of(created).workflow).limit(self._terms.policy(created))
        if models.maxTimeSec is None or (default < models.maxTimeSec and not models.typedTime):
            return default, False
        return models.maxTimeSec, True

    def _unsummed(self, root: RunFolder, events: Sequence[Event]) -> list[tuple[RunFolder, Sequence[Event]]]:
        """A run and those below it that must be read to know what was spent: the open ones.

        Of a child that has ended, its parent's journal has the sums; an older version recorded none.
        """
        found = {root.path: (root, events)}
        queue = children(events)
        for told in queue:  # grows
            child = self._runs.child(told.workflow, told.run_id) if not told.kept and not told.summed else None
            if child is not None and child.path not in found and self._project.store.first(child) is not None:
                found[child.path] = (child, self._project.store.events(child, keep=False))
                queue += children(found[child.path][1])
        return list(found.values())

    def worked(self, run: RunFolder) -> int:
        """How many milliseconds the tree of a run that is driven now has worked."""
        return round(1000 * self._driven[run.id].tree.clock.worked) if run.id in self._driven else 0

    def _clock(
        self, root: RunFolder, seconds: float, events: Iterable[Event], *, asked: bool, claimed: bool
    ) -> Timekeeper:
        """The clock of a tree. Unless its root is claimed here, another process may have one of the same tree."""
        found = self._project.store.kept_reading(root)
        if claimed and found is None:
            self._project.store.remove_reading(root)  # whatever is in its place
        keep = partial(self._keep_reading, root) if claimed else None
        return Timekeeper(seconds, events, run_id=root.id, asked=asked, found=found, keep=keep)

    def _keep_reading(self, root: RunFolder, reading: ClockReading) -> None:
        """Leave a reading of a tree's clock for the next process, if the disk takes it."""
        with suppress(OSError, DurabilityError):  # a full disk stops the run where the journal needs it, not here
            self._project.store.keep_reading(root, reading)

    def after_drive(self, run: RunFolder) -> None:
        """Stop the clock of a run's tree, before the claim of the run is given up."""
        if run.id in self._trees:
            self._trees[run.id].clock.stop()

    def before_end(self, ledger: Ledger, verdict: Verdict) -> None:
        """Finish a run, before its last event: end its commands, settle its files, delete its scratch folder."""
        if ledger.folder.id in self._trees:
            self._trees[ledger.folder.id].clock.stop(keep=False)
        self._project.store.remove_reading(ledger.folder)
        end_left_over(ledger.events)
        settle(ledger)
        self._driven.pop(ledger.folder.id, None)
        try:
            self._project.scratch(ledger.folder.id).remove()
        except SandboxError:
            pass  # no scratch folder can be made on this machine, so there is none to delete

    def _asking(
        self, workflow: Workflow, run: RunFolder, facts: RunCreated, driven: Mapping[str, _Driven]
    ) -> ApprovalPolicy | None:
        """The project's approval mode of now, if it asks a person more often than the run's; else None.

        The mode is that of the outermost run of the tree whose workflow has one: a person started that.
        """
        above = list(self._above(facts, driven))
        if any("approval" in self._terms.changes(one) for one in (run, *(folder for folder, _ in above))):
            return None  # a person typed it
        if above and above[0][1].atEnd and facts.copy:
            return None  # a person is asked when its result comes to the project
        now_asks = workflow.approval(self._project.config)
        for _, parents in above:
            now_asks = self._described(parents.workflow).approval(self._project.config) or now_asks
        return asks_more(facts, now_asks) if now_asks else None

    def _above(self, facts: RunCreated, driven: Mapping[str, _Driven]) -> Iterator[tuple[RunFolder, RunCreated]]:
        """The runs above a run, the nearest first, and how each began. Those that are `driven` are not read again."""
        while parent := facts.parentRunId:
            known = driven.get(parent)
            folder = known.folder if known else self._runs.exactly(parent)
            if folder is None:
                return
            facts = known.facts if known else RunCreated.of(self._project.store.first(folder))
            yield folder, facts

    def _view(self, project: Project, tree: _Tree) -> View:
        """What the models of a run are shown of its workspace: the root of its tree has recorded that.

        Files that the configuration hides now are hidden too.
        """
        first = tree.facts
        # An adopted run may have any record: only what a person typed opens a secret.
        opened = (*first.params.opened, *(file for file in first.context.show if not secret_by_name(file)))
        below = f"{project.folder}/" if project.folder else ""  # a file elsewhere is not in the run's workspace
        inner = dict.fromkeys(file.removeprefix(below) for file in opened if file.startswith(below))
        return View(
            project.workspace,
            rules=kept_rules(tree.root, first.rules),
            opened=tuple(opened_again(project.workspace, file) for file in inner),
            hidden=tuple(dict.fromkeys((*first.params.hides, *first.context.hide, *project.config.context.hide))),
            memory=project.memory,
            mask=project.redactor.text,
            below=project.folder,
        )

    def _gatekeeper(self, project: Project, models: Models, approval: ApprovalPolicy | None) -> Gatekeeper:
        """The gate of a run. What is closed or guarded is the project's, whatever folder the run works in."""
        code = code_files(project.config, project.config_path, project.place, project.providers, models)
        folders = code_folders(project.config, project.place)
        own = (f"{project.path}/{folder}" for folder in OWN)
        places = dict.fromkeys((str(project.path), str(project.workspace)))
        return Gatekeeper(
            project.workspace,
            project.watchful,
            closed=(*own, *project.closed),
            installed=tuple(name for place in places for name in environment_folders(place, project.environment)),
            code=code,
            code_folders=folders,
            approval=approval,
        )

    def _journals(self, run_id: str) -> Iterator[Journaled]:
        """A run and the runs below it, with their events; ForeignRun if one is foreign."""
        run = self._runs.exactly(run_id)
        for one in self._runs.tree(run) if run is not None else ():
            summary = self._runs.vouched(one)
            yield Journaled(one, summary.facts.folder, summary.facts.copy, summary.events)

    def _provider(self, choice: Choice, root: RunFolder) -> Provider:
        """The provider of a choice. A tree of runs shares it: a script's reply that one run used is used for all."""
        key = (choice.spec, choice.model, root.id)
        if key not in self._providers:
            self._providers[key] = self._project.providers.make(choice)
            if isinstance(self._providers[key], Remembers):  # only then finished child runs are read
                for one in self._runs.tree(root):
                    self._remember(key, one.id, self._project.store.events(one, keep=False))
        return self._providers[key]

    def _remember(self, key: tuple[str, str, str], run_id: str, events: Sequence[Event]) -> None:
        """Tell a provider which of its replies a run has used. Once: from then on it knows by itself."""
        provider = self._providers[key]
        if not isinstance(provider, Remembers) or (key, run_id) in self._remembered:
            return
        self._remembered.add((key, run_id))
        for call in (*past_calls(events), *self._failed_before(events)):
            if call.status != "open" and call.provider in (key[0], UNKNOWN):  # not replies of another script
                provider.remember(call)

    def _failed_before(self, events: Sequence[Event]) -> list[PastCall]:
        """The failed calls that a fork left behind. They are made again; what they got then, no other call gets."""
        found: dict[tuple[str, str], PastCall] = {}
        copied = {call.key for call in past_calls(events) if call.kept}
        created, passed = RunCreated.of(events[0]), {events[0].runId}
        while (origin := created.forkedFrom) and origin.runId not in passed:
            passed.add(origin.runId)
            source = self._runs.child(created.workflow, origin.runId)
            if source is None or self._project.store.first(source) is None:
                break
            before = self._project.store.events(source, keep=False)
            failed = [call for call in past_calls(before) if call.status == "failed" and not call.kept]
            found |= {(origin.runId, call.key): call for call in failed if call.key not in copied}
            created = RunCreated.of(before[0])
        return list(found.values())


def _in_time(handlers: Handlers, clock: Timekeeper) -> Handlers:
    """A workflow's own handlers: their time counts too."""
    return {kind: one if hasattr(one, "prepare") else InTime(one, clock) for kind, one in handlers.items()}
