"""7. Information without targets: the redactor's throughput, the launcher's cost, the time to work out a patch."""

from __future__ import annotations

import asyncio
import difflib
import itertools
import os
import time
from pathlib import Path

from measure import Row, Timed, interleaved, scratch, time_text

from orchestra.core.disk import Disk
from orchestra.core.redact import Redactor
from orchestra.patch.diff import Refused, parse_diff
from orchestra.patch.locate import Image, compute
from orchestra.patch.safety import check
from orchestra.worker.launcher import launch
from orchestra.worker.task import Command

_LOG = (
    b"2026-01-01T00:00:00Z INFO  src/total.py:42 computed 17 totals in 3.4 ms (cache hit)\n"
    b"tests/test_total.py::test_discount FAILED   [ 42%]\n"
    b"E       assert total(cart, discount=0.1) == Decimal('90.00')\n"
    b"config: {'host': 'localhost', 'port': 5432, 'user': 'app', 'token_limit': 4096}\n"
)


def bench() -> list[Row]:
    with scratch("parts") as folder:
        return [_redactor(), _launcher(folder), _patch()]


def _redactor() -> Row:
    """64 KiB pieces of a test log through a stream, against copying them."""
    piece = (_LOG * (65536 // len(_LOG) + 1))[:65536]
    redactor = Redactor(["a-known-value-of-this-process"])
    size = 128 * len(piece) / 1e6

    def masked() -> float:
        stream = redactor.stream()
        start = time.perf_counter()
        for _ in range(128):
            stream.feed(piece)
        stream.close()
        return time.perf_counter() - start

    def copied() -> float:
        start = time.perf_counter()
        for _ in range(128):
            bytearray(piece)
        return time.perf_counter() - start

    times = interleaved(7, masked, copied)
    ours, bare = (f"{size / times.median(side):,.0f} MB/s" for side in range(2))
    return Row("redactor, stream of a test log", ours, f"{bare} copy", times.ratio(0, 1))


def _launcher(folder: Path) -> Row:
    """`true` with its supervisor, pipes and artifact, against posix_spawn and waitpid."""
    command = Command(argv=("/bin/true",), cwd=str(folder), env={}, timeout_ms=10_000)
    redactor, disk, numbers = Redactor(), Disk(), itertools.count()

    def launched(runner: asyncio.Runner) -> Timed:
        def once() -> float:
            start = time.perf_counter()
            runner.run(launch(command, folder / f"{next(numbers)}.txt", redactor=redactor, disk=disk))
            return time.perf_counter() - start

        return once

    def spawned() -> float:
        start = time.perf_counter()
        os.waitpid(os.posix_spawn("/bin/true", ["/bin/true"], {}), 0)
        return time.perf_counter() - start

    with asyncio.Runner() as runner:
        times = interleaved(25, launched(runner), spawned)
    ours, bare = (time_text(times.median(side)) for side in range(2))
    return Row("launcher: `true`", ours, f"{bare} posix_spawn", times.ratio(0, 1))


def _patch() -> Row:
    """Parse, check and locate a patch of two hunks in a file of 400 lines, against making it with difflib."""
    old = [f"line {number} = {number * 7}\n" for number in range(400)]
    new = [*old[:100], "added one\n", *old[100:300], "changed\n", *old[301:]]
    text = "".join(difflib.unified_diff(old, new, "a/file.py", "b/file.py"))
    images = {"file.py": Image("".join(old).encode(), 0o644)}

    def computed() -> float:
        start = time.perf_counter()
        changes = parse_diff(text)
        if isinstance(changes, Refused) or check(changes) or isinstance(compute(changes, images), Refused):
            raise RuntimeError("the patch was refused")
        return time.perf_counter() - start

    def made() -> float:
        start = time.perf_counter()
        list(difflib.unified_diff(old, new, "a/file.py", "b/file.py"))
        return time.perf_counter() - start

    times = interleaved(51, computed, made)
    ours, bare = (time_text(times.median(side)) for side in range(2))
    return Row("patch of two hunks, 400 lines: parse, check, locate", ours, f"{bare} difflib", times.ratio(0, 1))
