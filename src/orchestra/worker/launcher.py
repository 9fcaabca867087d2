"""The launcher: the only code that starts processes (D-09). decide → wrap → **run**.

    Launcher ── socket ──▶ spawner ──▶ bwrap ──▶ command and whatever it starts
        ◀──── pipes (stdout, stderr) ──────────────┘

Rules
1. argv only, never a shell line (pipeline.py connects the programs of a pipe); a complete environment; descriptors 0,
   1, 2 and no others; no terminal; stdio are pipes.
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
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from orchestra.core.disk import Disk
from orchestra.core.redact import Redactor
from orchestra.worker import outcome
from orchestra.worker.leftover import kill_left_over
from orchestra.worker.link import Link
from orchestra.worker.pipeline import Codes, needs_shell, stages_of
from orchestra.worker.relay import Relay
from orchestra.worker.starting import make_scratch, problem, start_request
from orchestra.worker.streams import OnLine, Streams
from orchestra.worker.task import Command, CommandResult, Denial, OnBytes, Sandbox

PROXY_PORT = 3128  # on the command's own loopback, if it may reach domains
_DRAIN_S = 2.0  # rule 4: only a process we may not kill (tier none, another user's) can still hold the pipes


class ConnectionProxy(Protocol):
    """The proxy that serves a command's connections (proxy.py)."""

    @property
    def denials(self) -> tuple[Denial, ...]: ...
    async def start(self) -> None: ...
    async def close(self) -> None: ...


MakeProxy = Callable[[socket.socket], ConnectionProxy]


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
        self._codes = Codes(len(stages_of(command)))
        self._link = link
        self._number = 0
        self._problem: CommandResult | None = None  # why the command was not started at all
        self._end: outcome.End | None = None
        self._lost = False
        # only tier strict has a network of its own
        proxied = (PROXY_PORT,) if sandbox.domains else ()
        self._ports = (*proxied, *sandbox.loopback) if sandbox.tier == "strict" else ()
        self._listeners: list[socket.socket] = []
        self._listen_error = 0
        self._servers: list[ConnectionProxy] = []
        self._changed = asyncio.Event()
        self._exit_codes: tuple[int, ...] = ()
        self._canceled = False
        self._scratch = ""  # tier landlock: a folder for temporary files, there is no private /tmp

    async def begin(self, store: Callable[[], None], proxy: MakeProxy | None) -> None:
        """Request the process; return when it is blocked and ready, or when it is known that it cannot start."""
        try:
            self._problem = problem(self._command, self._sandbox, proxied=proxy is not None)
            if self._problem:
                return
            self._number = self._link.add(self._hear)
            paper, size = self._request()
            pipes = self._streams.open(self._changed.set)
            pipes += self._codes.open() if needs_shell(self._command) else []
            self._link.send("start", self._number, size, fds=[paper, *pipes])
            store()  # while bwrap starts
            await self._until(lambda: self.pid != 0 or self._over())
            if self._ports and not self._over():
                await self._open_ports(proxy)
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
        self._exit_codes = self._codes.close()
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)
        for server in self._servers:
            await server.close()
        for listener in self._listeners:
            listener.close()
        if self._streams.failure:
            raise self._streams.failure
        if self._canceled:
            raise asyncio.CancelledError

    def _result(self) -> CommandResult:
        end: outcome.End = self._end or {"lost": self._link.last_words}
        if self._listen_error:
            end = {"listener": self._listen_error}
        denials = tuple(denial for server in self._servers for denial in server.denials)
        kept = self._streams.close()
        return outcome.result(self._command, self._sandbox, end, kept=kept, denials=denials, codes=self._exit_codes)

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
                self._listeners += [socket.socket(fileno=fd) for fd in fds]
            case "end", (dict(end),):
                self._end = end
            case "lost", ():
                self._lost = True
        self._changed.set()

    async def _open_ports(self, make: MakeProxy | None) -> None:
        """Serve the ports that the command finds on its loopback: the proxy's, and those of this machine's services."""
        self._link.send("listen", self._number, *self._ports)
        await self._until(lambda: bool(self._listeners) or self._listen_error != 0 or self._over())
        relayed: list[socket.socket] = []
        for listener in self._listeners:
            listener.setblocking(False)
            if not self._sandbox.domains or listener.getsockname()[1] != PROXY_PORT:
                relayed.append(listener)
            elif make and listener.family == socket.AF_INET:  # the address that clients of the proxy are given
                self._servers.append(make(listener))
            else:
                listener.close()
        if relayed:
            self._servers.append(Relay(relayed))
        for server in self._servers:
            await server.start()

    def _request(self) -> tuple[int, int]:
        """A descriptor with the request for spawner.py, and the request's length (starting.py)."""
        prepared = self._link.prepared
        if self._sandbox.tier == "landlock":
            self._scratch = make_scratch(self._sandbox, prepared)
        return start_request(self._command, self._sandbox, prepared, self._scratch)
