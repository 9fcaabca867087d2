"""The launcher: the only code that starts processes (D-09). decide → wrap → **run**.

    Launcher ── socket ──▶ spawner ──▶ bwrap ──▶ command and whatever it starts
        ◀──── pipes (stdout, stderr) ──────────────┘

Rules
1. argv only, never a shell; a complete environment; descriptors 0, 1, 2 and no others; no terminal; stdio are pipes.
2. `prepare` returns a process that exists, contained and blocked: its pid and start time can be journaled before
   `run` releases it. Nothing of the command has happened until then.
3. A containment that is not available is refused; nothing here falls back to a weaker one (U-23).
4. When the command ends, every process it left is killed at once; then its pipes are read to their end, or, if it
   left no process, to the last byte that is in them.
5. Time limit or cancellation: TERM to all its processes, `grace_ms`, then KILL. Cancellation is then raised again.
6. When `run` or `drop` returns or raises, no process of the command exists and none is a zombie (of its empty sandbox,
   bwrap's own may need a moment more). When orchestra itself is killed, the spawner sees the socket close and does the
   same; when the spawner is killed, the kernel does.
7. Only short writes to disk block the loop: a command that writes too fast blocks on its pipes.
"""

from __future__ import annotations

import asyncio
import marshal
import os
import resource
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from orchestra.core.disk import Disk
from orchestra.core.redact import Redactor
from orchestra.worker import host, outcome, seccomp
from orchestra.worker.leftover import kill_left_over
from orchestra.worker.link import Link
from orchestra.worker.streams import OnLine, Streams
from orchestra.worker.task import Command, CommandResult, Denial, Limits, OnBytes, Sandbox
from orchestra.worker.wrap import HOME, refusal, wrap

PROXY_PORT = 3128  # on the command's own loopback, if it may reach domains
_DRAIN_S = 2.0  # rule 4: only a process we may not kill (tier none, another user's) can still hold the pipes


class Proxy(Protocol):
    """The proxy that serves a command's connections (proxy.py)."""

    @property
    def denials(self) -> tuple[Denial, ...]: ...
    async def start(self) -> None: ...
    async def close(self) -> None: ...


MakeProxy = Callable[[socket.socket], Proxy]


class Launcher:
    """Starts commands, through one spawner process that exists from the first command on."""

    def __init__(self, disk: Disk, redactor: Redactor) -> None:
        """`disk` and `redactor` are for the stored output of all commands."""
        self._disk = disk
        self._redactor = redactor
        self._link: Link | None = None

    async def prepare(
        self,
        command: Command,
        sandbox: Sandbox,
        stdout: str | Path,
        stderr: str | Path | None,
        *,
        on_line: OnLine | None = None,
        proxy: MakeProxy | None = None,
    ) -> Held:
        """A process that waits to become the command. Without `stderr` both streams go into one artifact.

        A command that cannot start is returned too, with pid 0: the result of `run` has the reason.
        """
        streams = Streams(command, redactor=self._redactor, on_line=on_line)
        held = Held(command, sandbox, streams, self._live_link())
        await held.begin(lambda: streams.store(stdout, stderr, self._disk), proxy)
        return held

    async def listen(self, command: Command, sandbox: Sandbox, stderr: Path, on_bytes: OnBytes) -> CommandResult:
        """Run a program; pass its stdout to `on_bytes` as it arrives, unstored, until that returns True."""
        streams = Streams(command, redactor=self._redactor, on_line=None)
        held = Held(command, sandbox, streams, self._live_link())

        def heard(data: bytes) -> None:
            if on_bytes(data):
                held.enough()

        await held.begin(lambda: streams.tap(heard, stderr, self._disk), None)
        return await held.run()

    async def launch(
        self, command: Command, sandbox: Sandbox, stdout: str | Path, stderr: str | Path | None
    ) -> CommandResult:
        """Run one command until it and all processes it started have ended."""
        return await (await self.prepare(command, sandbox, stdout, stderr)).run()

    async def close(self) -> None:
        """End all running commands and the spawner."""
        link, self._link = self._link, None
        if link:
            await link.close()

    @property
    def spawner(self) -> int:
        """The spawner's pid; 0 if there is none."""
        return self._link.pid if self._link else 0

    def _live_link(self) -> Link:
        """The link to the spawner; a new one if there is none yet, or the spawner died."""
        if self._link is None or not self._link.alive:
            self._link = Link()
        return self._link


