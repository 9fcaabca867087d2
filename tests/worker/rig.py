"""What the tests of the launcher share: a workspace, a launcher per run, and the look at what is left of a command."""

from __future__ import annotations

import asyncio
import os
import textwrap
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from orchestra.core.disk import Disk
from orchestra.core.redact import Redactor
from orchestra.worker.launcher import Held, Launcher
from orchestra.worker.task import Command, CommandResult, Limits, Sandbox

REDACTOR = Redactor(["s3cret-value"])
PYTHON = "/usr/bin/python3"  # in every sandbox; the tests' own interpreter may lie in a closed home
ENOUGH_S = 20.0  # for polling: far more than is ever needed
T = TypeVar("T")

# A family that is hard to kill: all ignore TERM; the daemon double-forks into its own session and keeps stdout open.
FAMILY = """
    import os, signal, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    r, w = os.pipe()
    if os.fork() == 0:
        os.write(w, b"c")
        time.sleep(600)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(w, b"d")
            time.sleep(600)
        os._exit(0)
    got = os.read(r, 1) + os.read(r, 1)
    print("ready", flush=True)
    time.sleep(float(sys.argv[1]))
"""


def python(code: str, *args: str) -> tuple[str, ...]:
    return (PYTHON, "-I", "-S", "-c", textwrap.dedent(code), *args)


def sh(line: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", line)


def command(folder: Path, argv: tuple[str, ...], **changes: object) -> Command:
    fields: dict[str, object] = {
        "argv": argv,
        "cwd": str(folder),
        "env": {"PATH": "/usr/bin:/bin"},
        "timeout_ms": 60_000,
        "grace_ms": 200,
        **changes,
    }
    return Command(**fields)  # type: ignore[arg-type]  # the changes are the tests' own


class Rig:
    """Runs commands on one workspace, in a tier."""

    def __init__(self, folder: Path, **sandbox: object) -> None:
        self.workspace = folder / "작업 공간"
        self.workspace.mkdir()
        self.out, self.err = folder / "out.txt", folder / "err.txt"
        self.sandbox = Sandbox(workspace=str(self.workspace), **sandbox)  # type: ignore[arg-type]  # as above
        self.mark = f"mark-{uuid.uuid4().hex}"

    def changed(self, **changes: object) -> Sandbox:
        return msgspec.structs.replace(self.sandbox, **changes)

    def limited(self, **changes: int) -> Sandbox:
        return self.changed(limits=Limits(**changes))

    def run(
        self,
        *argv: str,
        sandbox: Sandbox | None = None,
        disk: Disk | None = None,
        apart: bool = True,
        **changes: object,
    ) -> CommandResult:
        what = command(self.workspace, argv, **changes)

        async def once(launcher: Launcher) -> CommandResult:
            return await launcher.launch(what, sandbox or self.sandbox, self.out, self.err if apart else None)

        return with_launcher(once, disk)

    async def prepare(self, launcher: Launcher, *argv: str, name: str = "out", **changes: object) -> Held:
        on_line = changes.pop("on_line", None)
        sandbox = changes.pop("sandbox", self.sandbox)
        what = command(self.workspace, argv, **changes)
        path = self.out.with_name(f"{name}.txt")
        return await launcher.prepare(
            what,
            sandbox,  # type: ignore[arg-type]  # as above
            path,
            None,
            on_line=on_line,  # type: ignore[arg-type]  # as above
        )

    def left(self) -> list[int]:
        """Processes that carry the mark and live."""
        return marked(self.mark)


def with_launcher(act: Callable[[Launcher], Awaitable[T]], disk: Disk | None = None) -> T:
    async def main() -> T:
        launcher = Launcher(disk or Disk(), REDACTOR)
        try:
            return await act(launcher)
        finally:
            await launcher.close()

    return asyncio.run(main())


def marked(mark: str) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark.encode() in Path(f"/proc/{name}/cmdline").read_bytes() and int(name) != os.getpid():
                found.append(int(name))
        except OSError:
            continue
    return found


def wait_until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + ENOUGH_S
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
