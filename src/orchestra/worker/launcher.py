"""The launcher: the only code that starts processes (D-09). decide → wrap → **run**.

    launch ── socket ──▶ supervisor ── own session ──▶ command and whatever it starts
       ◀──── pipes (stdout, stderr) ────────────────────┘

Rules
1. argv only, never a shell; whole environment given; descriptors 0, 1, 2 and no others; no terminal; stdio are pipes.
2. It waits on the process, not on end-of-file: a daemon that keeps the pipe open does not keep us. What is in the pipes
   when the command ends is read for a short while, then everything the command left running is killed.
3. Time limit or cancellation: TERM to all of it, `grace_ms`, then KILL. Cancellation is raised again afterwards.
4. When this returns or raises, no process of the command exists and none is a zombie. When orchestra itself is killed,
   the supervisor sees the socket close and does the same (design §2, last rule).
5. Nothing here blocks the loop but short writes to disk: the pipes push back on a command that writes too fast.

Per command this costs one start of a bare Python (about 15 ms): a pre-started spawner would save most of it and is not
worth its protocol yet.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from orchestra.core.disk import Disk
from orchestra.core.redact import Redactor
from orchestra.worker.capture import Capture, Store
from orchestra.worker.task import Captured, Command, CommandResult
from orchestra.worker.wrap import Containment, wrap

_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))
_DRAIN_S = 0.3  # rule 2: for output already written when the command ended
_END_S = 15.0  # the supervisor's own patience is 10 s
_CHUNK = 1 << 16
OnStart = Callable[[int, str], None]


async def launch(
    command: Command,
    artifact: Path,
    *,
    redactor: Redactor,
    disk: Disk,
    containment: Containment = "none",
    on_start: OnStart | None = None,
) -> CommandResult:
    """Run one command to its end and to the end of everything it started.

    `on_start(pid, start_time)` is called before the command can do anything, so that both can be journaled first. They
    are the supervisor's: SIGTERM to that pid, if it still has that start time, ends the whole tree.
    """
    argv = wrap(command, containment)
    problem = _problem(command, argv)
    if problem:
        return CommandResult(error=problem)
    store = Store(artifact, limit=command.capture_limit, disk=disk)
    try:
        run = _Run(command, store, redactor)
        try:
            await run.to_the_end(argv, on_start)
        finally:
            await run.clear()
        result = run.result(argv)
    except BaseException:
        store.abandon()
        raise
    return result


def start_time(pid: int) -> str:
    """When a process started, in the kernel's ticks since boot: with its pid, its identity. Empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _problem(command: Command, argv: tuple[str, ...]) -> str | None:
    """Why this cannot even be said to the kernel."""
    if not argv or not argv[0]:
        return "cannot start: the command is empty"
    strings = (*argv, command.cwd, *command.env, *command.env.values())
    if any("\0" in part for part in strings) or any("=" in name or not name for name in command.env):
        return "cannot start: an argument or variable holds a NUL character, or a variable's name is not one"
    if not os.path.isdir(command.cwd):
        return f"cannot start: the working folder {command.cwd!r} does not exist"
    return None


