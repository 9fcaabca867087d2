"""The journal's eight rules."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from orchestra.core.disk import Chaos, Disk
from orchestra.core.errors import DiskFull, JournalCorrupt
from orchestra.core.journal import FileFollower, FileJournal, first_is_own, read_events, read_journal
from orchestra.core.records import Event
from orchestra.core.seal import Seal
from tests.support.core import REDACTOR, SEAL, CountingDisk


def event(number: int, **payload: object) -> Event:
    return Event(
        id=f"{number:08d}",
        runId="r",
        ts="2026-02-14T12:34:56Z",
        type="RUN_CREATED" if number == 1 else "PHASE_COMPLETED",
        payload=dict(payload),
    )


def journal(path: Path, disk: Disk | None = None) -> FileJournal:
    opened = FileJournal(path, disk=disk or Disk(), redactor=REDACTOR, seal=SEAL)
    opened.load()
    return opened


def filled(path: Path, count: int = 5) -> bytes:
    opened = journal(path)
    for number in range(1, count + 1):
        opened.append(event(number, text=f"줄 {number}"))
    opened.close()
    return path.read_bytes()


@pytest.mark.spec("S1-114", "S1-115")
def test_lines_are_json_objects_and_earlier_bytes_never_change(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    opened = journal(path)
    before = b""
    for number in range(1, 20):
        opened.append(event(number, text="가나다"))
        data = path.read_bytes()
        assert data.startswith(before) and data.endswith(b"\n")
        before = data
    opened.close()
    assert [e.id for e in read_events(path)] == [f"{n:08d}" for n in range(1, 20)]


@pytest.mark.parametrize("cut", [1, 30, 60])
def test_a_torn_last_line_is_cut_off_and_reported_and_the_journal_goes_on(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "events.ndjson"
    data = filled(path)
    path.write_bytes(data[:-cut])
    whole = data[:-cut].rfind(b"\n") + 1
    opened = FileJournal(path, disk=Disk(), redactor=REDACTOR, seal=SEAL)
    assert len(opened.load()) == 4
    assert opened.torn_bytes == len(data) - cut - whole
    opened.append(event(5, text="again"))
    opened.close()
    assert [e.payload["text"] for e in read_events(path)] == ["줄 1", "줄 2", "줄 3", "줄 4", "again"]


def test_zeros_after_a_power_cut_are_a_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    data = filled(path)
    path.write_bytes(data + b"\0" * 4096)
    assert len(journal(path).load()) == 5
    assert path.read_bytes() == data


def test_a_reader_sees_whole_lines_only(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    data = filled(path)
    path.write_bytes(data[:-10])
    assert len(read_events(path)) == 4
    follower = FileFollower(path)
    assert len(list(follower.new())) == 4
    path.write_bytes(data)
    assert [e.id for e in follower.new()] == ["00000005"]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("not JSON", lambda line: b"x" * (len(line) - 1) + b"\n"),
        ("one letter of a text", lambda line: line.replace("줄".encode(), "굴".encode())),
        ("not UTF-8", lambda line: line.replace(b"payload", b"payl\xff\xfed")),
        ("a missing field", lambda line: line.replace(b'"runId":"r",', b"")),
        ("an unknown type", lambda line: line.replace(b"PHASE_COMPLETED", b"PHASE_COMPLETEX")),
        ("an empty line", lambda line: b"\n"),
        ("the line gone", lambda line: b""),
    ],
)
def test_damage_in_the_middle_is_refused_with_the_line_number_and_nothing_is_overwritten(
    tmp_path: Path, name: str, damage: object
) -> None:
    path = tmp_path / "events.ndjson"
    lines = filled(path).splitlines(keepends=True)
    assert callable(damage)
    lines[2] = damage(lines[2])
    path.write_bytes(b"".join(lines))
    before = path.read_bytes()
    with pytest.raises(JournalCorrupt) as refused:
        FileJournal(path, disk=Disk(), redactor=REDACTOR, seal=SEAL).load()
    assert refused.value.line in (2, 3)
    assert f"line {refused.value.line}" in str(refused.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("number", [1, 3, 5])
def test_a_view_names_the_line_that_is_damaged(tmp_path: Path, number: int) -> None:
    path = tmp_path / "events.ndjson"
    lines = filled(path).splitlines(keepends=True)
    lines[number - 1] = b"{\n"
    path.write_bytes(b"".join(lines))
    for read in (read_events, read_journal):
        with pytest.raises(JournalCorrupt) as refused:
            read(path)
        assert refused.value.line == number


def test_barriers_of_one_turn_of_the_loop_share_one_sync(tmp_path: Path) -> None:
    disk = CountingDisk()
    opened = journal(tmp_path / "events.ndjson", disk)

    async def branch(number: int) -> None:
        opened.append(event(number))
        await opened.barrier()

    async def all_of_them() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(1, 101):
                group.create_task(branch(number))

    asyncio.run(all_of_them())
    assert disk.kinds.count("append") == 100
    assert disk.kinds.count("sync") == 1


def test_a_barrier_with_nothing_new_costs_nothing(tmp_path: Path) -> None:
    disk = CountingDisk()
    opened = journal(tmp_path / "events.ndjson", disk)

    async def twice() -> None:
        opened.append(event(1))
        await opened.barrier()
        await opened.barrier()

    asyncio.run(twice())
    assert disk.kinds == ["append", "sync"]


def test_a_barrier_does_not_wait_for_what_was_written_after_it_was_asked_for(tmp_path: Path) -> None:
    disk = CountingDisk()
    opened = journal(tmp_path / "events.ndjson", disk)

    async def one() -> None:
        opened.append(event(1))
        waits = asyncio.ensure_future(opened.barrier())
        await asyncio.sleep(0)  # now it has asked
        opened.sync()
        opened.append(event(2))
        await waits

    asyncio.run(one())
    assert disk.kinds == ["append", "sync", "append"]


def test_a_cancelled_waiter_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    disk = CountingDisk()
    opened = journal(tmp_path / "events.ndjson", disk)

    async def two() -> None:
        opened.append(event(1))
        first = asyncio.ensure_future(opened.barrier())
        second = asyncio.ensure_future(opened.barrier())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await second

    asyncio.run(two())
    assert disk.kinds == ["append", "sync"]


def test_a_full_disk_leaves_whole_lines_and_a_journal_that_refuses_more(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    data = filled(path)
    opened = journal(path, Disk(Chaos(2, "enospc")))
    opened.append(event(6))
    after_one = path.read_bytes()
    for _ in range(2):
        with pytest.raises(DiskFull, match="disk is full"):
            opened.append(event(7))
    assert path.read_bytes() == after_one
    assert after_one.startswith(data)


def test_what_is_written_is_redacted_and_the_caller_goes_on_with_that(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    opened = journal(path)
    kept = opened.append(event(1, text="key: s3cr3t-value-1234", deep=[{"x": ("s3cr3t-value-1234",)}]))
    assert b"s3cr3t" not in path.read_bytes()
    assert kept.payload["text"] == "key: ***REDACTED***"
    assert read_events(path) == [kept]


@pytest.mark.parametrize(
    ("seal", "damage", "own"),
    [(SEAL, b"", True), (Seal(b"another key"), b"", False), (None, b"", False), (SEAL, b"{", False)],
)
def test_only_a_first_line_that_this_users_key_sealed_is_theirs(
    tmp_path: Path, seal: Seal | None, damage: bytes, own: bool
) -> None:
    path = tmp_path / "events.ndjson"
    path.write_bytes(damage + filled(path))
    assert first_is_own(path, seal) is own
    assert not first_is_own(tmp_path / "gone", seal)


def test_the_journal_is_for_its_owner_only(tmp_path: Path) -> None:
    filled(tmp_path / "events.ndjson")
    assert os.stat(tmp_path / "events.ndjson").st_mode & 0o777 == 0o600
