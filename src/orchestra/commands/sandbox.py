"""The workshop: what all commands of a project share. The launcher, the tools, and the proof that the sandbox holds.

Rules
1. A command that the policy forbids does not run. The sandbox is proved on this machine before the first command
   (worker/probe.py). The proof is kept for as long as the machine stays the same.
2. A sandbox gets only paths without links. A folder that has become a link since the run began is refused.
3. The environment consists of the sandbox's own variables and those that the configuration passes on. Nothing of
   orchestra's own environment is in it (S2-136).
4. A run may work in a folder of the project (`inside`). Its commands see that folder, the project's environment and
   tools, and what the configuration opens by name; the rest of the project is not there.
5. If a policy rule has `ask` for a command, the command runs only if the run's journal has a person's grant for exactly
   this argv, or this whole pipe. This holds for every workflow: a flow that does not ask gets a refusal.
"""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct

from orchestra.commands.described import environment_lines
from orchestra.commands.scratch import Scratch
from orchestra.commands.tools import NoTool, Tool, Toolbox
from orchestra.core.command import NOT_GRANTED, RunCommand, Stage, line_of
from orchestra.core.disk import Disk
from orchestra.core.errors import PolicyError, SandboxError
from orchestra.core.names import OWN
from orchestra.core.redact import Redactor
from orchestra.policy.decide import STRICTNESS, decide
from orchestra.policy.policy import Policy, within
from orchestra.worker.launcher import Launcher
from orchestra.worker.machine import fingerprint
from orchestra.worker.probe import Proof, prove
from orchestra.worker.reach import closed_folder
from orchestra.worker.task import MIB, Limits, Sandbox, Tier
from orchestra.worker.wrap import HOME

_ENVIRONMENT = {
    "HOME": HOME,
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    # Python takes a .pyc of the same size and second for fresh: a quick patch would not be tested
    "PYTHONDONTWRITEBYTECODE": "1",
}


class RefusedCommand(Struct, frozen=True):
    """Why a command cannot run."""

    problem: str
    code: str = "NOT_STARTED"
    missing: bool = False  # there is no program for the command's first word


