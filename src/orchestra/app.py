"""The composition root: what every face (CLI, TUI, web) calls. Builds a project's engine and wires the handlers.

A face tells `App` what a person wants and gets told what happens (`Observer`); it knows no workflow's insides.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import msgspec
from msgspec import Struct

from orchestra.config import Config, find_config, load_config
from orchestra.core import inbox
from orchestra.core.calls import PastCall, past_calls
from orchestra.core.context import Handlers, Verdict
from orchestra.core.disk import ChaosDisk, Disk
from orchestra.core.engine import Engine, RunEnd, Workflow
from orchestra.core.errors import JournalCorrupt, UsageError
from orchestra.core.journal import read_events, read_first
from orchestra.core.ledger import Ledger
from orchestra.core.machine import Fold
from orchestra.core.model import Provider
from orchestra.core.records import FINAL, Event, Role, utc
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder, is_driven
from orchestra.core.work import ApplyPatch, AutoApprove, Evaluate, ModelCall, ProposePatch, RefusePatch, RunCommand
from orchestra.evaluation import record_evaluation
from orchestra.gatekeeper import Gatekeeper, parts_about
from orchestra.providers.calling import Caller, Price, Remembers, Route, Serves
from orchestra.providers.rawfiles import UNKNOWN, settle
from orchestra.providers.replay import ReplayProvider
from orchestra.providers.scripted import ScriptedProvider, load_script
from orchestra.report import write_report
from orchestra.telling import Face, Silent, Told
from orchestra.worker.commands import CommandRunner
from orchestra.workflows.loop.flow import loop
from orchestra.workflows.loop.shapes import Job
from orchestra.workflows.loop.states import TABLE as LOOP_TABLE
from orchestra.workspace import gather

ROLES: tuple[Role, ...] = get_args(Role)
AGENTS = ("asker",)  # who has a name of its own besides its role
KNOWN_LATER = ("claude_code", "openai_compat", "anthropic", "local")


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
    events: list[Event]
    fold: Fold
    driven: bool

    @property
    def created(self) -> Event:
        return self.events[0]

    @property
    def workflow(self) -> str:
        return str(self.created.payload.get("workflow"))

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
        models: Models | None = None,
    ) -> None:
        if not project.is_dir():
            raise UsageError(f"{project} is not a folder; give -C DIR")
        self.project = project.resolve()
        self.config_path = find_config(self.project)
        self.config: Config = load_config(self.config_path)
        self.base = self.config_path.parent if self.config_path else self.project  # of relative paths (G2-10)
        self.face: Face = Told(face or Silent())
        self._override = models  # given on resume: wins over what the run recorded
        self._environ = environ
        chaos = environ.get("ORCHESTRA_CHAOS")
        self.disk: Disk = ChaosDisk.from_spec(chaos) if chaos else Disk()
        self._watchful = Redactor.from_environment(environ)
        self.redactor = self._watchful if self.config.security.redact_secrets else Redactor.blind()
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
            before_end=_before_end,
        )

    # -- starting and driving -----------------------------------------------------------------------------------------

    def start_loop(self, job: Job, models: Models) -> RunFolder:
        """Start a patch loop in this project."""
        models = self._settled(models)
        evaluator = models.spec("evaluator", "evaluator")
        provider = self._provider(evaluator)
        if isinstance(provider, Serves) and not provider.serves("evaluator", "evaluate"):
            job = msgspec.structs.replace(job, evaluator=False)  # a script without a judge configures none
        if not job.checks and not job.evaluator:
            raise UsageError(
                'nothing can decide whether the goal is reached: give --check "CMD", or configure an evaluator'
            )
        for role in ROLES:  # what is wrong with a provider is said before a run exists
            capabilities = self._provider(models.spec(role, role)).capabilities
            if role in ("developer", "fixer") and not capabilities.supportsPatchFirst:  # S1-31
                raise UsageError(
                    f"provider {capabilities.name} cannot write patches; choose another: --role {role}=PROVIDER"
                )
        if unknown := set(models.roles) - {*ROLES, *AGENTS}:
            raise UsageError(
                f"--role {unknown.pop()}: there is no such role or agent; there are {', '.join((*ROLES, *AGENTS))}"
            )
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

        def lasting(spec: str) -> str:
            spec = self.config.providers.get(spec, spec)
            name, _, argument = spec.partition(":")
            if name == "scripted" and argument:
                return f"scripted:{self.base / argument}"
            return f"replay:{self.find(argument).id}" if name == "replay" and argument else spec

        roles = {name: lasting(spec) for name, spec in models.roles.items()}
        return msgspec.structs.replace(models, default=lasting(models.default), roles=roles)

    async def drive(
        self, folder: RunFolder, *, patient: bool = False, accept_drift: frozenset[str] = frozenset()
    ) -> RunEnd:
        """Drive a run, from its root: a child is driven by its parent."""
        return await self.engine.drive(self.root_of(folder), patient=patient, accept_drift=accept_drift)

    def _hide_runs(self) -> None:
        """Runs hold prompts and replies: a project under git must not take them in by accident."""
        ignore = self.project / ".runs" / ".gitignore"
        if not ignore.exists():
            self.disk.publish(ignore, b"*\n", durable=False, mode=0o644)

    def _refuse_secrets(self, job: Job) -> None:
        for argv in job.checks:
            if any(self.redactor.text(word) != word for word in argv):
                raise UsageError(
                    "a check command holds a secret; it would be written to the run. Pass it by environment variable"
                )

    # -- handlers -----------------------------------------------------------------------------------------------------

    def _handlers(self, ledger: Ledger, created: Event) -> Handlers:
        recorded = msgspec.convert(created.payload.get("models", {}), Models)
        models = self._settled(self._override) if self._override else recorded
        root = self.root_of(ledger.folder)

        def route(call: ModelCall) -> Route:
            spec = models.spec(call.agent, call.role)
            price = self.config.budget.prices.get(models.model)
            return Route(
                provider=self._provider(spec, root),
                name=spec,
                model=models.model,
                price=Price(price.input, price.output) if price else Price(),
            )

        gate = Gatekeeper(self.project, self._watchful)
        caller = Caller(
            ledger,
            route,
            gather=lambda hints: gather(self.project, hints),
            on_stream=self.face.token,
            budget_usd=models.maxBudgetUsd,
        )
        return {
            ModelCall: caller,
            RunCommand: CommandRunner(self.project, self._environ, self._watchful),
            ProposePatch: gate.propose,
            AutoApprove: gate.grant,
            RefusePatch: gate.refuse,
            ApplyPatch: gate.apply,
            Evaluate: record_evaluation,
        }

    def _provider(self, spec: str, root: RunFolder | None = None) -> Provider:
        """The provider a spec names; one per run tree, because a script's used replies are the tree's."""
        key = (spec, root.id if root else "")
        if key not in self._providers:
            provider = self._make_provider(spec)
            if isinstance(provider, Remembers) and root:
                for call in self._calls_of(root):
                    if call.provider in (spec, UNKNOWN):  # another script's replies are not this one's
                        provider.remember(call)
            self._providers[key] = provider
        return self._providers[key]

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

    def _calls_of(self, folder: RunFolder) -> Iterator[PastCall]:
        """Every finished model call of a run and of the child runs below it."""
        events = read_events(folder.events)
        yield from (call for call in past_calls(events) if call.status != "open")
        for event in events:
            if event.type == "PHASE_STARTED" and "childRunId" in event.payload:
                child = self._child(event.payload["workflow"], event.payload["childRunId"])
                if read_first(child.events) is not None:
                    yield from self._calls_of(child)

    # -- finding runs -------------------------------------------------------------------------------------------------

    def folders(self) -> list[RunFolder]:
        """Every run of this project that was started, oldest first."""
        found: list[tuple[str, RunFolder]] = []
        for root in dict.fromkeys(workflow.root for workflow in self.workflows.values()):
            for name in (n for n in os.listdir(root) if not n.startswith(".")) if root.is_dir() else ():
                folder = RunFolder(root / name)
                if (began := _began(folder)) is not None:
                    found.append((began, folder))
        return [folder for _, folder in sorted(found, key=lambda entry: (entry[0], entry[1].id))]

    def find(self, reference: str) -> RunFolder:
        """A run by its id, a unique prefix of it, or `last`."""
        if not reference:
            raise UsageError("the run's id is empty; give an id, a unique prefix of one, or `last`")
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
        events = read_events(folder.events)
        return RunSummary(folder, events, Fold.of(events), is_driven(folder))

    def family(self, folder: RunFolder) -> list[RunSummary]:
        """A run and the open child runs below it, itself first."""
        summary = self.summary(folder)
        return [summary, *(run for child in summary.fold.children.values() for run in self.family(self._child(*child)))]

    def _child(self, workflow: str, run_id: str) -> RunFolder:
        return RunFolder(self.workflows[workflow].root / run_id)

    def patches(self, folder: RunFolder) -> list[str]:
        """The patch a run waits with, or else every patch it applied, as far as a person took it."""
        summary = self.summary(folder)
        asked = [e for e in summary.fold.pending.values() if e.type == "APPROVAL_REQUESTED"]
        taken = [(e.payload["patch"]["path"], e.payload["files"]) for e in asked]
        if not taken:
            made = {
                e.iteration: e.payload["outcome"]["patch"]["path"] for e in summary.events if e.type == "PATCH_PRODUCED"
            }
            applied = [e for e in summary.events if e.type == "PATCH_APPLIED"]
            taken = [(made[e.iteration], e.payload["outcome"]["after"]) for e in applied]
        return [self._patch(folder.path / path, {file["path"] for file in files}) for path, files in taken]

    def _patch(self, file: Path, paths: set[str]) -> str:
        try:
            return parts_about(file.read_text(encoding="utf-8", errors="replace"), paths)
        except FileNotFoundError:
            raise UsageError(f"{file} is gone; the raw reply beside it may still hold the patch") from None

    def summaries(self) -> list[RunSummary]:
        """Every readable run."""
        return [summary for _, summary in self.overview() if isinstance(summary, RunSummary)]

    def overview(self) -> Iterator[tuple[RunFolder, RunSummary | JournalCorrupt]]:
        """Every run, oldest first; of a damaged one, what is wrong with it."""
        for folder in self.folders():
            try:
                yield folder, self.summary(folder)
            except JournalCorrupt as damage:
                yield folder, damage

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
        self._deliver(folder, name, message)
        return name

    def reject(self, folder: RunFolder, *, reason: str, end: bool = False, by: str = "") -> str:
        """Record a rejection; the reason goes to the fixer, or with `end` the run ends."""
        if not reason.strip():
            raise UsageError("the reason is empty; the fixer needs to know what is wrong: --reason TEXT")
        name, request = self._pending(folder, "APPROVAL_REQUESTED")
        message = inbox.message("reject", by or who(), text=reason, digest=request.payload["digest"], end=end)
        self._deliver(folder, name, message)
        return name

    def answer(self, folder: RunFolder, text: str, *, by: str = "") -> str:
        """Record an answer to the pending question."""
        if not text.strip():
            raise UsageError("the answer is empty; say something: orchestra answer RUN TEXT")
        name, _ = self._pending(folder, "QUESTION_RAISED")
        self._deliver(folder, name, inbox.message("answer", by or who(), text=text))
        return name

    def ask_to_cancel(self, folder: RunFolder, *, reason: str = "", by: str = "") -> None:
        """Record a cancel; whoever drives the run (or the caller, next) ends it."""
        status = self.summary(folder).fold.state.status
        if status in FINAL.values():
            raise UsageError(f"run {folder.id} is already {status}")
        if inbox.read(folder, inbox.CANCEL) is None:  # an earlier canceller may have been killed before it could act
            self._deliver(folder, inbox.CANCEL, inbox.message("cancel", by or who(), text=reason))

    def _deliver(self, folder: RunFolder, name: str, message: inbox.Message) -> None:
        inbox.deliver(folder, name, message, disk=self.disk, redactor=self.redactor)

    def _pending(self, folder: RunFolder, kind: str) -> tuple[str, Event]:
        fold = self.summary(folder).fold
        for name, event in {**inbox.waiting(folder, fold.pending), **fold.pending}.items():  # unanswered ones first
            if event.type == kind:
                return name, event
        what = "approval" if kind == "APPROVAL_REQUESTED" else "answer"
        other = next(iter(fold.pending.values()), None)
        hint = ""
        if other is not None:
            verb = "answer" if other.type == "QUESTION_RAISED" else "approve"
            hint = f"; it waits for something else: orchestra {verb} {folder.id}"
        raise UsageError(f"run {folder.id} waits for no {what} (status {fold.state.status}){hint}")


_WAYS = (
    "In this release: --provider scripted:FILE (replies from a file), --provider replay:RUN (a recorded run), "
    "or `make demo` to see one work"
)


def _before_end(ledger: Ledger, verdict: Verdict) -> None:
    settle(ledger)
    write_report(ledger, verdict)


def _began(folder: RunFolder) -> str | None:
    """When a run began; None if this is no run. A damaged run is still a run: its file's time must do."""
    try:
        created = read_first(folder.events)
        return created.ts if created else None
    except JournalCorrupt:
        return utc(datetime.fromtimestamp(folder.events.stat().st_mtime, UTC))
    except OSError:
        return None


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
