"""What is known of the machine, and what to do where a tier cannot be set up."""

from __future__ import annotations

import os

import msgspec
import pytest

from orchestra.worker import confine
from orchestra.worker.host import find_bwrap
from orchestra.worker.machine import REPORT, Machine, fingerprint, machine, remedy
from orchestra.worker.task import Tier

HERE = Machine(
    system="Linux",
    kernel="6.12.0",
    boot="b",
    namespaces=(),
    uid=1000,
    apparmor_restricts=False,
    userns_allowed=True,
    container=False,
    bwrap="0.11.0 (wheel) /x",
    bwrap_changed=1,
    landlock_abi=6,
    ours="o",
)
FORBIDDEN = "bwrap: No permissions to create a new namespace"


@pytest.mark.parametrize("mark", ["/.dockerenv", "/run/.containerenv", ""])
def test_either_mark_of_a_container_is_enough(monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    exists = os.path.exists
    marks = ("/.dockerenv", "/run/.containerenv")
    monkeypatch.setattr(os.path, "exists", lambda path: path == mark if path in marks else exists(path))
    assert machine().container == bool(mark)
    assert fingerprint().startswith("sha256:")


@pytest.mark.parametrize(
    ("facts", "tier", "reason", "words"),
    [
        ({"system": "Darwin"}, "strict", "", "only on Linux"),
        ({}, "none", "", 'Set sandbox.tier to "strict"'),
        ({"landlock_abi": 5}, "landlock", "", "update the kernel"),
        ({}, "landlock", "", REPORT),
        ({"bwrap": ""}, "strict", FORBIDDEN, "Install bubblewrap"),
        ({}, "strict", "it is closed to the user", "sandbox.run_as"),
        ({}, "strict", "no such file", REPORT),
        ({"apparmor_restricts": True}, "strict", FORBIDDEN, "AppArmor"),
        ({"apparmor_restricts": True, "uid": 0, "container": True}, "strict", FORBIDDEN, "The container forbids"),
        ({"container": True}, "strict", FORBIDDEN, "The container forbids"),
        ({"userns_allowed": False}, "strict", FORBIDDEN, "switched off"),
        *(({"kernel": kernel}, "strict", FORBIDDEN, "Linux 5.11 or newer") for kernel in ("5.10.99", "4.19.0-x")),
        *(({"kernel": kernel}, "strict", FORBIDDEN, REPORT) for kernel in ("5.11.0-generic", "5.15.2", "6.0")),
    ],
)
def test_the_remedy_fits_what_is_wrong(facts: dict[str, object], tier: str, reason: str, words: str) -> None:
    said = remedy(msgspec.convert(tier, Tier), reason, msgspec.structs.replace(HERE, **facts))
    assert words in said


def test_the_machine_is_told_by_what_can_be_read_of_it() -> None:
    here, found = machine(), find_bwrap()
    assert found is not None and here.bwrap == f"{found.version} ({found.origin}) {found.path}"
    assert here.bwrap_changed == os.stat(found.path).st_mtime_ns
    assert (here.system, here.uid, here.landlock_abi) == (os.uname().sysname, os.getuid(), confine.abi())
    assert fingerprint() == fingerprint() and len(here.namespaces) == 3
