"""The composition root: what every face (CLI, TUI, web) calls. Builds a project's engine and wires the handlers.

A face tells `App` what a person wants and gets told what happens (`Observer`); it knows no workflow's insides.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from orchestra.config import Config, find_config, load_config
from orchestra.core import inbox
from orchestra.core.context import Handlers
from orchestra.core.disk import ChaosDisk, Disk
from orchestra.core.effects import ApplyPatch, AutoApprove, Evaluate, ModelCall, ProposePatch, RefusePatch, RunCommand
from orchestra.core.engine import Engine, Observer, RunEnd, Workflow
from orchestra.core.errors import JournalCorrupt, UsageError
from orchestra.core.journal import read_events, read_first
from orchestra.core.ledger import Ledger
from orchestra.core.machine import Fold
from orchestra.core.model import Provider
from orchestra.core.records import FINAL, Event
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder, is_driven
from orchestra.gatekeeper import Gatekeeper
from orchestra.providers.calling import Caller, Price, Remembers, Route, Serves, past_calls
from orchestra.providers.replay import ReplayProvider
from orchestra.providers.scripted import ScriptedProvider, load_script
from orchestra.report import record_evaluation, write_report
from orchestra.worker.commands import CommandRunner
from orchestra.workflows.loop.flow import loop
from orchestra.workflows.loop.shapes import Job
from orchestra.workflows.loop.states import TABLE as LOOP_TABLE
from orchestra.workspace import gather

KNOWN_LATER = ("claude_code", "openai_compat", "anthropic", "local")


class Face(Observer, Protocol):
    """What the app tells a face."""

    def token(self, key: str, text: str) -> None: ...


class Silent:
    """A face that wants to hear nothing."""

    def launched(self, folder: RunFolder, workflow: str) -> None:
        pass

    def event(self, event: Event) -> None:
        pass

    def waiting(self, folder: RunFolder, request: Event) -> None:
        pass

    def token(self, key: str, text: str) -> None:
        pass


class Models(Struct, frozen=True, omit_defaults=True):
    """Which provider answers: by agent name, then by role, then the default (D-13). Frozen in RUN_CREATED."""

    default: str = ""
    roles: dict[str, str] = {}
    model: str = ""
    maxBudgetUsd: float | None = None

    def spec(self, agent: str, role: str) -> str:
        return self.roles.get(agent) or self.roles.get(role) or self.default


class RunSummary(Struct, frozen=True):
    """One line of `orchestra runs`."""

    folder: RunFolder
    created: Event
    fold: Fold
    driven: bool

    @property
    def parent(self) -> str | None:
        parent = self.created.payload.get("parentRunId")
        return str(parent) if parent else None


class App:
    """One project folder, opened."""

    def __init__(
        self,
        project: Path,
        *,
        face: Face | None = None,
        environ: Mapping[str, str] = os.environ,
        config_path: Path | None = None,
        models: Models | None = None,
    ) -> None:
        if not project.is_dir():
            raise UsageError(f"{project} is not a folder; give -C DIR")
        self.project = project.resolve()
        self.config_path = config_path or find_config(self.project)
        self.config: Config = load_config(self.config_path)
        self.base = self.config_path.parent if self.config_path else self.project  # of relative paths (G2-10)
        self.face: Face = face or Silent()
        self._override = models  # given on resume: wins over what the run recorded
        self._environ = environ
        chaos = environ.get("ORCHESTRA_CHAOS")
        self.disk: Disk = ChaosDisk.from_spec(chaos) if chaos else Disk()
        self.redactor = Redactor.from_environment(environ) if self.config.security.redact_secrets else Redactor.blind()
        self._providers: dict[tuple[str, str], Provider] = {}
        self.workflows = {
            "loop": Workflow("loop", self.project / ".runs" / "workflows", LOOP_TABLE, Job, loop),  # S1-100
        }
        self.engine = Engine(
            self.workflows,
            disk=self.disk,
            redactor=self.redactor,
            observer=self.face,
            handlers_for=self._handlers,
            before_end=write_report,
        )

    # -- starting and driving -----------------------------------------------------------------------------------------

    def start_loop(self, job: Job, models: Models) -> RunFolder:
        """Start a patch loop in this project."""
        models = self._settled(models)
        evaluator = models.spec("evaluator", "evaluator")
        provider = self._provider(evaluator, run="")
        if isinstance(provider, Serves) and not provider.serves("evaluator", "evaluate"):
            job = msgspec.structs.replace(job, evaluator=False)  # a script without a judge configures none
        if not job.checks and not job.evaluator:
            raise UsageError(
                'nothing can decide whether the goal is reached: give --check "CMD", or configure an evaluator'
            )
        for role in ("planner", "developer", "fixer"):
            self._provider(models.spec(role, role), run="")  # a wrong provider is found before a run exists
        self._refuse_secrets(job)
        facts = {
            "goal": job.goal,
            "approval": job.approval,
            "maxFixIterations": job.maxFixIterations,
            "models": msgspec.to_builtins(models),
            "workspace": str(self.project),
        }
        self._hide_runs()
        return self.engine.start("loop", job.goal, msgspec.to_builtins(job), facts)

    def _settled(self, models: Models) -> Models:
        """Specs that mean the same from anywhere and tomorrow: configured names, run ids, absolute paths."""

        def settle(spec: str) -> str:
            spec = self.config.providers.get(spec, spec)
            name, _, argument = spec.partition(":")
            if name == "scripted" and argument:
                return f"scripted:{self.base / argument}"
            return f"replay:{self.find(argument).id}" if name == "replay" and argument else spec

        roles = {name: settle(spec) for name, spec in models.roles.items()}
        return msgspec.structs.replace(models, default=settle(models.default), roles=roles)

    async def drive(
        self, folder: RunFolder, *, patient: bool = False, accept_drift: frozenset[str] = frozenset()
    ) -> RunEnd:
        """Drive a run, from its root: a child is driven by its parent."""
        return await self.engine.drive(self.root_of(folder), patient=patient, accept_drift=accept_drift)

    def _hide_runs(self) -> None:
        """Runs hold prompts and replies: a project under git must not take them in by accident."""
        ignore = self.project / ".runs" / ".gitignore"
        if not ignore.exists():
            ignore.parent.mkdir(exist_ok=True)
            ignore.write_text("*\n")

    def _refuse_secrets(self, job: Job) -> None:
        for argv in job.checks:
            if any(self.redactor.text(word) != word for word in argv):
                raise UsageError(
                    "a check command holds a secret; it would be written to the run. Pass it by environment variable"
                )

    # -- handlers -----------------------------------------------------------------------------------------------------

    def _handlers(self, ledger: Ledger, created: Event) -> Handlers:
        models = self._override or msgspec.convert(created.payload.get("models", {}), Models)
        root = self.root_of(ledger.folder)

        def route(call: ModelCall) -> Route:
            spec = models.spec(call.agent, call.role)
            price = self.config.budget.prices.get(models.model)
            return Route(
                provider=self._provider(spec, run=root.id),
                name=spec.partition(":")[0],
                model=models.model,
                price=Price(price.input, price.output) if price else Price(),
            )

        gate = Gatekeeper(self.project)
        caller = Caller(
            ledger,
            route,
            gather=lambda hints: gather(self.project, hints),
            on_stream=self.face.token,
            budget_usd=models.maxBudgetUsd,
        )
        return {
            ModelCall: caller,
            RunCommand: CommandRunner(self.project, self._environ, self.redactor),
            ProposePatch: gate.propose,
            AutoApprove: gate.grant,
            RefusePatch: gate.refuse,
            ApplyPatch: gate.apply,
            Evaluate: record_evaluation,
        }

    def _provider(self, spec: str, *, run: str) -> Provider:
        """The provider a spec names; one per run tree, because a script's used replies are the tree's."""
        if (spec, run) not in self._providers:
            provider = self._make_provider(spec)
            if isinstance(provider, Remembers) and run:
                self._remember(provider, self.find(run))
            self._providers[spec, run] = provider
        return self._providers[spec, run]

    def _make_provider(self, spec: str) -> Provider:
        name, _, argument = spec.partition(":")
        match name:
            case "scripted" if argument:
                return ScriptedProvider(load_script(self.base / argument), name=argument)
            case "replay" if argument:
                return ReplayProvider(self.find(argument))
            case "":
                raise UsageError(f"no model provider is configured. {_WAYS}")
            case _ if name in KNOWN_LATER:
                raise UsageError(f"provider {name!r} is not in this release yet. {_WAYS}")
            case "scripted" | "replay":
                raise UsageError(f"provider {name!r} needs an argument. {_WAYS}")
            case _:
                raise UsageError(f"unknown provider {name!r}. {_WAYS}")

    def _remember(self, provider: Remembers, folder: RunFolder) -> None:
        events = read_events(folder.events)
        for call in past_calls(events):
            if call.raw is not None and call.status != "open":
                provider.remember(call.raw.sha256, call.error)
        for event in events:
            if event.type == "PHASE_STARTED" and "childRunId" in event.payload:
                child = RunFolder(self.workflows[event.payload["workflow"]].root / event.payload["childRunId"])
                if read_first(child.events) is not None:
                    self._remember(provider, child)

    # -- finding runs -------------------------------------------------------------------------------------------------

    def folders(self) -> list[RunFolder]:
        """Every run of this project that was started, oldest first."""
        found: list[tuple[str, RunFolder]] = []
        for root in dict.fromkeys(workflow.root for workflow in self.workflows.values()):
            for name in os.listdir(root) if root.is_dir() else ():
                folder = RunFolder(root / name)
                try:
                    created = read_first(folder.events)
                except (OSError, msgspec.DecodeError):
                    created = None  # not a run, or one whose first line is damaged: `verify` names that
                if created is not None:
                    found.append((created.ts, folder))
        return [folder for _, folder in sorted(found, key=lambda entry: (entry[0], entry[1].id))]

    def find(self, reference: str) -> RunFolder:
        """A run by its id, a unique prefix of it, or `last`."""
        folders = self.folders()
        if reference == "last":
            if folders:
                return folders[-1]
            raise UsageError(f'no run in {self.project} yet; start one: orchestra loop "GOAL" --check "CMD"')
        matches = [f for f in folders if f.id == reference] or [f for f in folders if f.id.startswith(reference)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            shown = "".join(f"\n  {f.id}" for f in matches[:10])
            raise UsageError(f"{reference!r} fits {len(matches)} runs; give more of the id:{shown}")
        raise UsageError(
            f"no run {reference!r} in {self.project} (orchestra runs lists them; -C DIR names another project)"
        )

    def root_of(self, folder: RunFolder) -> RunFolder:
        """The run at the top of this run's tree."""
        created = read_first(folder.events)
        parent = created.payload.get("parentRunId") if created else None
        return self.root_of(self.find(parent)) if parent else folder

    def summary(self, folder: RunFolder) -> RunSummary:
        """What a run is now, folded from its journal."""
        fold, events = Fold(), read_events(folder.events)
        for event in events:
            fold.add(event)
        return RunSummary(folder, events[0], fold, is_driven(folder))

    def summaries(self) -> list[RunSummary]:
        """Every readable run; a damaged one is left to `verify`."""
        found = []
        for folder in self.folders():
            try:
                found.append(self.summary(folder))
            except JournalCorrupt:
                continue
        return found

    # -- people -------------------------------------------------------------------------------------------------------

    def approve(self, folder: RunFolder, *, digest: str = "", only: tuple[str, ...] = (), by: str = "") -> str:
        """Record a grant for the pending approval; returns its id."""
        name, request = self._pending(folder, "APPROVAL_REQUESTED")
        wanted = request.payload["digest"]
        if digest and digest != wanted:  # D-11
            raise UsageError(
                f"run {folder.id}: the patch now waiting is {wanted}, not {digest}; "
                f"look again: orchestra diff {folder.id}"
            )
        known = {file["path"] for file in request.payload["files"]}
        for path in only:
            if path not in known:
                raise UsageError(f"{path!r} is not in this patch; it touches: {', '.join(sorted(known))}")
        message = inbox.message("approve", by or who(), digest=wanted, accepted=only)
        inbox.deliver(folder, name, message, self.disk)
        return name

    def reject(self, folder: RunFolder, *, reason: str, end: bool = False, by: str = "") -> str:
        """Record a rejection; the reason goes to the fixer, or with `end` the run ends."""
        if not reason.strip():
            raise UsageError("the reason is empty; the fixer needs to know what is wrong: --reason TEXT")
        name, request = self._pending(folder, "APPROVAL_REQUESTED")
        message = inbox.message("reject", by or who(), text=reason, digest=request.payload["digest"], end=end)
        inbox.deliver(folder, name, message, self.disk)
        return name

    def answer(self, folder: RunFolder, text: str, *, by: str = "") -> str:
        """Record an answer to the pending question."""
        if not text.strip():
            raise UsageError("the answer is empty; say something: orchestra answer RUN TEXT")
        name, _ = self._pending(folder, "QUESTION_RAISED")
        inbox.deliver(folder, name, inbox.message("answer", by or who(), text=text), self.disk)
        return name

    def ask_to_cancel(self, folder: RunFolder, *, reason: str = "", by: str = "") -> None:
        """Record a cancel; whoever drives the run (or the caller, next) ends it."""
        status = self.summary(folder).fold.state.status
        if status in FINAL.values():
            raise UsageError(f"run {folder.id} is already {status}")
        inbox.deliver(folder, inbox.CANCEL, inbox.message("cancel", by or who(), text=reason), self.disk)

    def _pending(self, folder: RunFolder, kind: str) -> tuple[str, Event]:
        fold = self.summary(folder).fold
        for name, event in fold.pending.items():
            if event.type == kind:
                return name, event
        what = "approval" if kind == "APPROVAL_REQUESTED" else "answer"
        other = next(iter(fold.pending.values()), None)
        hint = ""
        if other is not None:
            verb = "answer" if other.type == "QUESTION_RAISED" else "approve or reject"
            hint = f"; it waits for something else: orchestra {verb.split()[0]} {folder.id}"
        raise UsageError(f"run {folder.id} waits for no {what} (status {fold.state.status}){hint}")


_WAYS = (
    "In this release: --provider scripted:FILE (replies from a file), --provider replay:RUN (a recorded run), "
    "or `make demo` to see one work"
)


def who() -> str:
    """The person at this terminal, as events name them."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"


def routing(config: Config, *, provider: str, roles: Mapping[str, str], model: str, budget: float | None) -> Models:
    """Flags over configuration: which model answers for whom."""
    default = provider or config.providers.get("default", "")
    return Models(
        default=default, roles={**config.roles, **roles}, model=model, maxBudgetUsd=budget or config.budget.max_usd
    )
