"""Running a provider that is a program: started by the worker, in a sandbox of its own (D-09, C-13).

Rules
1. The program gets an empty working folder, a home made for this call, and the files of the host that it needs to run.
   It does not see the project or the user's home.
2. The program is online, because it must reach its model. The policy's network rules are for tools, and a provider is
   not a tool (C-16).
3. The program is contained by the configured tier, which is proved as for any command. If the tier does not hold, no
   call is made.
4. The program's home is deleted when the program ends. A home that a kill left is deleted by the next call of a
   provider's program in any run, or with its run's scratch folder.
5. Files that the program left in its home are hostile input: they are read through descriptors, without following
   links, and only up to a fixed size.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from orchestra.commands.sandbox import Workshop
from orchestra.commands.scratch import Scratch
from orchestra.commands.tools import NoTool, Tool
from orchestra.core.errors import SandboxError
from orchestra.providers.program import Ended, Talk
from orchestra.worker.removal import discard
from orchestra.worker.task import MIB, Command, Limits, Sandbox, Tier
from orchestra.worker.wrap import HOME

_HOME = "{home}"  # a placeholder in the program's arguments
_FILES = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")  # name a file the program must read: it gets a copy
_LIMITS = Limits(memory_bytes=4096 * MIB)
_MOST_BACK = 1 << 16  # bytes that are read of a file the program left
_numbers = itertools.count(1)


class Programs:
    """Runs the programs of providers for one project, contained by its policy's tier."""

    def __init__(self, workshop: Workshop, tier: Tier) -> None:
        self._shop = workshop
        self._tier = tier

    async def __call__(self, program: str, talk: Talk) -> Ended:
        """Run the provider's program in its own sandbox; its stdout goes to `on_bytes` as it comes."""
        toolbox = self._shop.programs
        tool = toolbox.resolve_path(program) if "/" in program else toolbox.resolve(program)
        if isinstance(tool, NoTool):
            return Ended(problem=tool.reason)
        self._sweep()
        scratch = Scratch(self._shop.scratch, talk.run or f"talk-{os.getpid()}", self._shop.project)
        await self._shop.must_hold(self._tier, scratch)
        folder = scratch.fresh(f"talk-{os.getpid()}-{next(_numbers)}")
        try:
            return await self._run(tool, talk, folder)
        finally:
            for name in talk.back:
                if (data := _read_hostile(folder / "home", name)) is not None:
                    talk.on_back(name, data)
            discard(folder)
            if not talk.run:
                scratch.remove()

    async def _run(self, tool: Tool, talk: Talk, folder: Path) -> Ended:
        """Run the program with its home and its working folder in `folder`."""
        certificates = {name: talk.env[name] for name in _FILES if os.path.isfile(talk.env.get(name, ""))}
        copies = {f"{name}.pem": Path(path).read_bytes() for name, path in certificates.items()}
        home, work = self._furnish(folder, {**talk.home, **copies})
        inside = HOME if self._tier == "strict" else str(home)
        sandbox = Sandbox(
            tier=self._tier,
            workspace=str(work),
            reads=tool.prefixes,
            writes=((str(home), inside),),
            online=True,
            limits=_LIMITS,
            run_as=self._shop.run_as,
        )
        command = Command(
            argv=(tool.path, *(word.replace(_HOME, inside) for word in talk.arguments)),
            cwd=inside,  # always the same path: a CLI puts it into the prompt, and a prompt cache needs equal text
            env={
                **self._shop.program_environment(tool),
                **{name: value for name, value in talk.env.items() if name not in _FILES},
                **{name: f"{inside}/{name}.pem" for name in certificates},
                "HOME": inside,
            },
            stdin=talk.stdin,
            timeout_ms=talk.timeout_ms,
            grace_ms=500,
        )
        result = await self._shop.launcher.listen(command, sandbox, folder / "stderr.txt", talk.on_bytes)
        if result.refused:
            raise SandboxError(f"{result.error}. Look: orchestra doctor")
        code = result.exitCode if result.signal is None else -result.signal
        return Ended(exit_code=code, problem=result.error or "", stderr=result.stderr.excerpt)

    def _sweep(self) -> None:
        """Delete the homes that killed processes left (rule 4): they may contain a login."""
        for folder in (*self._shop.scratch.glob("talk-*"), *self._shop.scratch.glob("*/talk-*")):
            pid = folder.name.split("-")[1]
            if pid.isdecimal() and not os.path.exists(f"/proc/{pid}"):
                discard(folder)

    def _furnish(self, folder: Path, files: Mapping[str, bytes]) -> tuple[Path, Path]:
        """Make the program's home with these files, and an empty working folder."""
        home, work = folder / "home", folder / "work"
        made = [home, work]
        for name, data in files.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(data)
            made += [path, path.parent]
        home.mkdir(exist_ok=True, mode=0o700)
        work.mkdir(mode=0o755)
        if self._shop.run_as is not None and os.geteuid() == 0:
            for path in made:
                os.chown(path, self._shop.run_as, self._shop.run_as)
        return home, work


def _read_hostile(home: Path, name: str) -> bytes | None:
    """The text of a file the program left, if it is a regular file and not too long (rule 5)."""
    opened: list[int] = []
    try:
        opened.append(os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
        *folders, last = name.split("/")
        for part in folders:
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            opened.append(os.open(part, flags, dir_fd=opened[-1]))
        opened.append(os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=opened[-1]))
        found = os.fstat(opened[-1])
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or not 0 < found.st_size <= _MOST_BACK:
            return None
        return os.read(opened[-1], _MOST_BACK)
    except OSError:
        return None
    finally:
        for fd in opened:
            os.close(fd)
