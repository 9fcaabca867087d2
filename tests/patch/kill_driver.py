"""Kills `apply` at every disk operation and applies again; run by test_apply_kill.py as a process of its own.

One driver forks all the victims: it has one thread and has imported everything, so a kill costs milliseconds. It prints
one JSON line per operation: the exit status of the first (killed), second and third apply, the tree found after the
first, the states told of it, and the tree at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

import msgspec

from orchestra.core.disk import Chaos, Disk
from orchestra.core.errors import DiskFull
from orchestra.patch.apply import AppliedFiles, apply, status
from orchestra.patch.locate import Prepared


def tree(root: Path) -> dict[str, str]:
    found = {}
    for path in sorted(root.rglob("*")):
        kind = (
            "folder"
            if path.is_dir()
            else f"{path.stat().st_mode & 0o777:o} {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
        )
        found[str(path.relative_to(root))] = kind
    return found


class CountingDisk(Disk):
    """How many operations an unkilled apply takes, those included that fail and are coped with (EXDEV)."""

    count = 0

    def append(self, fd: int, data: bytes) -> None:
        self.count += 1
        super().append(fd, data)

    def sync(self, fd: int) -> None:
        self.count += 1
        super().sync(fd)

    def replace(
        self, source: str, target: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        self.count += 1
        super().replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        self.count += 1
        super().unlink(path, dir_fd=dir_fd)


def in_child(disk: Disk, *, root: Path, patch: Prepared, scratch: Path) -> int:
    """The exit status of a process that applies: 0 applied, 1 refused, 2 disk full, else killed."""
    pid = os.fork()
    if pid == 0:
        try:
            done = apply(root, patch, disk=disk, scratch=scratch)
            os._exit(0 if isinstance(done, AppliedFiles) else 1)
        except DiskFull:
            os._exit(2)
        finally:
            os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fresh(base: Path, scratch: Path) -> Path:
    for folder in (base / "work", scratch):
        shutil.rmtree(folder, ignore_errors=True)
    return shutil.copytree(base / "before", base / "work")


def main(base: Path, scratch: Path, mode: str) -> None:
    patch = msgspec.json.decode((base / "patch.json").read_bytes(), type=Prepared)
    counting = CountingDisk()
    apply(fresh(base, scratch), patch, disk=counting, scratch=scratch)
    for at in range(1, counting.count + 1):
        root = fresh(base, scratch)
        line: dict[str, object] = {"at": at}
        chaos = Chaos.from_spec(f"{at}:{mode}")
        line["first"] = in_child(Disk(chaos), root=root, patch=patch, scratch=scratch)
        line["found"] = tree(root)
        line["states"] = [state.state for state in status(root, [part.file for part in patch.files])]
        line["second"] = in_child(Disk(), root=root, patch=patch, scratch=scratch)
        line["third"] = in_child(Disk(Chaos(1, "before")), root=root, patch=patch, scratch=scratch)  # dies if it writes
        line["tree"] = tree(root)
        line["scratch"] = len(list(scratch.iterdir()))
        print(json.dumps(line))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
