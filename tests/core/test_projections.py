"""Files that are derived from events: kept up to date, and rebuilt whatever happened to them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from orchestra.core.disk import Chaos, Disk
from orchestra.core.errors import DiskFull
from orchestra.core.ledger import Ledger
from orchestra.core.projections import Document, Lines, Projection, shared
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from tests.support.core import OPEN_TABLE, CountingDisk, new_ledger


def line(event: Event) -> bytes | None:
    return f"{event.id} {event.type} 한 줄\n".encode() if event.type != "PHASE_STARTED" else None


def all_of(events: Sequence[Event]) -> bytes:
    return "".join(f"{event.id} {event.type} 문서\n" for event in events).encode()


def opened(path: Path, *projections: Projection, disk: Disk | None = None) -> Ledger:
    path.mkdir(exist_ok=True)
    ledger = new_ledger(RunFolder(path), OPEN_TABLE, disk=disk, projections=projections)
    ledger.open()
    return ledger


def life(path: Path, *projections: Projection, steps: int = 3, end: bool = False) -> None:
    """One process: it records some steps, and perhaps the end."""
    ledger = opened(path, *projections)
    if not ledger.events:
        ledger.record("RUN_CREATED", {"workflow": "open"})
    for _ in range(steps):
        ledger.record("PHASE_STARTED", {}, "plan", 1)
        ledger.record("PHASE_COMPLETED", {}, "plan", 1)
    if end:
        ledger.end("RUN_COMPLETED", {"result": {}, "exitCode": 0})
    ledger.close()


def files(path: Path) -> tuple[Path, Path]:
    return path / "grown.jsonl", path / "whole.md"


def both(path: Path, disk: Disk | None = None) -> tuple[Projection, Projection]:
    grown, whole = files(path)
    return Lines.of(grown, disk or Disk(), line), Document(whole, disk or Disk(), all_of)


def _linked(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "removed": os.unlink,
    "torn": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"more\n"),
    "edited": lambda path: path.write_bytes(path.read_bytes().replace(b"RUN_CREATED", b"RUN_CREATEX")),
    "emptied": lambda path: path.write_bytes(b""),
    "a link": _linked,
}


@pytest.mark.spec("D-01")
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("ended", [False, True])
def test_a_file_is_what_the_events_give_whatever_was_done_to_it(tmp_path: Path, damage: str, ended: bool) -> None:
    run = tmp_path / "run"
    life(run, *both(run), end=ended)
    wanted = [path.read_bytes() for path in files(run)]
    assert wanted[0].decode().count("한 줄") == (5 if ended else 4)
    for path in files(run):
        DAMAGES[damage](path)
    opened(run, *both(run)).close()
    assert [path.read_bytes() for path in files(run)] == wanted
    if not ended:
        life(run, *both(run), steps=1)
        events = opened(run).events
        assert files(run)[0].read_bytes() == b"".join(filter(None, map(line, events)))
        assert files(run)[1].read_bytes() == all_of(events)


def test_a_file_that_is_right_is_not_written_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    life(run, *both(run), end=True)
    disk = CountingDisk()
    opened(run, *both(run, disk)).close()
    assert disk.operations == []


@pytest.mark.spec("C-26")
def test_a_document_of_the_end_is_there_before_the_last_event_and_knows_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    report = run / "report.md"
    disk = CountingDisk()
    ledger = opened(run, Document(report, disk, all_of, written="ended"), disk=disk)
    ledger.record("RUN_CREATED", {"workflow": "open"})
    assert not report.exists()
    ledger.end("RUN_FAILED", {"error": {"code": "X", "message": "망가짐"}, "exitCode": 1})
    ledger.close()
    assert report.read_bytes() == all_of(ledger.events) and ledger.events[-1].type == "RUN_FAILED"
    written = disk.operations.index(("replace", "report.md"))
    appends = [n for n, done in enumerate(disk.operations) if done == ("append", "events.ndjson")]
    assert appends[0] < written < appends[1]
    report.unlink()
    opened(run, Document(report, disk, all_of, written="ended")).close()
    assert report.read_bytes() == all_of(ledger.events)


def test_a_run_that_does_not_own_a_file_leaves_it_alone(tmp_path: Path) -> None:
    """Files outside the run's folder belong to the newest run of its lineage."""
    run, outside = tmp_path / "run", tmp_path / "contracts"
    outside.mkdir()
    owner = True

    def outer() -> tuple[Projection, ...]:
        grown, whole = files(outside)
        made = Lines.of(grown, Disk(), line), Document(whole, Disk(), all_of)
        return shared(made, run, lambda: nullcontext(owner))

    life(run, *outer())
    assert all(path.exists() for path in files(outside))
    owner = False
    for path in files(outside):
        path.write_text("다른 실행의 것\n")
    life(run, *outer(), end=True)
    assert {path.read_text() for path in files(outside)} == {"다른 실행의 것\n"}


