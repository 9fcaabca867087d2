"""Exactly once, all or nothing, killed anywhere (D-12): a process dies at every disk operation, another goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestra.core.disk import Disk
from orchestra.patch.apply import AppliedFiles, apply

from .kill_driver import tree
from .support import make_diff, prepare_in

RENAME = "diff --git a/old/name.txt b/new/deep/name.txt\nrename from old/name.txt\nrename to new/deep/name.txt\n"
DIFF = (
    make_diff("a.txt", "1\n2\n3\n", "1\nTWO\n3\n")
    + make_diff("src/b.txt", None, "fresh\n")
    + make_diff("gone/c.txt", "bye\n", None)
    + f"{RENAME}--- a/old/name.txt\n+++ b/new/deep/name.txt\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n"
    + "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    before = tmp_path / "before"
    for name, text in {
        "a.txt": "1\n2\n3\n",
        "gone/c.txt": "bye\n",
        "old/name.txt": "x\ny\n",
        "run.sh": "go\n",
        "other.txt": "o\n",
    }.items():
        (before / name).parent.mkdir(parents=True, exist_ok=True)
        (before / name).write_text(text)
    (tmp_path / "patch.json").write_bytes(msgspec.json.encode(prepare_in(before, DIFF)))
    return tmp_path


def unkilled(base: Path) -> dict[str, str]:
    shutil.copytree(base / "before", base / "unkilled")
    done = apply(base / "unkilled", prepare_in(base / "before", DIFF), disk=Disk(), scratch=base / "scratch0")
    assert isinstance(done, AppliedFiles)
    return tree(base / "unkilled")


def drive(base: Path, scratch: Path, mode: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", f"{__package__}.kill_driver", str(base), str(scratch), mode]
    here = Path(__file__).resolve().parents[len((__package__ or "").split("."))]
    run = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.mark.parametrize("mode", ["before", "torn", "after"])
def test_killed_at_every_operation_a_second_process_completes_the_patch(base: Path, mode: str) -> None:
    wanted, before = unkilled(base), tree(base / "before")
    assert [name for name in wanted if not wanted[name].startswith("folder")] == [
        *("a.txt", "new/deep/name.txt", "other.txt", "run.sh", "src/b.txt"),
    ]
    kills = drive(base, base / "scratch", mode)
    assert len(kills) > 30
    for kill in kills:
        assert kill["first"] == -signal.SIGKILL
        for name, found in kill["found"].items():  # never a torn file: each is one of the two
            assert found == "folder" or found in (before.get(name), wanted.get(name)), (kill["at"], name)
        assert set(kill["states"]) <= {"before", "after"}
        assert (kill["second"], kill["third"]) == (0, 0), kill["at"]
        assert kill["tree"] == wanted, kill["at"]
        assert kill["scratch"] == 0
    assert {tuple(kill["states"]) for kill in kills} >= {("before",) * 5, ("after",) * 5}


@pytest.mark.parametrize("mode", ["before", "after"])
def test_the_same_with_scratch_on_another_file_system(base: Path, mode: str) -> None:
    shm = Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == base.stat().st_dev:
        pytest.skip("no second file system here")
    scratch = shm / f"orchestra-test-{os.getpid()}-{mode}"
    try:
        wanted = unkilled(base)
        kills = drive(base, scratch, mode)
        assert sum(kill["first"] == -signal.SIGKILL for kill in kills) > 40
        assert [kill["at"] for kill in kills if kill["tree"] != wanted or kill["second"] != 0] == []
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def test_a_full_disk_at_any_operation_leaves_whole_files_and_a_patch_that_can_go_on(base: Path) -> None:
    wanted = unkilled(base)
    for full in drive(base, base / "scratch", "enospc"):
        assert full["first"] == 2, full["at"]
        assert set(full["states"]) <= {"before", "after"}
        assert (full["second"], full["tree"]) == (0, wanted), full["at"]
