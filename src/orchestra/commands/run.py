"""The runner: handler of `RunCommand`. Commands of all workflows run here, as L3 tasks of one worker (D-09).

decide (policy/) → find the tool (commands/tools.py) → wrap and run (worker/) → read what it wrote (worker/layer.py) →
outcome

Rules
1. A command that the policy forbids does not run. A command runs without a sandbox only if the configuration sets
   the tier `none`, and that is recorded. The sandbox is proved on this machine before the first command
   (worker/probe.py).
2. The process exists, contained and blocked, before its intent is written. The intent records its pid and start time. A
   later process uses them to end what an earlier process left (MS-3.4).
3. The environment consists of the sandbox's own variables, those that the configuration passes on, and the task's
   `inputs.env` (S2-136).
4. A command writes into a copy of the workspace. What it wrote is deleted, kept as a private layer for later commands
   (build output, caches), or, for an `rw` task, made into a patch for the gate. The workspace itself is not changed
   here (C-14).
5. The smallest limit wins: the task's, the policy's, or what is left of the run's total time (S2-49, S2-50, S2-113).
6. `RunCommand.keeps` tells checks, tasks of a graph and tool calls apart. `RunCommand.asker` records whether a person
   or a model asked for the command. Neither is inferred.
7. The outcome of a check that failed for lack of its environment records that, and the cure (commands/failures.py).
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from orchestra.commands.clock import Timekeeper
from orchestra.commands.failures import (
    EnvironmentFailure,
    denials_of,
    environment_failure,
    missing_tool,
    refused_service,
)
from orchestra.commands.grants import Grants
from orchestra.commands.handed import INPUTS, KEPT, Handed, materialised
from orchestra.commands.runners import NODE_OFFLINE, OFFLINE
from orchestra.commands.sandbox import RefusedCommand, Workshop
from orchestra.commands.scratch import Scratch
from orchestra.commands.surroundings import ProjectFiles, listening_ports
from orchestra.commands.tools import Tool, together
from orchestra.context.leftovers import Leftovers, builds, keepable, missed
from orchestra.context.treehash import tested_tree
from orchestra.core.command import NOT_GRANTED, CommandOutcome, Denied, RunCommand, Stage, output_files
from orchestra.core.context import Step
from orchestra.core.effects import ChildRun
from orchestra.core.errors import PolicyError, SandboxError, StepFailed, UsageError
from orchestra.core.faces import Face, Notice, Output
from orchestra.core.ledger import Ledger
from orchestra.core.model import PATCH_BEGIN, PATCH_END
from orchestra.core.reading import StepEvent, effect_of, key_of
from orchestra.core.records import ArtifactRef, Event, utf8
from orchestra.core.run import RunFolder, digest
from orchestra.core.work import TOTAL_TIME, Reply
from orchestra.patch.written import diff_of
from orchestra.policy.policy import Policy, TaskWishes, for_task
from orchestra.policy.policy import digest as policy_digest
from orchestra.worker.capture import shared_excerpt
from orchestra.worker.kept import fold, prune
from orchestra.worker.launcher import PROXY_PORT, Held
from orchestra.worker.layer import changes
from orchestra.worker.leftover import kill_left_over
from orchestra.worker.outputs import TRAY_MODE, Tray, collect
from orchestra.worker.proxy import Proxy
from orchestra.worker.reach import explained
from orchestra.worker.removal import discard
from orchestra.worker.task import EXCERPT, MIB, Artifact, Command, CommandResult, Sandbox

OUT = "ORCHESTRA_ARTIFACTS"  # the variable with the folder whose files are kept after the command
FOLDER = "{artifacts}"  # stands for that folder in the words and variables of a test run
_LAYERS = 16
_KEPT = MIB  # bytes of a stream in the artifact, of a command with `keep` (S5: its output buffer)


class _Ready(Struct):
    """A command between its preparation and its end."""

    held: Held | None = None
    problem: str = ""
    code: str = "NOT_STARTED"
    missing: bool = False  # its program was not found
    folder: Path | None = None  # its scratch folder, if it has a layer or input files
    tray: Tray | None = None  # the folder for a task's result files
    artifacts: str = ""  # where the result files are kept
    since_ns: int = 0
    layers: tuple[Path, ...] = ()  # private layers of the tasks before it
    writes: bool = False  # its changes become a patch
    tree: str = ""  # of a test run: the digest of the files it runs on
    passing: bool = False  # its scratch folder is deleted when it has ended
    inputs: Path | None = None  # what earlier tasks handed over to it


class Runner:
    """Handler of RunCommand for one run."""

    def __init__(
        self,
        workshop: Workshop,
        policy: Policy,
        ledger: Ledger,
        keeper: Timekeeper,
        *,
        backoff: float,
        face: Face,
    ) -> None:
        self._shop = workshop
        self._policy = policy
        self._ledger = ledger
        self._keeper = keeper
        self._backoff = backoff
        self._face = face
        self._noted: set[str] = set()
        self._scratch = Scratch(workshop.scratch, ledger.folder.id, workshop.project, workshop.workspace)
        self._ready: dict[str, _Ready] = {}
        self._tray_numbers = itertools.count(1)
        # trays that were not written to and can be used again: most tasks leave no files
        self._untouched: list[Tray] = []
        self._policies: dict[TaskWishes, tuple[Policy, str]] = {}
        self._granted = Grants(ledger)
        self._handed = Handed(ledger, self._scratch, workshop.run_as)

    async def pause(self, seconds: float, key: str) -> None:
        await self._keeper.pause(seconds, key)

    # -- before the intent is written ---------------------------------------------------------------------------------

    async def prepare(self, effect: RunCommand, key: str, left: Event | None) -> Mapping[str, Any]:
        """Start the process, blocked (rule 2), and return its pid and start time for the intent."""
        if left is not None and (started := StepEvent.of(left).started):
            kill_left_over(*started)
        if effect.dry:
            return {}
        ready = self._ready[key] = await self._make_ready(effect, key)
        if ready.held is None or not ready.held.pid:
            return {}
        process = {"pid": ready.held.pid, "startTime": ready.held.start_time}
        return {"process": process, "tier": self._policy.tier, "policy": self._bound(effect)[1]}

    def _bound(self, effect: RunCommand) -> tuple[Policy, str]:
        """The policy for this command, and its digest: the run's policy, narrowed to what the command needs."""
        net: Literal["allow", "deny"] = "allow" if effect.net else "deny"
        wishes = TaskWishes(max_duration_sec=effect.timeoutMs / 1000, fs=effect.fs, net=net)
        if wishes not in self._policies:
            policy = for_task(self._policy, wishes)
            self._policies[wishes] = policy, policy_digest(policy)
        return self._policies[wishes]

    async def drop(self, key: str) -> None:
        """End the blocked process, because its intent could not be written."""
        ready = self._ready.pop(key, None)
        if ready is not None and ready.held is not None:
            await ready.held.drop()

    async def _make_ready(self, effect: RunCommand, key: str) -> _Ready:
        if not self._keeper.left:
            if self._keeper.asked:
                raise self._keeper.over(key)
            return _Ready(problem="the run's total time was used up before it could begin", code=TOTAL_TIME)
        await self._shop.must_hold(self._policy.tier, self._scratch)
        for line in self._shop.introduction():
            self._note(line)
        tools = self._shop.resolve(effect, self._policy, granted=self._granted)
        if isinstance(tools, RefusedCommand):
            return _Ready(problem=tools.problem, code=tools.code, missing=tools.missing)
        tool = together(tools)
        self._note(tool.note)
        bound, _ = self._bound(effect)
        writes = effect.keeps == "files" and bound.fs == "rw"
        if writes and bound.tier != "strict":
            why = f"`fs: rw` needs tier strict: tier {bound.tier} cannot keep its changes apart to make a patch of them"
            return _Ready(problem=why, code=PolicyError.code)
        try:
            inputs = self._handed.folder(effect) if effect.after else None
        except UsageError as lost:
            return _Ready(problem=str(lost))
        folder = self._folder(effect, key, writes=writes)
        below = self._below(effect)
        files = (materialised(folder / "files", effect.files),) if folder and effect.files else ()
        upper = folder if bound.tier == "strict" and (writes or effect.keeps != "files") else None
        sandbox = self._shop.sandbox(bound, tool, upper=upper, layers=(*below, *files))
        stem = str(self._ledger.folder.artifact(effect.artifact))
        artifacts = stem.removesuffix(".txt") if effect.keeps == "layer" else stem
        tray = self._tray(artifacts) if effect.keeps == "files" or effect.reports else None
        if tray:
            sandbox = msgspec.structs.replace(sandbox, writes=(*sandbox.writes, (tray.path, artifacts)))
        if inputs:
            sandbox = msgspec.structs.replace(sandbox, reads=(*sandbox.reads, str(inputs)))
        stdout, *stderr = output_files(stem, key, effect.keeps)
        tree = await asyncio.to_thread(tested_tree, self._shop.workspace) if effect.reports else ""
        held = await self._shop.launcher.prepare(
            self._command(effect, tools, sandbox, artifacts, bound.max_task_sec, inputs),
            sandbox,
            stdout,
            stderr[0] if stderr else None,
            on_line=lambda line: self._face.tell(Output(self._ledger.folder.id, key, line)),
            proxy=lambda listener: Proxy(listener, sandbox.domains),
        )
        return _Ready(
            held=held,
            folder=folder,
            tray=tray,
            artifacts=artifacts,
            since_ns=time.time_ns(),
            layers=below,
            writes=writes,
            passing=effect.keeps == "nothing",
            inputs=inputs,
            tree=tree,
        )

    def _folder(self, effect: RunCommand, key: str, *, writes: bool) -> Path | None:
        """The scratch folder for a command's layer and input files; None if it has neither, like most tasks."""
        if effect.keeps == "layer":
            return self._checks()
        if effect.keeps == "nothing":
            return self._scratch.fresh(f"call~{digest(key.encode())[7:19]}")
        if writes or effect.files:
            return self._scratch.fresh(effect.task)
        self._scratch.clear(effect.task)
        return None

    def _tray(self, artifacts: str) -> Tray:
        """An empty folder for a task's result files. The sandbox mounts it at the path of the task's artifacts."""
        try:  # bwrap cannot make the mount point inside a folder that is mounted for reading
            os.mkdir(artifacts)
        except OSError:
            os.makedirs(artifacts, exist_ok=True)
        if self._untouched:
            return self._untouched.pop()
        folder = self._scratch.fresh(f"tray~{next(self._tray_numbers)}", mode=TRAY_MODE)
        run_as = self._shop.run_as
        if run_as is not None and os.geteuid() == 0:
            os.chown(folder, run_as, run_as)
        return Tray.of(str(folder))

    def _checks(self) -> Path:
        """The folder that checks write into. It keeps the build output of earlier checks until a patch is applied."""
        state = str(sum(_changes_files(event) for event in self._ledger.events))
        folder, gone = self._scratch.used("checks", state=state)
        if gone:
            one = "one check (sh -c 'make && ./test') or in a build folder"
            self._note(f"later checks do not see {', '.join(gone[:3])}, which a check wrote: do it in {one}")
        return folder

    def _note(self, note: str) -> None:
        if note and note not in self._noted:
            self._noted.add(note)
            self._face.tell(Notice(self._ledger.folder.id, note))

    def _command(
        self,
        effect: RunCommand,
        tools: tuple[Tool, ...],
        sandbox: Sandbox,
        artifacts: str,
        max_sec: float,
        inputs: Path | None,
    ) -> Command:

        def placed(word: str) -> str:
            return word.replace(FOLDER, artifacts) if effect.reports else word

        env = {**self._shop.environment(together(tools)), **{name: placed(value) for name, value in effect.env}}
        if effect.keeps == "files" or effect.reports:
            env[OUT] = artifacts
        if inputs:
            env[INPUTS] = str(inputs)
        if self._shop.toolbox.environment and not sandbox.domains:
            env |= OFFLINE
        if not sandbox.domains and os.path.isfile(f"{self._shop.workspace}/package.json"):
            env |= NODE_OFFLINE
        if sandbox.domains:
            address = f"http://127.0.0.1:{PROXY_PORT}"
            env |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), address)
        first, *then = (
            Stage((tool.path, *map(placed, stage.argv[1:])), stage.errors)
            for tool, stage in zip(tools, effect.stages, strict=True)
        )
        command = Command(
            argv=first.argv,
            cwd=str(self._shop.workspace),
            env=env,
            timeout_ms=math.ceil(1000 * min(max_sec, self._keeper.left)),  # rule 5
            errors=first.errors,
            then=tuple(then),
        )
        if effect.keep:
            return msgspec.structs.replace(command, excerpt_characters=effect.keep, capture_limit=_KEPT)
        return command

    # -- after --------------------------------------------------------------------------------------------------------

    async def __call__(self, effect: RunCommand, step: Step) -> CommandOutcome:
        """Release the blocked process, wait for it, and return its outcome."""
        if effect.dry:
            return CommandOutcome(_shown(effect), None, "not_run", 0, False, "")
        ready = self._ready.pop(step.key)
        if ready.held is None:
            if effect.keeps == "nothing" and ready.code in (PolicyError.code, NOT_GRANTED):
                # the flow decides what to do about a refused call
                raise StepFailed(step.key, ready.code, ready.problem)
            outcome = CommandOutcome(_shown(effect), None, "not_run", 0, False, "", error=ready.problem)
            if effect.keeps == "layer" and ready.missing:
                outcome = _blocked(outcome, missing_tool(effect.argv, ready.problem, self._surroundings()))
            return self._judged(effect, step, outcome, ready.code)
        try:
            with self._keeper.working():
                result = await ready.held.run()
        finally:
            if ready.passing and ready.folder is not None:
                discard(ready.folder)
            if ready.inputs is not None:
                discard(ready.inputs)
        if result.timedOut and self._keeper.asked and not self._keeper.left:
            raise self._keeper.over(step.key)  # not the command's own limit: it is run again when there is time
        if result.refused:
            raise SandboxError(explained(result.error or "", self._shop.workspace, self._shop.run_as))
        return self._judged(effect, step, self._outcome(effect, step, result, ready), _code(result))

    def _outcome(self, effect: RunCommand, step: Step, result: CommandResult, ready: _Ready) -> CommandOutcome:
        folder = self._ledger.folder
        refs = tuple(_ref(artifact, folder) for artifact in result.artifacts)
        error = result.error or ("" if result.signal is None else f"ended by signal {result.signal}")
        if result.limit and result.limit != "time":
            error = f"ended at its {result.limit} limit"
        passed = result.exitCode == 0 and not result.timedOut
        changed: Reply | None = None
        untaken: tuple[Denied, ...] = ()
        handed: tuple[ArtifactRef, ...] = ()
        if ready.tray is not None:
            taken = passed and effect.keeps == "files"
            changed, untaken = self._take_changes(effect, step, ready) if taken else (None, ())
            handed, left = self._collect(ready.tray, ready.artifacts)
            untaken += left
            self._handed.took(effect.task, handed)
        outcome = CommandOutcome(
            command=_shown(effect),
            exitCode=result.exitCode,
            status="not_run" if result.error else "pass" if passed else "fail",
            durationMs=result.durationMs,
            timedOut=result.timedOut,
            output="" if effect.keep else self._output(result),
            artifact=refs[0] if refs and effect.keeps == "layer" else None,
            error=error,
            artifacts=(*refs, *handed) if effect.keeps != "layer" else handed,
            limit=result.limit or "",
            denials=denials_of(effect, result, passed=passed),
            changes=changed,
            untaken=untaken,
            tier=self._policy.tier,
            stdout=result.stdout.excerpt if effect.keeps == "nothing" else "",
            stderr=result.stderr.excerpt if effect.keeps == "nothing" else "",
            exitCodes=result.codes if effect.then or effect.keeps == "nothing" else (),
            tree=ready.tree,
        )
        if effect.keeps != "layer":
            return outcome
        if outcome.status == "fail" and self._policy.tier == "strict":
            self._note(refused_service(f"{outcome.command}\n{outcome.output}", self._policy.loopback, listening_ports))
        return _blocked(outcome, environment_failure(effect.argv, outcome, self._surroundings()))

    def _output(self, result: CommandResult) -> str:
        """What the command printed, quoted: in the order of arrival where stdout and stderr share their artifact."""
        out, err = result.stdout, result.stderr
        if out.excerpt and err.excerpt and len(result.artifacts) == 1 and not (out.truncated or err.truncated):
            return shared_excerpt(result.artifacts[0].path, 2 * EXCERPT, self._ledger.redactor).rstrip()
        return "\n".join(part for part in (out.excerpt.rstrip(), err.excerpt.rstrip()) if part)

    def _surroundings(self) -> ProjectFiles:
        """The project's files as they are now, to tell a failing check from a missing environment (rule 7)."""
        return ProjectFiles(str(self._shop.workspace), self._shop.toolbox.environment)

    def _take_changes(self, effect: RunCommand, step: Step, ready: _Ready) -> tuple[Reply | None, tuple[Denied, ...]]:
        """What an `rw` task wrote, as a patch (rule 4), and the files no patch can carry. Caches stay as a layer."""
        if not ready.writes or ready.folder is None:
            self._scratch.remember(effect.task, ready.layers)
            return None, ()
        upper = ready.folder / "up"
        upper.chmod(0o755)  # a command may have removed its own access to the folder
        harvest = changes(upper, self._shop.workspace, ignored=Leftovers(self._shop.workspace), since_ns=ready.since_ns)
        made = diff_of(harvest.files)
        kept = keepable(harvest.kept, self._shop.workspace)
        gone = missed(harvest.kept, kept, upper)
        harvest = msgspec.structs.replace(harvest, kept=kept)
        prune(upper, harvest)
        discard(ready.folder / "work")
        own = (upper,) if harvest.kept else ()
        self._scratch.remember(effect.task, (*ready.layers, *own))
        untaken = tuple(Denied(r.path or "everything", r.reason) for r in harvest.refused)
        untaken += tuple(Denied(path, "build output") for path in builds(harvest.kept))
        untaken += tuple(Denied(path, "ignored, and the project has its own") for path in gone)
        untaken += tuple(Denied(r.path or "everything", r.message) for r in made.refused)
        if not made.diff:
            return None, untaken
        text = f"{PATCH_BEGIN}\n{made.diff}{PATCH_END}\n"
        return Reply(self._ledger.redactor.text(text), self._keep(ready.artifacts, step, text)), untaken

    def _below(self, effect: RunCommand) -> tuple[Path, ...]:
        """The private layers of the tasks before this one. Too many for one mount are merged into one layer."""
        layers = tuple(dict.fromkeys(layer for name in effect.after for layer in self._scratch.layers(name)))
        if len(layers) <= _LAYERS:
            return layers
        folded = self._scratch.fresh(f"{effect.task}~below") / "up"
        fold(layers, folded)
        return (folded,)

    def _keep(self, artifacts: str, step: Step, text: str) -> ArtifactRef:
        """Keep the patch's exact bytes in a file and return its reference. People see a redacted copy."""
        data = utf8(text)
        path = Path(artifacts, f"changes-{step.key.rpartition('.')[2]}.raw.txt")
        self._ledger.disk.publish(path, data, durable=True)
        return self._ledger.folder.reference(path, data)

    def _collect(self, tray: Tray, artifacts: str) -> tuple[tuple[ArtifactRef, ...], tuple[Denied, ...]]:
        """Take the files that a task left in its tray; returns them, and those that could not be taken."""
        found = collect(tray, f"{artifacts}/{KEPT}", disk=self._ledger.disk, redactor=self._ledger.redactor)
        if found.untouched:
            self._untouched.append(tray)
        refs = tuple(_ref(artifact, self._ledger.folder) for artifact in found.artifacts)
        return refs, tuple(Denied(skipped.path or "more files", skipped.reason) for skipped in found.skipped)

    def _judged(self, effect: RunCommand, step: Step, outcome: CommandOutcome, code: str) -> CommandOutcome:
        """Return the outcome; if the command had to pass and did not, raise StepFailed (G2-5: may be tried again)."""
        if not effect.mustPass or outcome.status == "pass":
            return outcome
        how = "timed out" if outcome.timedOut else outcome.error or f"exit code {outcome.exitCode}"
        last = outcome.output.strip().rpartition("\n")[2][-200:]
        attempt = StepEvent.of(step.intent).attempt if step.intent else 1
        wait = self._backoff * 2.0 ** (attempt - 1)
        retriable = code in _RETRIED
        if retriable and self._keeper.left <= wait and not self._keeper.asked:  # G2-4: no waiting past the total limit
            code, retriable, how = TOTAL_TIME, False, f"{how}; the run's total time is over"
        raise StepFailed(
            step.key,
            code,
            f"{how}: {last}" if last and not outcome.error else how,
            retriable=retriable,
            details={"outcome": msgspec.to_builtins(outcome)},
        )


