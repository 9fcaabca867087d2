"""The workshop: what all commands of a project share. The launcher, the tools, and the proof that the sandbox holds.

Rules
1. Nothing runs that the policy forbids; the containment is proved on this machine before the first command
   (worker/probe.py) and remembered for as long as the machine stays the same.
2. What a sandbox is given are paths without links: a folder that leads elsewhere since the run began is refused.
3. The environment is the sandbox's own and what the configuration hands on: nothing of orchestra's (S2-136).
4. A command that a rule asks about runs only if the run's journal has a person's grant for exactly its words. This
   holds for every workflow: a flow that forgets to ask gets a refusal, not a command.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct

from orchestra.commands.scratch import Scratch
from orchestra.commands.tools import NoTool, Tool, Toolbox
from orchestra.core.disk import Disk
from orchestra.core.errors import PolicyError, SandboxError
from orchestra.core.names import OWN
from orchestra.core.redact import Redactor
from orchestra.core.work import NOT_GRANTED, RunCommand
from orchestra.policy.decide import decide
from orchestra.policy.policy import Policy, within
from orchestra.worker.launcher import Launcher
from orchestra.worker.machine import fingerprint
from orchestra.worker.probe import Proof, prove
from orchestra.worker.task import MIB, Limits, Sandbox, Tier
from orchestra.worker.wrap import HOME

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENVIRONMENT = {
    "HOME": HOME,
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PYTHONDONTWRITEBYTECODE": "1",  # a .pyc counts as fresh if size and second agree: a quick patch would go untested
}


class RefusedCommand(Struct, frozen=True):
    """Why a command cannot run."""

    problem: str
    code: str = "NOT_STARTED"


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
    ) -> None:
        """`env` are variables the configuration hands on to every command."""
        self.workspace = workspace
        self.toolbox = toolbox
        self.disk = disk
        self.redactor = redactor
        self.launcher = Launcher(disk, redactor)
        self.scratch = scratch
        self.env = env
        self._proofs: dict[Tier, Proof] = {}
        self._proving = asyncio.Lock()
        self._runs = runs
        self.run_as = run_as

    def environment(self, tool: Tool) -> dict[str, str]:
        """What every command has, and the way to this tool (rule 3)."""
        return {**_ENVIRONMENT, **self.env, "PATH": ":".join((*tool.folders, _SYSTEM_PATH))}

    async def must_hold(self, tier: Tier, scratch: Scratch) -> None:
        """Rule 1: go on only if this tier was seen to hold on this machine, as it is now."""
        if tier == "none":
            return  # the configuration says so in a word; every command's intent names the tier
        proof = self._proofs.get(tier)
        if proof is None:
            async with self._proving:
                proof = self._proofs.get(tier) or self._remembered(tier)
                if proof is None:
                    # In the run's own scratch folder: it goes with the run, though a kill should cut the proof short.
                    near = scratch.fresh(f"proof~{os.getpid()}")
                    proof = await self.prove(tier, near=near)
                self._proofs[tier] = proof
        if not proof.held:
            raise SandboxError(f"the sandbox does not hold: {proof.reason}. {proof.remedy}. Look: orchestra doctor")

    async def prove(self, tier: Tier, *, near: Path | None = None) -> Proof:
        """Try to break out of it, and remember that it held for as long as the machine stays the same."""
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
    ) -> Tool | RefusedCommand:
        """The tool, or why it cannot run. `granted`: whether a person granted exactly this command (rule 4)."""
        ruling = decide(effect.argv, policy, asker=effect.asker)
        if ruling.decision == "forbid":
            return RefusedCommand(problem=f"{ruling.code}: {ruling.reason} ({ruling.where})", code=PolicyError.code)
        if ruling.decision == "ask" and not granted(effect):
            why = f"{ruling.reason} ({ruling.where}): a person must grant exactly this command, and nobody has"
            return RefusedCommand(problem=why, code=NOT_GRANTED)
        name = effect.argv[0]
        by_path = effect.asker == "person" and "/" in name
        tool = self.toolbox.resolve_path(name) if by_path else self.toolbox.resolve(name)
        return RefusedCommand(problem=tool.reason) if isinstance(tool, NoTool) else tool

    def sandbox(self, policy: Policy, tool: Tool, *, upper: Path | None, layers: tuple[Path, ...]) -> Sandbox:
        """What this command may see and touch."""
        root = str(self.workspace)
        for path in (*policy.reads, *policy.writes):
            if (now := _real(path)) != path:  # they were real paths when the policy was made
                raise SandboxError(f"{path} leads to {now} since the run began: put it back, or start a new run")
        bounds = policy.bounds
        named = (*(f"{root}/{name}" for name in OWN), str(self._runs))
        # A link hides nothing: what it leads to must go.
        hides = dict.fromkeys((*named, *(_real(path) for path in named if os.path.lexists(path))))
        return Sandbox(
            tier=policy.tier,
            workspace=root,
            visible=any(within(root, read) for read in policy.reads),
            upper=str(upper) if upper else None,
            layers=tuple(map(str, layers)),
            hides=tuple(path for path in hides if within(path, root) and path != root),
            reads=tuple(read for read in (*policy.reads, *tool.prefixes) if not within(root, read)),
            writes=tuple((path, path) for path in policy.writes),
            domains=tuple(map(str, policy.domains)),
            limits=Limits(
                memory_bytes=bounds.memory_mb * MIB,
                processes=bounds.processes,
                file_bytes=bounds.file_mb * MIB,
                disk_bytes=bounds.disk_mb * MIB,
                tmp_bytes=bounds.tmp_mb * MIB,
            ),
            run_as=self.run_as,
        )


class _Remembered(Struct, frozen=True):
    """A proof, and the machine it was made on."""

    fingerprint: str
    proof: Proof


def _real(path: str) -> str:
    """The path without links: the kernel's word, instead of a look at every folder on the way."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return os.path.realpath(path)  # it is not there, or closed to us
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
