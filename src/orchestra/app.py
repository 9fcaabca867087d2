"""The composition root: what every face (CLI, TUI, web) calls. Builds a project's engine and wires the handlers.

A face tells `App` what a person wants and gets told what happens (`Observer`); it knows no workflow's insides.
"""

from __future__ import annotations

import functools
import math
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from orchestra.commands.clock import InTime, Timekeeper
from orchestra.commands.program import Talking
from orchestra.commands.run import Runner, end_left_over
from orchestra.commands.sandbox import Workshop
from orchestra.commands.scratch import Scratch, scratch_root
from orchestra.commands.tools import NoTool, Toolbox
from orchestra.commands.trial import must_run, needs_trial
from orchestra.config.borders import Place, homes
from orchestra.config.consent import Consent
from orchestra.config.overlay import Overlay, laid_over
from orchestra.config.settings import Config, find_config, policy_of, read_config, to_yaml
from orchestra.context.workspace import gather, openable
from orchestra.core.calls import PastCall, past_calls
from orchestra.core.context import Handlers, Verdict
from orchestra.core.disk import ChaosDisk, Disk
from orchestra.core.engine import Engine, RunEnd, Workflow
from orchestra.core.errors import ContractError, ForeignRun, PolicyError, SandboxError, UsageError
from orchestra.core.events import Events
from orchestra.core.faces import Face, Silent, Told
from orchestra.core.journal import read_first, read_journal
from orchestra.core.keyring import Keyring
from orchestra.core.ledger import Ledger
from orchestra.core.model import Provider
from orchestra.core.records import Event, utf8
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder
from orchestra.core.vouching import elsewhere
from orchestra.core.work import (
    AdoptPlan,
    ApplyPatch,
    AutoApprove,
    Evaluate,
    ModelCall,
    ProposePatch,
    RefusePatch,
    RunCommand,
)
from orchestra.patch.gatekeeper import Gatekeeper
from orchestra.policy.binding import asks_more, bound, differences, recorded, weaker
from orchestra.policy.decide import ApprovalPolicy, Policy, decide, within
from orchestra.providers.calling import CONTEXT_BYTES, Caller, Remembers, Route, Serves
from orchestra.providers.choose import ROLES, Choice, Directory, Models, wrong_role
from orchestra.providers.rawfiles import UNKNOWN, settle
from orchestra.runs.answers import Desk
from orchestra.runs.find import RunSummary
from orchestra.worker.probe import Proof
from orchestra.workflows.dag.board import Board
from orchestra.workflows.dag.files import TaskFiles, adopt
from orchestra.workflows.dag.flow import dag
from orchestra.workflows.dag.plan import read_plan
from orchestra.workflows.dag.planfile import check_plan_file
from orchestra.workflows.dag.report import board_of
from orchestra.workflows.dag.report import render as render_dag
from orchestra.workflows.dag.report import write_report as write_dag_report
from orchestra.workflows.dag.shapes import Job as DagJob
from orchestra.workflows.dag.states import TABLE as DAG_TABLE
from orchestra.workflows.guard import closed_folders, code_files
from orchestra.workflows.loop.evaluation import record_evaluation
from orchestra.workflows.loop.flow import loop
from orchestra.workflows.loop.report import render, write_report
from orchestra.workflows.loop.shapes import Job
from orchestra.workflows.loop.states import TABLE as LOOP_TABLE


