"""The reading of a tree's clock beside the journal: whose it is, what is none, and what the disk makes of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchestra.core.clockfile import ClockReading
from orchestra.core.disk import Chaos, Disk
from orchestra.core.errors import DiskFull
from orchestra.core.records import now
from orchestra.core.run import RunFolder
from tests.support.core import CountingDisk, open_ledger
from tests.support.runs import store_of


def begun(path: Path) -> RunFolder:
    open_ledger(path).close()
    return RunFolder(path)


def reading(seconds: float) -> ClockReading:
    return ClockReading(round(1000 * seconds), now())


def kept_ms(run: RunFolder, key: str | None = None) -> int | None:
    found = (store_of() if key is None else store_of(key)).kept_reading(run)
    return found.ms if found else None


def test_the_newest_reading_is_kept_for_its_owner_only(tmp_path: Path) -> None:
    store, run = store_of(), begun(tmp_path / "r")
    assert kept_ms(run) is None
    for seconds in (60, 61):
        store.keep_reading(run, reading(seconds))
    assert kept_ms(run) == 61_000
    assert os.stat(run.clock).st_mode & 0o077 == 0
    store.remove_reading(run)
    store.remove_reading(run)  # there is none
    assert not run.clock.exists()


def test_a_reading_of_another_key_or_of_another_run_counts_for_nothing(tmp_path: Path) -> None:
    run, other = begun(tmp_path / "r"), begun(tmp_path / "s")
    store_of().keep_reading(run, reading(60))
    assert kept_ms(run, "somebody else's key") is None and kept_ms(run, "") is None
    other.clock.write_bytes(run.clock.read_bytes())
    assert kept_ms(other) is None
    run.events.unlink()
    made = now()
    while now() == made:  # the next run begins a millisecond later
        pass
    begun(run.path)  # another run, in the place of one that was removed
    assert kept_ms(run) is None


def changed(**fields: object) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        file.write_bytes(msgspec.json.encode({**msgspec.json.decode(file.read_bytes()), **fields}))

    return change


def torn(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:30])


def odd(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        file.unlink()
        make(file)

    return change


@pytest.mark.parametrize(
    "change",
    [
        changed(ms=0),
        changed(ms=3_600_000),
        changed(ms=-1),
        changed(at="2026-01-31T00:00:00.000Z"),
        changed(at="gestern"),
        changed(seal=""),
        changed(seal="봉인"),
        torn,
        odd(lambda file: file.write_bytes(b"")),
        odd(lambda file: file.write_bytes(b"[" * 100_000)),
        odd(Path.mkdir),
        odd(os.mkfifo),
        odd(lambda file: file.symlink_to("/dev/zero")),
    ],
)
def test_what_is_no_reading_of_this_run_counts_for_nothing(tmp_path: Path, change: Callable[[Path], None]) -> None:
    run = begun(tmp_path / "r")
    store_of().keep_reading(run, reading(60))
    change(run.clock)
    assert kept_ms(run) is None


def test_nothing_is_written_through_a_link_and_what_is_no_reading_can_be_removed(tmp_path: Path) -> None:
    store, run, mine = store_of(), begun(tmp_path / "r"), tmp_path / "mine"
    mine.write_text("mine")
    run.clock.symlink_to(mine)
    with pytest.raises(OSError, match="symbolic"):
        store.keep_reading(run, reading(1))
    store.remove_reading(run)
    store.keep_reading(run, reading(1))
    assert kept_ms(run) == 1000 and mine.read_text() == "mine"
    store.remove_reading(run)
    run.clock.mkdir()
    store.remove_reading(run)  # the run ends all the same
    assert run.clock.is_dir()


def test_a_longer_reading_is_written_over_a_shorter_one_and_back(tmp_path: Path) -> None:
    run = begun(tmp_path / "r")
    for seconds in (1, 10**9, 2):
        store_of().keep_reading(run, reading(seconds))
        assert kept_ms(run) == seconds * 1000


def test_chaos_counts_no_reading_but_its_full_disk_takes_none(tmp_path: Path) -> None:
    """A clock decides when they are written: counted, the n-th operation would be another one each time."""
    run, disk = begun(tmp_path / "r"), Disk(Chaos(1, "enospc"))
    store = store_of(disk=disk)
    store.keep_reading(run, reading(1))
    with pytest.raises(DiskFull):
        disk.publish(tmp_path / "another", b"", durable=False)
    with pytest.raises(DiskFull):
        store.keep_reading(run, reading(2))
    assert kept_ms(run) == 1000
    counting = CountingDisk()
    store_of(disk=counting).keep_reading(run, reading(3))
    store_of(disk=counting).remove_reading(run)
    assert counting.operations == [] and kept_ms(run) is None
