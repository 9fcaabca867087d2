"""8. Starting one command in tier strict: `prepare` and `run` of `true`, against `posix_spawn` and a bare Python start.

The spawner is started once, before. Ours includes what every command has: pipes, its artifact (a file, a durable name),
the handshake. `bwrap` with the same options and nothing around it says how much of it is the sandbox itself.
"""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import Row, Timed, interleaved, scratch, time_text

from orchestra.core.disk import Disk
from orchestra.core.redact import Redactor
from orchestra.worker import host, seccomp
from orchestra.worker.launcher import Launcher
from orchestra.worker.task import Command, Sandbox
from orchestra.worker.wrap import ARGS, BLOCK, SECCOMP, STATUS, wrap

ROUNDS, LARGE_ROUNDS, LARGE = 101, 51, 1 << 30


def bench() -> list[Row]:
    with scratch("launch") as folder, _launched(folder / "workspace") as ours, bare_bwrap(folder) as start:

        def bwrap() -> float:
            begin = time.perf_counter()
            os.waitpid(start(), 0)
            return time.perf_counter() - begin

        times = interleaved(
            ROUNDS, ours, _spawned("/bin/true"), _spawned(sys.executable, "-I", "-S", "-c", "pass"), bwrap
        )
        ballast = bytearray(LARGE)
        ballast[::4096] = b"x" * (LARGE // 4096)
        large = interleaved(LARGE_ROUNDS, ours, _spawned("/bin/true"))
        del ballast
    mine, bare, python, alone = (time_text(times.median(side)) for side in range(4))
    return [
        Row("launch of `true`, tier strict", mine, f"{bare} posix_spawn", times.ratio(0, 1), 9.0),
        Row("  the same against one Python start", mine, f"{python} python -I -S -c pass", times.ratio(0, 2), 1.0),
        Row("  the same, from a parent of 1 GB, against a small one", *_flat(large.ratio(0, 1), times.ratio(0, 1))),
        Row("  the same against bwrap alone, same options", mine, f"{alone} bwrap", times.ratio(0, 3)),
    ]


def _flat(large: float, small: float) -> tuple[str, str, float, float]:
    return f"{large:.2f} x posix_spawn", f"{small:.2f} x", large / small, 1.15


@contextmanager
def _launched(folder: Path) -> Iterator[Timed]:
    folder.mkdir()
    command = Command(argv=("/bin/true",), cwd=str(folder), env={}, timeout_ms=10_000)
    sandbox = Sandbox(workspace=str(folder))
    numbers, launcher = itertools.count(), Launcher(Disk(), Redactor())
    with asyncio.Runner() as runner:

        def once() -> float:
            path = folder / f"{next(numbers)}.txt"
            start = time.perf_counter()
            result = runner.run(launcher.launch(command, sandbox, path, None))
            taken = time.perf_counter() - start
            if result.exitCode != 0:
                raise RuntimeError(result.error)
            return taken

        once()
        yield once
        runner.run(launcher.close())


def _spawned(*argv: str) -> Timed:
    def once() -> float:
        start = time.perf_counter()
        os.waitpid(os.posix_spawn(argv[0], argv, {}), 0)
        return time.perf_counter() - start

    return once


@contextmanager
def bare_bwrap(
    folder: Path, command: Command | None = None, sandbox: Sandbox | None = None
) -> Iterator[Callable[[], int]]:
    """Starts bwrap with the options of a command, nothing before, beside or after it; gives its pid."""
    workspace = folder / "bare"
    workspace.mkdir()
    (folder / "prepared").mkdir()
    sandbox = sandbox or Sandbox(workspace=str(workspace))
    command = command or Command(argv=("/bin/true",), cwd=sandbox.workspace, env={}, timeout_ms=10_000)
    found = host.find_bwrap()
    if found is None:
        raise RuntimeError(host.NO_BWRAP)
    options = wrap(command, sandbox, host.facts(sandbox, host.Prepared(folder / "prepared")))
    texts = {ARGS: b"\0".join(options) + b"\0", SECCOMP: seccomp.program()}
    ready, null = _high(os.open("/dev/zero", os.O_RDONLY)), _high(os.open(os.devnull, os.O_RDWR))
    given = {0: null, 1: null, 2: null, STATUS: null, BLOCK: ready}  # its block is open already

    def start() -> int:
        own = {number: _memory(text) for number, text in texts.items()}
        actions = [(os.POSIX_SPAWN_DUP2, source, target) for target, source in (given | own).items()]
        argv = ["bwrap", "--args", str(ARGS), "--", *command.argv]
        pid = os.posix_spawn(found.path, argv, {}, file_actions=actions, setsid=True)
        for fd in own.values():
            os.close(fd)
        return pid

    try:
        yield start
    finally:
        os.close(ready)
        os.close(null)


def _memory(data: bytes) -> int:
    fd = os.memfd_create("bench")
    os.pwrite(fd, data, 0)
    return _high(fd)


def _high(fd: int) -> int:
    """The descriptor under a number that no descriptor of a command's is in the way of."""
    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64)
    os.close(fd)
    return high
