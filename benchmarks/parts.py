"""7. Small parts: working out a patch, sealing a decision, checking the seals of a journal."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable
from pathlib import Path

from durable import SEAL, LazyDisk, open_ledger
from measure import Row, interleaved, scratch, time_text

from orchestra.core import inbox
from orchestra.core.journal import read_journal
from orchestra.patch.diff import Refused, parse_diff
from orchestra.patch.locate import Image, compute
from orchestra.patch.safety import check


def bench() -> list[Row]:
    with scratch("parts") as folder:
        return [_patch(), _decision(), _opened(folder)]


def _decision() -> Row:
    """An approval sealed, against the millisecond it may take."""
    said = inbox.message("approve", "minsu", digest="sha256:" + "0" * 64, text="좋아요")

    def sealed() -> float:
        start = time.perf_counter()
        for _ in range(100):
            SEAL.closes(said, "2026-01-01_001_loop_x", "0" * 32, "approval-0001")
        return (time.perf_counter() - start) / 100

    seconds = interleaved(21, sealed, sealed).median(0)
    return Row("a decision's seal, against 1 ms", time_text(seconds), "1 ms", seconds / 0.001, 1.0)


def _opened(folder: Path) -> Row:
    """A journal of 10,000 lines read with the key, against the same without one: as it was before lines were sealed."""
    ledger = open_ledger(folder / "run", LazyDisk())
    for number in range(5_000):
        key = {"key": f"step.{number}", "effect": "Say"}
        ledger.record("PHASE_STARTED", {**key, "intent": "sha256:" + "0" * 64}, "plan", 1)
        ledger.record("PHASE_COMPLETED", {**key, "outcome": {"text": "x" * 60, "times": 1}}, "plan", 1)
    ledger.close()
    path = ledger.folder.events

    def timed(read: Callable[[], object]) -> float:
        start = time.perf_counter()
        read()
        return time.perf_counter() - start

    times = interleaved(21, lambda: timed(lambda: read_journal(path, SEAL)), lambda: timed(lambda: read_journal(path)))
    ours, bare = (time_text(times.median(side)) for side in range(2))
    return Row("a journal of 10,000 lines, every seal checked", ours, f"{bare} digests only", times.ratio(0, 1), 1.1)


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
