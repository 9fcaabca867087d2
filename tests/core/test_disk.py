"""The disk that fails at a chosen operation. The ways that kill a process are tested in tests/kill."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestra.core.disk import Chaos, Disk
from orchestra.core.errors import DiskFull, UsageError
from tests.support.core import CountingDisk


@pytest.mark.parametrize(("at", "written"), [(1, b"o"), (2, b"onet"), (3, b"onetwoth"), (4, b"onetwothree")])
def test_a_full_disk_takes_a_part_of_one_write_and_nothing_after_it(tmp_path: Path, at: int, written: bytes) -> None:
    disk, path = Disk(Chaos.from_spec(f"{at}:enospc")), tmp_path / "file"
    fd = disk.open_end(path)
    for number, data in enumerate((b"one", b"two", b"three"), start=1):
        if number < at:
            disk.append(fd, data)
            continue
        with pytest.raises(DiskFull, match="append was not written"):
            disk.append(fd, data)
    os.close(fd)
    assert path.read_bytes() == written


@pytest.mark.spec("S1-111")
def test_a_file_and_a_folder_are_synced_when_that_is_asked_for(tmp_path: Path) -> None:
    """Only a power cut could tell, so the order of operations is looked at."""
    disk, path = CountingDisk(), tmp_path / "file"
    path.write_bytes(b"whole")
    disk.sync_file(path)
    disk.sync_folder(tmp_path)
    assert disk.operations == [("sync", "file"), ("sync", tmp_path.name)]


@pytest.mark.parametrize("spec", ["", "3", ":torn", "x:torn", "-1:torn", "3:", "3:later", "1.5:after"])
def test_a_fault_that_is_none_is_refused_with_an_example(spec: str) -> None:
    with pytest.raises(UsageError, match=r"want N:before, N:torn, N:after or N:enospc, e\.g\. 17:torn"):
        Chaos.from_spec(spec)