class Held:
    """One prepared command, until its last process has ended."""

    def __init__(self, command: Command, sandbox: Sandbox, streams: Streams, link: Link) -> None:
        self.pid = 0
        self.start_time = ""
        self._command = command
        self._sandbox = sandbox
        self._streams = streams
        self._link = link
        self._number = 0
        self._problem: CommandResult | None = None  # why the command was not started at all
        self._end: outcome.End | None = None
        self._lost = False
        self._listener: socket.socket | None = None
        self._listen_error = 0
        self._proxy: Proxy | None = None
        self._changed = asyncio.Event()
        self._canceled = False
        self._scratch = ""  # tier landlock: a folder for temporary files, there is no private /tmp

    async def begin(self, store: Callable[[], None], proxy: MakeProxy | None) -> None:
        """Request the process; return when it is blocked and ready, or when it is known that it cannot start."""
        try:
            self._problem = _problem(self._command, self._sandbox, proxy)
            if self._problem:
                return
            self._number = self._link.add(self._hear)
            paper, size = self._request()
            self._link.send("start", self._number, size, fds=[paper, *self._streams.open(self._changed.set)])
            store()  # while bwrap starts
            await self._until(lambda: self.pid != 0 or self._over())
            if self._sandbox.domains and proxy and not self._over():
                await self._open_proxy(proxy)
        except BaseException:
            await self.drop()
            raise

    async def run(self) -> CommandResult:
        """Release the blocked process, wait until all processes it started have ended, return the result."""
        if self._problem:
            self._streams.abandon()
            return self._problem
        try:
            if not self._over() and not self._listen_error:
                self._link.send("go", self._number)
                self._streams.begin()
            elif self._listen_error:
                self._link.send("kill", self._number)
            try:
                await self._until(lambda: self._over() or self._streams.failure is not None)
            except asyncio.CancelledError:
                self._canceled = True
                self._link.send("term", self._number)
            await self._clear()
            result = self._result()
        except BaseException:
            self._streams.abandon()
            raise
        return result

    def enough(self) -> None:
        """End the program: its caller has all the output it needs."""
        self._link.send("kill", self._number)

    async def drop(self) -> None:
        """End the process without releasing it; nothing is kept."""
        try:
            if self._number and not self._over():
                self._link.send("kill", self._number)
            self._streams.stop()
            await self._clear()
        finally:
            self._streams.abandon()

    async def _clear(self) -> None:
        """Wait until no process of the command is left. A second cancellation does not interrupt this (rule 6)."""
        if self._streams.failure:
            self._link.send("kill", self._number)
        while self._number and not self._over():
            try:
                await self._until(self._over)
            except asyncio.CancelledError:
                self._canceled = True
                self._link.send("kill", self._number)  # ends the grace period
        self._link.remove(self._number)
        if self._lost:
            kill_left_over(self.pid, self.start_time)
        if self._end and self._end.get("empty"):
            self._streams.drain()
        elif self._streams.reading:
            self._streams.watch()
        deadline = time.monotonic() + _DRAIN_S
        while self._streams.reading and time.monotonic() < deadline:
            try:
                async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                    await self._until(lambda: not self._streams.reading)
            except TimeoutError:
                break
            except asyncio.CancelledError:
                self._canceled = True
        self._streams.stop()
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)
        if self._proxy:
            await self._proxy.close()
        if self._listener:
            self._listener.close()
        if self._streams.failure:
            raise self._streams.failure
        if self._canceled:
            raise asyncio.CancelledError

    def _result(self) -> CommandResult:
        end: outcome.End = self._end or {"lost": self._link.last_words}
        if self._listen_error:
            end = {"listener": self._listen_error}
        denials = self._proxy.denials if self._proxy else ()
        return outcome.result(self._command, self._sandbox, end, kept=self._streams.close(), denials=denials)

    def _over(self) -> bool:
        return self._end is not None or self._lost

    async def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            self._changed.clear()
            await self._changed.wait()

    def _hear(self, word: str, *rest: object, fds: list[int]) -> None:
        match word, rest:
            case "held", (int(pid), str(started)):
                self.pid, self.start_time = pid, started
            case "listener", (int(number),):
                self._listen_error = number
                if fds:
                    self._listener = socket.socket(fileno=fds[0])
            case "end", (dict(end),):
                self._end = end
            case "lost", ():
                self._lost = True
        self._changed.set()

    async def _open_proxy(self, make: MakeProxy) -> None:
        self._link.send("listen", self._number, PROXY_PORT)
        await self._until(lambda: self._listener is not None or self._listen_error != 0 or self._over())
        if self._listener:
            self._listener.setblocking(False)
            self._proxy = make(self._listener)
            await self._proxy.start()

    def _scratched(self, env: dict[str, str]) -> dict[str, str]:
        home = {"HOME": self._scratch} if env.get("HOME") == HOME else {}
        return env | home | {"TMPDIR": self._scratch}

    def _request(self) -> tuple[int, int]:
        """A descriptor with the request for spawner.py, and the request's length.

        bwrap's options follow the request; the descriptor's position is at their start.
        """
        command, sandbox = self._command, self._sandbox
        uid, gid = host.user(sandbox)
        limits = sandbox.limits
        if sandbox.upper:
            _make_upper(sandbox, uid, gid)
        body: dict[str, object] = {
            "tier": sandbox.tier,
            "argv": [os.fsencode(part) for part in command.argv],
            "uid": uid if uid != os.geteuid() else None,
            "gid": gid,
            "rlimits": _rlimits(limits),
            "limits": {
                "memory": limits.memory_bytes,
                "processes": limits.processes,
                "disk": limits.disk_bytes,
                "files": limits.files,
            },
            "timeout": command.timeout_ms / 1000,
            "grace": command.grace_ms / 1000,
            "upper": os.fsencode(f"{sandbox.upper}/up") if sandbox.upper else None,
            "writes": [os.fsencode(source) for source, _ in sandbox.writes],
        }
        options = b""
        if sandbox.tier == "strict":
            bwrap = host.find_bwrap()
            assert bwrap is not None  # `_problem` checked that
            body["program"] = os.fsencode(bwrap.path)
            body["seccomp"] = seccomp.program()
            options = b"\0".join((*wrap(command, sandbox, host.facts(sandbox, self._link.prepared)), b""))
        else:
            env = command.env
            if sandbox.tier == "landlock":
                self._scratch = tempfile.mkdtemp(dir=self._link.prepared.folder)
                os.chown(self._scratch, uid, gid)
                code = seccomp.program(network=sandbox.online)
                body["confine"] = (*host.confinement(sandbox, self._scratch), code, sandbox.online)
                env = self._scratched(env)
            body["cwd"] = os.fsencode(command.cwd)
            body["env"] = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        request = marshal.dumps(body)
        return _memory(request, options), len(request)


