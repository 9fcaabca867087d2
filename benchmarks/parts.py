"""7. Small parts: working out a patch, sealing a decision, checking the seals of a journal."""

from __future__ import annotations

import difflib
import hashlib
import time
from pathlib import Path
from typing import Any

import msgspec
from durable import SEAL, LazyDisk, open_ledger, redactor
from measure import Row, interleaved, scratch, time_text
from msgspec import UNSET, Struct, UnsetType

from orchestra.core import inbox
from orchestra.core.collector import uncollected
from orchestra.core.journal import FileJournal
from orchestra.core.records import EventType, Phase, Time
from orchestra.core.work import Refusal
from orchestra.patch.diff import parse_diff
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
    """Opening a journal of 10,000 lines, every seal checked, against what opening did before lines were sealed."""
    ledger = open_ledger(folder / "run", LazyDisk())
    for number in range(5_000):
        key = {"key": f"step.{number}", "effect": "Say"}
        ledger.record("PHASE_STARTED", {**key, "intent": "sha256:" + "0" * 64}, "plan", 1)
        ledger.record("PHASE_COMPLETED", {**key, "outcome": {"text": "x" * 60, "times": 1}}, "plan", 1)
    ledger.close()
    journal = FileJournal(ledger.folder.events, disk=LazyDisk(), redactor=redactor(), seal=SEAL)
    unsealed = _unsealed(ledger.folder.events.read_bytes())

    def opened() -> float:
        start = time.perf_counter()
        journal.load()
        return time.perf_counter() - start

    def before() -> float:
        start = time.perf_counter()
        _open_unsealed(unsealed)
        return time.perf_counter() - start

    times = interleaved(41, opened, before)
    ours, bare = (time_text(times.median(side)) for side in range(2))
    what = "opening a journal of 10,000 lines, every seal checked"
    return Row(what, ours, f"{bare} before lines were sealed", times.ratio(0, 1), 1.1)


class _Event(Struct, frozen=True, gc=False):
    """An event as it was decoded then: with the pattern of its time."""

    id: str
    runId: str
    ts: Time
    type: EventType
    payload: dict[str, Any]
    phase: Phase | UnsetType = UNSET
    iteration: int | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Event).decode


def _unsealed(data: bytes) -> bytes:
    """The journal as it would have been then: no seals, and the digests of such lines."""
    lines: list[bytes] = []
    for line in data.splitlines(keepends=True):
        record = msgspec.json.decode(line)
        payload = {name: value for name, value in record["payload"].items() if name not in ("seal", "prev")}
        record["payload"] = {**payload, "prev": _digest(lines[-1])} if lines else payload
        lines.append(msgspec.json.encode(record) + b"\n")
    return b"".join(lines)


def _open_unsealed(data: bytes) -> list[_Event]:
    """What `Journal.load` did in 5ec9a6f, the commit before lines were sealed; the file is in memory already."""
    events: list[_Event] = []
    before = ""
    with uncollected():
        for line in data.split(b"\n")[:-1]:
            event = _decode(line)
            prev = event.payload.get("prev")
            if prev is not None and prev != before:
                raise RuntimeError("the journal is damaged")
            events.append(event)
            before = _digest(line + b"\n")
    return events


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:16]


def _patch() -> Row:
    """Parse, check and locate a patch of two hunks in a file of 400 lines, against making it with difflib."""
    old = [f"line {number} = {number * 7}\n" for number in range(400)]
    new = [*old[:100], "added one\n", *old[100:300], "changed\n", *old[301:]]
    text = "".join(difflib.unified_diff(old, new, "a/file.py", "b/file.py"))
    images = {"file.py": Image("".join(old).encode(), 0o644)}

    def computed() -> float:
        start = time.perf_counter()
        changes = parse_diff(text)
        if isinstance(changes, Refusal) or check(changes) or isinstance(compute(changes, images), Refusal):
            raise RuntimeError("the patch was refused")
        return time.perf_counter() - start

    def made() -> float:
        start = time.perf_counter()
        list(difflib.unified_diff(old, new, "a/file.py", "b/file.py"))
        return time.perf_counter() - start

    times = interleaved(51, computed, made)
    ours, bare = (time_text(times.median(side)) for side in range(2))
    return Row("patch of two hunks, 400 lines: parse, check, locate", ours, f"{bare} difflib", times.ratio(0, 1))