def test_a_burst_of_events_publishes_a_document_a_few_times_and_ends_complete(tmp_path: Path) -> None:
    run = tmp_path / "run"
    disk = CountingDisk()

    async def burst() -> Ledger:
        ledger = opened(run, Document(run / "whole.md", disk, all_of))
        ledger.record("RUN_CREATED", {"workflow": "open"})
        for _ in range(500):
            ledger.record("PHASE_STARTED", {}, "plan", 1)
        ledger.close()
        return ledger

    ledger = asyncio.run(burst())
    assert (run / "whole.md").read_bytes() == all_of(ledger.events)
    assert disk.operations.count(("replace", "whole.md")) < 100


def test_lines_that_wait_for_each_other_are_all_there_at_the_end(tmp_path: Path) -> None:
    run = tmp_path / "run"
    disk = CountingDisk()

    async def busy() -> Ledger:
        ledger = opened(run, Lines(run / "grown.jsonl", disk, lambda: line, together=lambda event: True))
        ledger.record("RUN_CREATED", {"workflow": "open"})
        for _ in range(1000):
            ledger.record("PHASE_COMPLETED", {}, "plan", 1)
        ledger.close()
        return ledger

    ledger = asyncio.run(busy())
    assert (run / "grown.jsonl").read_bytes() == b"".join(filter(None, map(line, ledger.events)))
    assert disk.kinds.count("append") < 100


def test_only_so_many_lines_wait_for_each_other(tmp_path: Path) -> None:
    grown = tmp_path / "grown.jsonl"
    lines = Lines(grown, Disk(), lambda: line, together=lambda event: True)
    event = Event("1", "r", "2026-01-01T00:00:00Z", "PHASE_COMPLETED", {})

    async def burst(count: int) -> None:
        for _ in range(count):
            lines.write(event)

    async def bursts() -> None:
        await burst(255)
        assert not grown.exists()
        await burst(1)
        assert grown.read_bytes() == (line(event) or b"") * 256
        lines.close()

    asyncio.run(bursts())


@pytest.mark.parametrize("kind", ["lines", "document"])
def test_a_delayed_write_that_fails_is_told_by_the_next_call(tmp_path: Path, kind: str) -> None:
    run = tmp_path / "run"
    full = Disk(Chaos(3 if kind == "document" else 1, "enospc"))

    async def failing() -> None:
        late = Lines(run / "grown.jsonl", full, lambda: line, together=lambda event: True)
        file: Projection = late if kind == "lines" else Document(run / "whole.md", full, all_of)
        ledger = opened(run, file)
        with pytest.raises(DiskFull):
            ledger.record("RUN_CREATED", {"workflow": "open"})
            for _ in range(5):
                ledger.record("PHASE_COMPLETED", {}, "plan", 1)
                await asyncio.sleep(0.06)
        ledger.journal.close()

    asyncio.run(failing())
    opened(run, *both(run)).close()
    assert files(run)[0].read_bytes().count(b"PHASE_COMPLETED") >= 1


def test_a_file_in_the_place_of_lines_that_no_event_has_is_emptied(tmp_path: Path) -> None:
    path = tmp_path / "grown.jsonl"
    grown = Lines.of(path, Disk(), lambda event: None)
    grown.restore([])
    assert not path.exists()
    path.write_text("남의 줄\n")
    grown.restore([])
    assert path.read_bytes() == b""