class _Run:
    """One command between its start and its last process's end."""

    def __init__(self, command: Command, store: Store, redactor: Redactor) -> None:
        self._command = command
        self._store = store
        self._captures = [Capture(store, redactor, excerpt_limit=command.excerpt_limit) for _ in range(2)]
        self._loop = asyncio.get_running_loop()
        self._control, theirs = socket.socketpair()
        with theirs:
            # close_fds and an empty environment: the supervisor holds nothing of ours (sandbox.md §3, traps 1 and 6).
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _SUPERVISOR, str(theirs.fileno())],
                stdin=subprocess.PIPE if command.stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={},
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._started = time.monotonic()
        self._status: int | None = None  # wait status of the command
        self._errno: int | None = None
        self._pid = 0
        self._timed_out = False
        self._canceled = False
        self._failure: BaseException | None = None  # raised while storing: the disk is full
        self._duration = 0.0
        self._open: set[int] = set()
        self._changed = asyncio.Event()
        self._said = b""
        self._unwritten = memoryview(command.stdin)

    async def to_the_end(self, argv: tuple[str, ...], on_start: OnStart | None) -> None:
        """Request, run, limit: until the command has ended or was told to."""
        for stream, capture in zip((self._process.stdout, self._process.stderr), self._captures, strict=True):
            assert stream is not None
            self._watch(stream.fileno(), self._read, stream.fileno(), capture)
        self._watch(self._control.fileno(), self._listen)
        if on_start:
            on_start(self._process.pid, start_time(self._process.pid))
        try:
            await self._loop.sock_sendall(self._control, _request(self._command, argv))
        except (BrokenPipeError, ConnectionResetError):
            return  # the supervisor died: `result` says so
        self._feed_stdin()
        try:
            async with asyncio.timeout(self._command.timeout_ms / 1000):
                await self._wait_until(self._ended)
        except TimeoutError:
            self._timed_out = True
            await self._terminate()
        except asyncio.CancelledError:
            self._canceled = True
            await self._terminate()
        if self._canceled:
            raise asyncio.CancelledError

    async def clear(self) -> None:
        """Read what is left, kill what is left, reap, close. Not interruptible: rule 4 outranks a second cancel."""
        ending = asyncio.ensure_future(self._clear())
        canceled = False
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                canceled = True
        ending.result()
        if self._failure:
            raise self._failure
        if canceled:
            raise asyncio.CancelledError

    def result(self, argv: tuple[str, ...]) -> CommandResult:
        """What happened; the artifact is durable when this returns."""
        stdout, stderr = (capture.close() for capture in self._captures)
        error: str | None = None
        code: int | None = None
        number: int | None = None
        if self._errno is not None:
            error = _why(self._errno, argv[0], self._command.cwd)
        elif self._status is None:
            said = f": {stderr.excerpt[-500:]}" if not self._pid and stderr.excerpt else ""
            error = f"the supervisor of the command ended before it{said}"
            stderr = stderr if self._pid else Captured()
        elif os.WIFSIGNALED(self._status):
            number = os.WTERMSIG(self._status)
        else:
            code = os.waitstatus_to_exitcode(self._status)
        return CommandResult(
            exitCode=code,
            signal=number,
            error=error,
            timedOut=self._timed_out,
            canceled=self._canceled,
            durationMs=round(self._duration * 1000),
            stdout=stdout,
            stderr=stderr,
            artifact=self._store.close(),
        )

    def _ended(self) -> bool:
        return (
            self._status is not None
            or self._errno is not None
            or self._failure is not None
            or self._control.fileno() not in self._open
        )

    async def _wait_until(self, done: Callable[[], bool]) -> None:
        while not done():
            self._changed.clear()
            await self._changed.wait()

    async def _terminate(self) -> None:
        try:
            self._control.send(b"T")
        except OSError:
            return  # the supervisor has ended: there is nobody to tell, and nothing to end
        try:
            async with asyncio.timeout(self._command.grace_ms / 1000):
                await self._wait_until(self._ended)
        except TimeoutError:
            pass  # it ignores TERM: KILL follows
        except asyncio.CancelledError:
            self._canceled = True  # ends the grace; raised when nothing is left running

    async def _clear(self) -> None:
        self._duration = time.monotonic() - self._started
        control = self._control.fileno()
        if self._status is not None and not (self._timed_out or self._canceled or self._failure):
            await self._settle(lambda: self._open <= {control}, _DRAIN_S)
        self._hang_up()
        await self._settle(lambda: control not in self._open, _END_S)
        await self._settle(lambda: not self._open, _DRAIN_S)
        if control in self._open:
            self._process.kill()  # it did not answer: nothing more can be done through it
        for fd in list(self._open):
            self._unwatch(fd)
        self._close_stdin()
        for stream in (self._process.stdout, self._process.stderr):
            if stream:
                stream.close()
        self._control.close()
        self._process.wait()  # it closed its socket by exiting, or was killed: no wait worth the name
        if self._pid and self._status is None:
            _kill_group(self._pid)  # the supervisor was killed: end what we still know of

    async def _settle(self, done: Callable[[], bool], seconds: float) -> None:
        """Wait until `done`, but no longer than `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._wait_until(done)
        except TimeoutError:
            pass  # rule 2: somebody holds the pipe; he is killed next

    def _hang_up(self) -> None:
        try:
            self._control.shutdown(socket.SHUT_WR)  # what it would see if we died: one way to end, always tested
        except OSError:
            pass  # the supervisor has ended already

    def _listen(self) -> None:
        try:
            data = self._control.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._unwatch(self._control.fileno())
            return
        *lines, self._said = (self._said + data).split(b"\n")
        for line in lines:
            word, _, number = line.partition(b" ")
            match word:
                case b"S":
                    self._pid = int(number)
                    self._started = time.monotonic()
                case b"E":
                    self._errno = int(number)
                case b"X":
                    self._status = int(number)
        self._changed.set()

    def _read(self, fd: int, capture: Capture) -> None:
        try:
            data = os.read(fd, _CHUNK)
            if data:
                capture.feed(data)
                return
        except BlockingIOError:
            return
        except (
            Exception
        ) as failure:  # a boundary: the loop would only log it. Stop the command, then raise it (DiskFull)
            self._failure = failure
        self._unwatch(fd)

    def _feed_stdin(self) -> None:
        if self._process.stdin is None:
            return
        fd = self._process.stdin.fileno()
        os.set_blocking(fd, False)
        self._loop.add_writer(fd, self._write)

    def _write(self) -> None:
        assert self._process.stdin is not None
        try:
            self._unwritten = self._unwritten[os.write(self._process.stdin.fileno(), self._unwritten[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            self._unwritten = self._unwritten[:0]  # it does not want to read the rest: its right
        if not self._unwritten:
            self._close_stdin()

    def _close_stdin(self) -> None:
        if self._process.stdin and not self._process.stdin.closed:
            self._loop.remove_writer(self._process.stdin.fileno())
            self._process.stdin.close()

    def _watch(self, fd: int, callback: Callable[..., None], *args: object) -> None:
        os.set_blocking(fd, False)
        self._open.add(fd)
        self._loop.add_reader(fd, callback, *args)

    def _unwatch(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        self._open.discard(fd)
        self._changed.set()


def _request(command: Command, argv: tuple[str, ...]) -> bytes:
    """The wire form that supervisor.py reads (its rule 1)."""
    parts = [command.cwd, str(len(argv)), *argv, *(f"{name}={value}" for name, value in command.env.items())]
    body = b"\0".join(os.fsencode(part) for part in parts)
    return len(body).to_bytes(8, "big") + body


def _why(number: int, program: str, cwd: str) -> str:
    match number:
        case errno.ENOENT | errno.ENOTDIR if not os.path.isdir(cwd):
            return f"cannot start: the working folder {cwd!r} does not exist"
        case errno.ENOENT | errno.ENOTDIR:
            return f"cannot start: {program!r} was not found (or the interpreter its first line names)"
        case errno.EACCES | errno.EPERM:
            return f"cannot start: {program!r} is not executable, or a folder on the way is closed to us"
        case errno.ENOEXEC:
            return f"cannot start: {program!r} is neither a program nor a script with a #! line"
        case errno.E2BIG:
            return f"cannot start: {program!r}: arguments and environment are too long; pass big input by stdin"
        case _:
            return f"cannot start: {program!r}: {os.strerror(number)}"


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, 9)
    except (ProcessLookupError, PermissionError):
        pass  # gone already