class Workshop:
    """What all commands of a project share: the launcher, the tools, and the proof that the sandbox holds."""

    def __init__(
        self,
        workspace: Path,
        toolbox: Toolbox,
        *,
        disk: Disk,
        redactor: Redactor,
        runs: Path,
        scratch: Path,
        run_as: int | None = None,
        env: Mapping[str, str] = MappingProxyType({}),
        programs: Toolbox | None = None,
    ) -> None:
        """`env` has the variables that the configuration passes to every command.

        `programs` finds the programs of providers: they are the person's own, never those of the project's environment.
        """
        self.project = workspace
        self.workspace = workspace
        self.toolbox = toolbox
        self.programs = programs or toolbox
        self.disk = disk
        self.redactor = redactor
        self.launcher = Launcher(disk, redactor)
        self.scratch = scratch
        self.env = env
        self._introduced: set[str] = set()  # environments; shared with the workshops of inner folders
        self._proofs: dict[Tier, Proof] = {}
        self._proving = asyncio.Lock()
        self._runs = runs
        self.run_as = run_as

    def use(self, toolbox: Toolbox) -> None:
        """Find the programs of commands by this toolbox from now on."""
        self.toolbox = toolbox
        self._introduced.clear()

    def inside(self, workspace: Path) -> Workshop:
        """The workshop of runs that work in this folder of the project. It shares launcher and proofs (rule 4)."""
        inner = copy.copy(self)
        inner.workspace, inner.toolbox = workspace, self.toolbox.inside(workspace)
        return inner

    def introduction(self) -> tuple[str, ...]:
        """What a person is told of the environment when the first command is about to run; nothing after that."""
        used = self.toolbox.environment.folder
        if used in self._introduced:
            return ()
        self._introduced.add(used)
        return tuple(environment_lines(self.toolbox, str(self.project)))

    def environment(self, tool: Tool) -> dict[str, str]:
        """The environment of a command that runs this tool (rule 3)."""
        return {**_ENVIRONMENT, **self.env, **self.toolbox.variables(tool)}

    def program_environment(self, tool: Tool) -> dict[str, str]:
        """The environment of a provider's program: nothing of the project's environment is in it."""
        return {**_ENVIRONMENT, **self.env, **self.programs.variables(tool)}

    async def must_hold(self, tier: Tier, scratch: Scratch) -> None:
        """SandboxError unless this tier is proved on this machine as it is now (rule 1)."""
        if tier == "none":
            return  # the configuration has `tier: none`; every command's intent records the tier
        proof = self._proofs.get(tier)
        if proof is None:
            async with self._proving:
                proof = self._proofs.get(tier) or self._remembered(tier)
                if proof is None:
                    # In the run's scratch folder: it is deleted with the run, also if a kill cuts the proof short.
                    near = scratch.fresh(f"proof~{os.getpid()}")
                    proof = await self.prove(tier, near=near)
                self._proofs[tier] = proof
        if not proof.held:
            raise SandboxError(f"the sandbox does not hold: {proof.reason}. {proof.remedy}. Look: orchestra doctor")

    async def prove(self, tier: Tier, *, near: Path | None = None) -> Proof:
        """Try to break out of the sandbox. A proof that it held is kept until the machine changes."""
        near = near or self.scratch
        proof = await prove(self.launcher, tier, run_as=self.run_as, near=near)
        if proof.held:
            self.disk.publish(self._memory(tier), msgspec.json.encode(_Remembered(fingerprint(), proof)), durable=False)
        return proof

    def _remembered(self, tier: Tier) -> Proof | None:
        try:
            kept = msgspec.json.decode(self._memory(tier).read_bytes(), type=_Remembered)
        except (OSError, msgspec.DecodeError):
            return None
        return kept.proof if kept.fingerprint == fingerprint() else None

    def _memory(self, tier: Tier) -> Path:
        return self.scratch / f"proof-{tier}-{'self' if self.run_as is None else self.run_as}.json"

    def resolve(
        self, effect: RunCommand, policy: Policy, *, granted: Callable[[RunCommand], bool]
    ) -> tuple[Tool, ...] | RefusedCommand:
        """The tools of a command's stages, or why it cannot run. Every stage is ruled; the strictest ruling counts.

        `granted`: whether a person granted exactly this command, with all its stages (rule 5).
        """
        stages = effect.stages
        rulings = [decide(stage.argv, policy, asker=effect.asker) for stage in stages]
        strictest = max(range(len(stages)), key=lambda at: STRICTNESS[rulings[at].decision])
        ruling, where = rulings[strictest], _place(stages, strictest)
        if ruling.decision == "forbid":
            why = f"{where}{ruling.code}: {ruling.reason} ({ruling.where})"
            return RefusedCommand(problem=why, code=PolicyError.code)
        if ruling.decision == "ask" and not granted(effect):
            why = f"{where}{ruling.reason} ({ruling.where}): a person must grant exactly this command first"
            return RefusedCommand(problem=why, code=NOT_GRANTED)
        tools: list[Tool] = []
        for at, stage in enumerate(stages):
            name = stage.argv[0]
            by_path = effect.asker == "person" and "/" in name
            tool = self.toolbox.resolve_path(name) if by_path else self.toolbox.resolve(name)
            if isinstance(tool, NoTool):
                return RefusedCommand(problem=f"{_place(stages, at)}{tool.reason}", missing=True)
            tools.append(tool)
        return tuple(tools)

    def sandbox(self, policy: Policy, tool: Tool, *, upper: Path | None, layers: tuple[Path, ...]) -> Sandbox:
        """The sandbox for a command: what it may read and write, its network and its limits."""
        root = str(self.workspace)
        for path in (*policy.reads, *policy.writes):
            if (now := _real(path)) != path:  # they had no links when the policy was made
                raise SandboxError(f"{path} leads to {now} since the run began: put it back, or start a new run")
        if (used := self.toolbox.environment).moved:
            now = os.path.realpath(used.folder)
            raise SandboxError(f"{used.folder} leads to {now} since the run began: put it back, or start a new run")
        bounds = policy.bounds
        given = (*policy.reads, *tool.prefixes, *filter(self._reaches, self.toolbox.shared), *self._of_project(tool))
        named = (*(f"{folder}/{name}" for folder in (root, self.project) for name in OWN), str(self._runs))
        # Hiding a link is not enough: its target is hidden too.
        hides = dict.fromkeys((*named, *(_real(path) for path in named if os.path.lexists(path))))
        return Sandbox(
            tier=policy.tier,
            workspace=root,
            visible=any(within(root, read) for read in policy.reads),
            upper=str(upper) if upper else None,
            layers=tuple(map(str, layers)),
            hides=tuple(path for path in hides if within(path, root) and path != root),
            reads=tuple(dict.fromkeys(read for read in given if not within(root, read))),
            writes=tuple((path, path) for path in policy.writes),
            domains=tuple(map(str, policy.domains)),
            loopback=policy.loopback,
            limits=Limits(
                memory_bytes=bounds.memory_mb * MIB,
                processes=bounds.processes,
                file_bytes=bounds.file_mb * MIB,
                disk_bytes=bounds.disk_mb * MIB,
                tmp_bytes=bounds.tmp_mb * MIB,
            ),
            run_as=self.run_as,
        )

    def _of_project(self, tool: Tool) -> Iterator[str]:
        """What a command in an inner folder is given of the project around it (rule 4): its tools."""
        project, used = str(self.project), self.toolbox.environment
        if self.workspace == self.project:
            return
        if used.real and within(used.real, project):
            yield used.real
        if self.toolbox.has_node_modules:
            yield f"{project}/node_modules"
        if within(tool.path, project) and not within(tool.path, str(self.workspace)):
            yield tool.path

    def _reaches(self, path: str) -> bool:
        """Whether the user that commands run as can read a path. A tool that needs a closed one is refused by name."""
        return self.run_as is None or not os.path.exists(path) or closed_folder(Path(path), self.run_as) is None


def _place(stages: tuple[Stage, ...], at: int) -> str:
    """Which stage of a pipe a message is about."""
    return f"stage {at + 1} of {len(stages)} ({line_of(stages[at : at + 1])}): " if len(stages) > 1 else ""


class _Remembered(Struct, frozen=True):
    """A proof, and the machine it was made on."""

    fingerprint: str
    proof: Proof


def _real(path: str) -> str:
    """The path without links. The kernel resolves it at once; `realpath` would check every folder on the way."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return os.path.realpath(path)  # the path is missing, or may not be opened
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
