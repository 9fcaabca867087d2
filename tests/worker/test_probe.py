"""The probe on this machine, and what it says of others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from orchestra.core.disk import Disk
from orchestra.core.redact import Redactor
from orchestra.worker import attempts, confine, probe
from orchestra.worker.launcher import Launcher
from orchestra.worker.machine import REPORT, Machine, fingerprint, machine, remedy
from orchestra.worker.task import Tier


def prove(tier: Tier, near: Path) -> probe.Proof:
    async def go() -> probe.Proof:
        launcher = Launcher(Disk(), Redactor([]))
        try:
            return await probe.prove(launcher, tier, near=near)
        finally:
            await launcher.close()

    return asyncio.run(go())


@pytest.mark.parametrize("tier", ["strict", "landlock"])
def test_the_tier_holds_here(tier: Tier, tmp_path: Path) -> None:
    if tier == "landlock" and confine.abi() < confine.ABI_NEEDED:
        pytest.skip("this kernel has no Landlock 6")
    proof = prove(tier, tmp_path)
    assert (proof.held, proof.reason, proof.remedy) == (True, "", "")
    assert [finding for finding in proof.findings if not finding.ok] == []
    assert len(proof.findings) >= 25
    assert list(tmp_path.iterdir()) == []  # the canaries are gone
    assert (tier == "landlock") == bool(set(confine.NOT_HELD) & set(proof.weak))


def test_tier_none_is_never_held(tmp_path: Path) -> None:
    assert not prove("none", tmp_path).held


def test_one_thing_that_went_through_or_did_not_work_is_enough() -> None:
    fine = dict.fromkeys(attempts.names(), "refused: EPERM")
    for name in (*probe._WORKS, *probe._WORKS_IN_STRICT):
        fine[name] = "done"
    assert all(finding.ok for finding in probe.judge("strict", fine, {}))
    for name, happened in fine.items():
        other = "done" if happened.startswith("refused") else "refused: EPERM"
        wrong = [f.name for f in probe.judge("strict", fine | {name: other}, {}) if not f.ok]
        assert wrong == [name]
        silent = {key: said for key, said in fine.items() if key != name}
        assert [f.name for f in probe.judge("strict", silent, {}) if not f.ok] == [name]
    assert [f.name for f in probe.judge("strict", fine, {"the listeners": "1 was reached"}) if not f.ok] == [
        "the listeners"
    ]


PLAIN = Machine(
    system="Linux", kernel="6.8.0-31-generic", boot="", namespaces=(), uid=1000, apparmor_restricts=False,
    userns_allowed=True, container=False, bwrap="0.11.0 (wheel) bwrap", bwrap_changed=1, landlock_abi=7, ours="",
)  # fmt: skip


@pytest.mark.parametrize(
    ("tier", "changes", "words"),
    [
        ("strict", {"system": "Darwin"}, "Linux"),
        ("strict", {"bwrap": ""}, "Install bubblewrap"),
        ("strict", {"apparmor_restricts": True}, "AppArmor"),
        ("strict", {"container": True}, "--security-opt"),
        ("strict", {"userns_allowed": False}, "max_user_namespaces"),
        ("strict", {"kernel": "5.4.0-1-generic"}, "5.11"),
        ("strict", {}, REPORT),
        ("landlock", {"landlock_abi": 4}, "6.12"),
        ("landlock", {}, REPORT),
        ("none", {}, "strict"),
    ],
)
def test_the_remedy_fits_the_machine(tier: Tier, changes: dict[str, object], words: str) -> None:
    here = msgspec.structs.replace(PLAIN, **changes)
    assert words in remedy(tier, "No permissions to create new namespace", here)


def test_a_failure_that_is_not_about_namespaces_blames_no_setting() -> None:
    assert remedy("strict", "no space left", msgspec.structs.replace(PLAIN, container=True)) == REPORT


def test_the_fingerprint_is_stable() -> None:
    assert fingerprint() == fingerprint()
    assert fingerprint().startswith("sha256:")
    assert machine().system == "Linux"
