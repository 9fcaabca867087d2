"""A trial: whether commands can run in this workspace, found out by running one that does nothing.

The proof (worker/probe.py) is about the machine, and is made with files of its own. A project can still be out of
reach: below a folder that is closed to `sandbox.run_as`, or on a file system that cannot be overlaid. Who depends on
commands learns it here, before a model is asked or a patch applied.
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
        return  # nothing to try it with; the first real command will tell
    folder = scratch.fresh(f"trial~{os.getpid()}")  # another process may be about to drive the same run
    sandbox = shop.sandbox(policy, tool, upper=folder if policy.tier == "strict" else None, layers=())
    command = Command(argv=(tool.path,), cwd=str(shop.workspace), env={}, timeout_ms=20_000)
    try:
        result = await shop.launcher.launch(command, sandbox, folder / "output", None)
    finally:
        discard(folder)
    if result.refused or result.error:
        raise SandboxError(explained(result.error or "the sandbox was refused", shop.workspace, sandbox.run_as))