def _problem(command: Command, sandbox: Sandbox, proxy: MakeProxy | None) -> CommandResult | None:
    """The result for a command that cannot be started here at all; None if it can."""
    strings = "".join((*command.argv, command.cwd, *command.env, *command.env.values()))
    if not command.argv or not command.argv[0]:
        return CommandResult(error="cannot start: the command is empty")
    if "\0" in strings or "" in command.env or "=" in "".join(command.env):
        problem = "cannot start: an argument or variable holds a NUL character, or a variable's name is not one"
        return CommandResult(error=problem)
    if not os.path.isabs(command.argv[0]):
        return CommandResult(error=f"cannot start: {command.argv[0]!r} is not an absolute path")
    if not os.path.isdir(command.cwd if sandbox.tier != "strict" else sandbox.workspace):
        return CommandResult(error=f"cannot start: the working folder {command.cwd!r} does not exist")
    refused = _refusal(sandbox, proxy)
    return CommandResult(error=refused, refused=True) if refused else None


def _refusal(sandbox: Sandbox, proxy: MakeProxy | None) -> str | None:
    """Which part of the containment is not available; None if all of it is."""
    if sys.platform != "linux":
        return "commands run only on Linux: there is no sandbox for this system yet"
    if sandbox.domains and (sandbox.tier != "strict" or proxy is None):
        return f"the sandbox cannot be set up: tier {sandbox.tier} without our proxy has no way to reach domains"
    if sandbox.run_as is not None and os.geteuid() not in (0, sandbox.run_as):
        return f"the sandbox cannot be set up: only root can run commands as user {sandbox.run_as}"
    if sandbox.tier == "strict":
        return host.NO_BWRAP if host.find_bwrap() is None else refusal(sandbox)
    return None


def _make_upper(sandbox: Sandbox, uid: int, gid: int) -> None:
    """Make the folders of the layer. The command sees the layer's mode as the mode of the workspace."""
    for name in ("up", "work"):
        path = f"{sandbox.upper}/{name}"
        if not os.path.isdir(path):
            os.makedirs(path, 0o755)
            os.chmod(path, os.stat(sandbox.workspace).st_mode & 0o777 | 0o700)
            os.chown(path, uid, gid)


def _rlimits(limits: Limits) -> list[tuple[int, int]]:
    """The limits of one process. Not RLIMIT_AS: node, Go, GHC reserve terabytes of addresses that they never touch."""
    return [
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_CORE, 0),
        # For a bomb that is faster than the watchdog; far above its limit, so that the watchdog normally acts first.
        (resource.RLIMIT_DATA, 4 * limits.memory_bytes),
    ]


def _memory(first: bytes, second: bytes) -> int:
    """A descriptor in memory with both parts; its position is at the second."""
    fd = os.memfd_create("orchestra", os.MFD_CLOEXEC)
    data, written = first + second, 0
    while written < len(data):
        written += os.pwrite(fd, data[written:], written)
    os.lseek(fd, len(first), os.SEEK_SET)
    return fd