def end_left_over(events: Iterable[Event]) -> None:
    """Kill commands that an earlier process left running, because the run ends (rule 2)."""
    begun: dict[str, Event] = {}
    for event in events:
        if event.type == "PHASE_STARTED":
            begun[key_of(event)] = event
        else:
            begun.pop(key_of(event), None)
    for event in begun.values():
        if started := StepEvent.of(event).started:
            kill_left_over(*started)


_RETRIED = ("EXIT", "TIMEOUT", "SIGNAL", "LIMIT")


def _code(result: CommandResult) -> str:
    if result.error:
        return "NOT_STARTED"
    if result.timedOut:
        return "TIMEOUT"
    if result.limit:
        return "LIMIT"
    return "SIGNAL" if result.signal is not None else "EXIT"


def _blocked(outcome: CommandOutcome, failure: EnvironmentFailure | None) -> CommandOutcome:
    """The outcome, with what the check lacked."""
    return msgspec.structs.replace(outcome, blocked=failure.what, cure=failure.cure) if failure else outcome


def _changes_files(event: Event) -> bool:
    """Whether the workspace may be another one after this event: a patch was applied, or a child run has ended."""
    return event.type == "PATCH_APPLIED" or (event.type == "PHASE_COMPLETED" and effect_of(event) == ChildRun.__name__)


def _shown(effect: RunCommand) -> str:
    return effect.line


def _ref(artifact: Artifact, folder: RunFolder) -> ArtifactRef:
    return ArtifactRef(artifact.path.removeprefix(f"{folder.path}/"), artifact.bytes, artifact.sha256)