class App(Desk):
    """One project folder, opened."""

    def __init__(
        self,
        project: Path,
        *,
        face: Face | None = None,
        environ: Mapping[str, str] = os.environ,
        models: Models | None = None,
        config: Path | None = None,
        overlay: Overlay | None = None,
    ) -> None:
        """`config` is another file than the project's own; `overlay` is laid over either."""
        if not project.is_dir():
            raise UsageError(f"{project} is not a folder; give -C DIR")
        self.project = project.resolve()
        self.config_path = config or find_config(self.project)
        loaded = read_config(self.config_path, environ)
        chaos = environ.get("ORCHESTRA_CHAOS")
        self.disk: Disk = ChaosDisk.from_spec(chaos) if chaos else Disk()
        # Of relative paths (G2-10).
        self.base = self.config_path.absolute().parent if self.config_path else self.project
        self.policy = policy_of(loaded.config, self.base, loaded.origins, environ)
        place = Place.of(self.base, loaded.config.paths.runs, environ)
        self.consent = Consent(self.project, loaded, place, environ, self.disk)
        self.keyring = Keyring(environ, self.project, self.disk)
        self._overlay = overlay
        if overlay is not None:
            loaded, self.policy = laid_over(loaded, self.policy, overlay, self.base, environ)
        self.config: Config = loaded.config
        self.most_usd = self.config.budget.max_usd
        self.origins = loaded.origins
        self.runs = Path(os.path.normpath(self.base / self.config.paths.runs))
        self.face: Face = Told(face or Silent())
        self.refuse_unknown_roles(models or Models())
        self._override = models  # given on resume: wins over what the run recorded
        self._environ = environ
        self.directory = Directory(
            self.config, self.base, environ, find=self.find, converse=lambda: Talking(self.workshop, self)
        )
        secrets = (*self.directory.secrets, *filter(None, (self.keyring.secret,)))
        self._watchful = Redactor.from_environment(environ, secrets)
        self.redactor = self._watchful if self.config.security.redact_secrets else Redactor.blind()
        self._providers: dict[tuple[str, str, str], Provider] = {}
        self.workflows = {
            "loop": Workflow("loop", self.project / ".runs" / "workflows", LOOP_TABLE, Job, loop),  # S1-100
            "dag": Workflow("dag", self.runs, DAG_TABLE, DagJob, dag, self._task_files),  # D-06
        }
        self.engine = Engine(
            self.workflows,
            disk=self.disk,
            redactor=self.redactor,
            keyring=self.keyring,
            observer=self.face,
            handlers_for=self._handlers,
            before_end=self._before_end,
        )

    # -- starting and driving -----------------------------------------------------------------------------------------

    def start_loop(self, job: Job, models: Models, *, typed: tuple[str, ...] = ()) -> RunFolder:
        """Start a patch loop. `typed`: what a person said on the command line (policy/binding.py, rule 2)."""
        self._refuse_home()
        job = msgspec.structs.replace(job, context=self._openable(job.context))
        models = self.directory.settled(models)
        provider = self._provider(models, "evaluator")
        if isinstance(provider, Serves) and not provider.serves("evaluator", "evaluate"):
            job = msgspec.structs.replace(job, evaluator=False)  # a script without a judge configures none
        if not job.checks and not job.evaluator:
            raise UsageError(
                'nothing can decide whether the goal is reached: give --check "CMD", or configure an evaluator'
            )
        for role in ROLES:  # what is wrong with a provider is said before a run exists
            capabilities = self._provider(models, role).capabilities
            if role in ("developer", "fixer") and not capabilities.supportsPatchFirst:  # S1-31
                raise UsageError(
                    f"provider {capabilities.name} cannot write patches; choose another: --role {role}=PROVIDER"
                )
        self.refuse_unknown_roles(models)
        self._refuse_secrets(*(word for argv in job.checks for word in argv))
        for argv in job.checks:
            ruling = decide(argv, self.policy, asker="person")
            if ruling.decision == "forbid":
                raise PolicyError(f"--check {argv[0]}: {ruling.reason} ({ruling.where})")
            if "/" not in argv[0] and isinstance(tool := self.workshop.toolbox.resolve(argv[0]), NoTool):
                raise UsageError(f"--check {argv[0]}: {tool.reason}")  # a path may be made by the patch itself
        facts = {
            "goal": job.goal,
            "approval": job.approval,
            "maxFixIterations": job.maxFixIterations,
            "models": msgspec.to_builtins(models),
            "workspace": str(self.project),
            "policy": msgspec.to_builtins(self.policy),
            "typed": typed,
        }
        self.refuse_links()
        self.consent.require()
        self._hide_runs(self.project / ".runs")
        return self.engine.start("loop", job.goal, msgspec.to_builtins(job), facts)

    def check_dag(self, job: DagJob, models: Models, *, source: str = "the plan") -> tuple[DagJob, Models]:
        """Refuse what a start would refuse, and start nothing; the job and who answers, as they would begin.

        `source` is how a person knows the plan they gave.
        """
        self._refuse_home()
        job = msgspec.structs.replace(job, context=self._openable(job.context))
        models = self.directory.settled(models)
        if job.plan is not None:
            self._refuse_bad_plan(job, job.plan, source)
            self._refuse_secrets(job.plan)
        else:
            self._planner(models)
        self.refuse_unknown_roles(models)
        if not models.spec("summarizer", "planner") or not self._can_summarize(models):
            job = msgspec.structs.replace(job, summarizer=False)  # the report is complete without (S2-133)
        self.refuse_links()
        self.consent.require()
        return job, models

    def start_dag(
        self, job: DagJob, models: Models, *, source: str = "the plan", typed: tuple[str, ...] = ()
    ) -> RunFolder:
        """Start a task graph in this project, unless `check_dag` refuses it. `typed` as in `start_loop`."""
        job, models = self.check_dag(job, models, source=source)
        facts = {
            "goal": job.intent,
            "approval": job.approval,
            "models": msgspec.to_builtins(models),
            "workspace": str(self.project),
            "typed": typed,
        }
        if self._overlay is not None:
            facts["scenario"] = str(self._overlay.path.absolute())
        self._hide_runs(self.runs)
        frozen = {"config.yaml": utf8(self.redactor.text(to_yaml(self.config)))}
        return self.engine.start("dag", job.intent, msgspec.to_builtins(job), facts, frozen)

    def _planner(self, models: Models) -> None:
        """What is wrong with the planner's provider is said before a run exists; a person can also plan."""
        try:
            self._provider(models, "planner")
        except UsageError as error:
            if models.spec("planner", "planner"):
                raise
            raise UsageError(f"{error}. Without a model: --plan FILE carries out a plan of your own") from error

    def _can_summarize(self, models: Models) -> bool:
        provider = self._provider(models, "planner", "summarizer")
        return not isinstance(provider, Serves) or provider.serves("planner", "evaluate", "summarizer")

    def _refuse_bad_plan(self, job: DagJob, plan: str, source: str) -> None:
        """A person's own plan is looked at before a run exists."""
        check_plan_file(plan, source)
        try:
            read_plan(plan, "", job.policy, asker=job.asker, source=source)
        except ContractError as wrong:
            raise (PolicyError if wrong.reason == "policy" else UsageError)(str(wrong)) from wrong

    async def close(self) -> None:
        """Nothing runs any more; end the process that starts commands."""
        if "workshop" in self.__dict__:
            await self.workshop.launcher.close()

    async def drive(
        self, folder: RunFolder, *, patient: bool = False, accept_drift: frozenset[str] = frozenset()
    ) -> RunEnd:
        """Drive a run, from its root: a child is driven by its parent."""
        try:
            summary = self.vouched_root(folder)
            root, policy = summary.folder, self.bound_policy(summary.created)
            self.refuse_links()
            self.consent.require()
            self._refuse_scenario(root, summary.created)
            if policy.tier != "strict":  # one line whenever commands are contained less than they could be
                self.face.notice(root, weaker(policy.tier))
            if needs_trial(summary.events):
                scratch = Scratch(self.workshop.scratch, root.id, self.project)
                await must_run(self.workshop, policy, scratch, redactor=self.redactor, disk=self.disk)
            return await self.engine.drive(root, patient=patient, accept_drift=accept_drift)
        finally:
            await self.close()

    def fork(self, folder: RunFolder, at: str) -> RunFolder:
        """A new run from a point in another one's history. It records the policy of now, and says what that changes."""
        self.consent.require()
        standing, kept = self.engine.history(folder, at)
        if misplaced := elsewhere(standing.workspace, str(self.project)):
            raise ForeignRun(folder.id, misplaced)
        facts = {"policy": msgspec.to_builtins(self.policy), "workspace": str(self.project)}
        new = self.engine.fork(folder, kept, at, facts)
        for difference in differences(self.recorded_policy(kept[0]), self.policy):
            self.face.notice(new, f"another policy than that of {folder.id}: {difference}")
        return new

    def _refuse_scenario(self, folder: RunFolder, created: Event) -> None:
        """A run with a configuration of its own would go on under the project's, which may allow more."""
        scenario = created.payload.get("scenario")
        if self._overlay is None and scenario:
            raise UsageError(
                f"run {folder.id} had the configuration of a scenario and cannot go on without it."
                f" Run that again: {shlex.join(('orchestra', 'eval', 'run', str(scenario)))}."
                f" End this one: orchestra cancel {folder.id}"
            )

    def _refuse_home(self) -> None:
        """Everything in a project is shown to models and commands."""
        if any(within(home, str(self.project)) for home in homes(self._environ)):
            raise UsageError(
                f"your home folder, with your keys, is in {self.project}: commands and models would see all of it."
                " Start in the folder of a project, or give -C DIR"
            )

    def _openable(self, files: tuple[str, ...]) -> tuple[str, ...]:
        """The files that a person wants models to see, by their paths in the project."""
        return tuple(dict.fromkeys(openable(self.project, file, CONTEXT_BYTES) for file in files))

    def _hide_runs(self, folder: Path) -> None:
        """Runs hold prompts and replies: a project under git must not take them in by accident."""
        ignore = folder / ".gitignore"
        if not ignore.exists() and (folder.name == ".runs" or not folder.exists()):  # an older `runs` is a person's own
            self.disk.publish(ignore, b"*\n", durable=False, mode=0o644)

    def refuse_unknown_roles(self, models: Models) -> None:
        """UsageError for a role or agent that nobody is."""
        for name in models.roles:
            if wrong := wrong_role(name):
                raise UsageError(f"--role {name}: {wrong}")

    def _refuse_secrets(self, *texts: str) -> None:
        """A person's own words run as they are or not at all: what is written down is masked, and that would run."""
        if any(self.redactor.text(text) != text for text in texts):
            raise UsageError(
                "a command holds a secret; it would be written to the run. Let it read the secret from a file instead"
            )

    # -- handlers -----------------------------------------------------------------------------------------------------

    def _handlers(self, ledger: Ledger, created: Event) -> Handlers:
        root = self.root_of(ledger.folder)
        if misplaced := elsewhere(ledger.workspace, str(self.project)):
            raise ForeignRun(ledger.folder.id, misplaced)
        if self._override:
            self.keep_models(root, self.directory.settled(self._override))
        models = self.models_of(root, created)

        def route(call: ModelCall) -> Route:
            choice = self.directory.choice_for(models, call.agent, call.role)
            return self.directory.route(choice, self._provider_of(choice, root))

        asking = asks_more(self.facts(created), self._approval_now(created))
        gate = self._gatekeeper(models, asking)
        policy = self.bound_policy(created)

        def tell(note: str) -> None:
            self.face.notice(ledger.folder, note)

        total = policy.max_total_sec if created.payload.get("workflow") == "dag" else math.inf  # S2-50
        keeper = Timekeeper(total, ledger.events)
        caller = Caller(
            ledger,
            route,
            gather=functools.partial(gather, self.project, opened=self._opened(root, created)),
            on_stream=self.face.token,
            on_note=tell,
            budget_usd=models.maxBudgetUsd,
            debug=self._environ.get("DEBUG_LLM_REQUESTS", "").lower() in ("1", "true", "yes"),
        )
        return {
            ModelCall: InTime(caller, keeper),
            RunCommand: Runner(
                self.workshop,
                policy,
                ledger,
                keeper,
                backoff=self.config.retries.backoff_base_sec,
                on_line=self.face.output,
                on_note=tell,
            ),
            AdoptPlan: functools.partial(adopt, approval=asking),
            ProposePatch: gate.propose,
            AutoApprove: gate.grant,
            RefusePatch: gate.refuse,
            ApplyPatch: gate.apply,
            Evaluate: record_evaluation,
        }

    def _approval_now(self, created: Event) -> ApprovalPolicy:
        return self.config.dag.approval if created.payload.get("workflow") == "dag" else self.config.loop.approval

    def _opened(self, root: RunFolder, created: Event) -> tuple[str, ...]:
        """The files that a person opened for the models of a run's whole tree."""
        first = created if created.runId == root.id else read_first(root.events)
        return tuple(first.payload.get("params", {}).get("context", ())) if first else ()

    def _gatekeeper(self, models: Models, approval: ApprovalPolicy | None) -> Gatekeeper:
        place = Place.of(self.base, self.config.paths.runs, self._environ)
        code = code_files(self.config, self.config_path, place, self.directory, models)
        closed = closed_folders(self.config, place)
        return Gatekeeper(self.project, self._watchful, closed=closed, code=code, approval=approval)

    def bound_policy(self, created: Event) -> Policy:
        """What binds a run: its own policy within all those of the runs above it, and what the project says now."""
        above: list[Event] = [created]
        while parent := above[-1].payload.get("parentRunId"):
            first = self.first_of(str(parent))
            if first is None or any(first.runId == event.runId for event in above):
                break
            above.append(first)
        return bound(map(self.facts, above), self.policy, str(self.project))

    def recorded_policy(self, created: Event) -> Policy:
        """What a run recorded when it began; the project's, if it recorded nothing."""
        return recorded(created.payload, str(self.project)) or self.policy

    @functools.cached_property
    def workshop(self) -> Workshop:
        """Where commands run."""
        toolbox = Toolbox(self._environ.get("PATH", ""), self.project, self.config.tools, environ=self._environ)
        return Workshop(
            self.project,
            toolbox,
            runs=self.runs,
            run_as=self.config.sandbox.run_as,
            scratch=scratch_root(self.project, self._environ, open_way=self.config.sandbox.run_as is not None),
            env={name: self._environ[name] for name in self.config.sandbox.env if name in self._environ},
        )

    async def prove_sandbox(self) -> Proof:
        """Whether commands are contained on this machine as the configuration asks; proved anew (`doctor`)."""
        self.consent.require()
        try:
            return await self.workshop.prove(self.policy.tier, redactor=self.redactor, disk=self.disk)
        finally:
            await self.close()

    async def try_sandbox(self) -> None:
        """SandboxError if commands cannot run in this project although the containment holds (`doctor`)."""
        scratch = Scratch(self.workshop.scratch, f"doctor~{os.getpid()}", self.project)
        try:
            await must_run(self.workshop, self.policy, scratch, redactor=self.redactor, disk=self.disk)
        finally:
            scratch.remove()
            await self.close()

    def _task_files(self, folder: RunFolder, disk: Disk) -> tuple[TaskFiles, ...]:
        return (TaskFiles(folder, disk, self.config.telemetry.level),)

    def _before_end(self, ledger: Ledger, verdict: Verdict) -> None:
        """What a run leaves: its report, written before it becomes final (C-26)."""
        end_left_over(ledger.events)
        settle(ledger)
        if ledger.events[0].payload.get("workflow") == "dag":
            write_dag_report(ledger, verdict)
        else:
            write_report(ledger, verdict)
        try:
            Scratch(self.workshop.scratch, ledger.folder.id, self.project).remove()
        except SandboxError:
            pass  # there is no place for scratch folders here, so there is none

    def _provider(self, models: Models, role: str, agent: str = "") -> Provider:
        """Who answers in a role, before there is a run."""
        return self._provider_of(self.directory.choice_for(models, agent or role, role))

    def _provider_of(self, choice: Choice, root: RunFolder | None = None) -> Provider:
        """The provider of a choice; one per run tree, because a script's used replies are the tree's."""
        key = (choice.spec, choice.model, root.id if root else "")
        if key not in self._providers:
            provider = self.directory.make(choice)
            if isinstance(provider, Remembers) and root:
                for call in self._calls_of(root):
                    if call.provider in (choice.spec, UNKNOWN):  # another script's replies are not this one's
                        provider.remember(call)
            self._providers[key] = provider
        return self._providers[key]

    def _calls_of(self, folder: RunFolder) -> Iterator[PastCall]:
        """Every finished model call of a run and of the child runs below it."""
        for one in self.tree(folder):
            events = read_journal(one.events, keep=False).events
            yield from (call for call in past_calls(events) if call.status != "open")

    def board(self, summary: RunSummary) -> Board:
        """Every task of a task graph, as it is now."""
        return board_of(self.graph_events(summary))

    def graph_events(self, summary: RunSummary) -> Events:
        """The events of a run that must be a task graph: whole, if it is ours, for the tasks of a plan are in one."""
        if summary.workflow != "dag":
            raise UsageError(
                f"run {summary.folder.id} has no tasks: it is a {summary.workflow}, not a task graph (orchestra dag). "
                f"What it did: orchestra show {summary.folder.id}"
            )
        return summary.events if summary.foreign else summary.events.whole()

    def report(self, summary: RunSummary) -> Iterator[str]:
        """The report of a run that goes on, as far as it got, line by line."""
        events, status = summary.events, summary.fold.state.status
        if summary.workflow == "dag":
            board = self.board(summary)
            return render_dag(summary.folder, board, events, status=status, message="", ended=events[-1].ts)
        return render(summary.folder, events, status=status, message="")
