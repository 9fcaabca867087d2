"""What every sandbox finds of the machine: an /etc of its own, with no user of this machine in it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from orchestra.worker.host import Prepared
from orchestra.worker.wrap import HOME


@pytest.mark.parametrize(
    ("uid", "gid", "users", "groups"),
    [
        (0, 0, ["root:0:0", "nobody:65534:65534"], ["root:0", "nogroup:65534"]),
        (65534, 65534, ["root:0:0", "nobody:65534:65534"], ["root:0", "nogroup:65534"]),
        (1000, 1001, ["root:0:0", "nobody:65534:65534", "user:1000:1001"], ["root:0", "nogroup:65534", "user:1001"]),
    ],
)
def test_the_user_of_a_command_has_a_name_and_a_home(
    tmp_path: Path, uid: int, gid: int, users: list[str], groups: list[str]
) -> None:
    prepared = Prepared(tmp_path)
    etc = Path(prepared.etc(uid, gid))
    rows = [line.split(":") for line in (etc / "passwd").read_text().splitlines()]
    assert [f"{name}:{user}:{group}" for name, _, user, group, *_ in rows] == users
    assert {row[5] for row in rows} == {HOME}
    found = [line.split(":") for line in (etc / "group").read_text().splitlines()]
    assert [f"{name}:{group}" for name, _, group, _ in found] == groups
    assert (etc / "hostname").read_text() == "sandbox\n" and "127.0.0.1 localhost" in (etc / "hosts").read_text()
    assert stat.S_IMODE(etc.stat().st_mode) == 0o755
    assert [stat.S_IMODE(os.stat(path).st_mode) for path in (tmp_path, prepared.empty)] == [0o711, 0o755]
    blank = Path(prepared.blank)
    assert (stat.S_IMODE(blank.stat().st_mode), blank.read_bytes(), os.listdir(prepared.empty)) == (0o444, b"", [])
    assert prepared.etc(uid, gid) == str(etc)  # made once
    prepared.remove()
    assert not tmp_path.exists()
