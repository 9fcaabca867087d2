"""A trial: run a command that does nothing, to find out whether commands can run in this workspace.

The proof (worker/probe.py) is about the machine, and uses files of its own. The project may still be out of reach:
inside a folder that `sandbox.run_as` may not enter, or on a file system that cannot be overlaid. The trial finds this
before a model is called or a patch is applied.
"""

from __future__ import annotations

import os

from orchestra.commands.sandbox import Workshop
from orchestra.commands.scratch import Scratch
from orchestra.commands.tools import NoTool
from orchestra.core.errors import SandboxError
from orchestra.policy.policy import Policy
from orchestra.worker.reach import explained
from orchestra.worker.removal import discard
from orchestra.worker.task import Command

_NAME = "true"


async def must_run(shop: Workshop, policy: Policy, scratch: Scratch) -> None:
    """SandboxError if commands are not contained on this machine, or cannot be started in this workspace."""
    await shop.must_hold(policy.tier, scratch)
    tool = shop.toolbox.resolve(_NAME)
    if isinstance(tool, NoTool):
        return  # there is no program to try; a problem shows at the first real command
    folder = scratch.fresh(f"trial~{os.getpid()}")  # another process may be about to drive the same run
    sandbox = shop.sandbox(policy, tool, upper=folder if policy.tier == "strict" else None, layers=())
    command = Command(argv=(tool.path,), cwd=str(shop.workspace), env={}, timeout_ms=20_000)
    try:
        result = await shop.launcher.launch(command, sandbox, folder / "output", None)
    finally:
        discard(folder)
    if result.refused or result.error:
        raise SandboxError(explained(result.error or "the sandbox was refused", shop.workspace, sandbox.run_as))
