"""`python -m tests.support.cut KIND END`: go on with a project's only run, killed right after a chosen disk operation.

It is the first of this kind (append, sync, replace, link, unlink) on a file whose name ends so: found by what it does,
so it is the same one however many come before it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from orchestra.app import App
from tests.support.core import CountingDisk
from tests.support.runs import use_disk


class CutDisk(CountingDisk):
    """The real disk, until it has done the operation."""

    def __init__(self, kind: str, end: str) -> None:
        super().__init__()
        self._place = (kind, end)

    def append(self, fd: int, data: bytes) -> None:
        super().append(fd, data)
        self._end()

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self._end()

    def replace(
        self, source: str, target: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        super().replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        self._end()

    def link(self, source: str, target: str) -> None:
        super().link(source, target)
        self._end()

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        super().unlink(path, dir_fd=dir_fd)
        self._end()

    def _end(self) -> None:
        kind, name = self.operations[-1]
        if kind == self._place[0] and name.endswith(self._place[1]):
            os.kill(os.getpid(), signal.SIGKILL)


def cut_after(project: Path, kind: str, end: str) -> int:
    """The exit code of a process that goes on with the run and is killed there; -9 unless it never got there."""
    program = [sys.executable, "-m", "tests.support.cut", kind, end, str(project)]
    return subprocess.run(program, cwd=Path(__file__).parents[2], check=False, timeout=60).returncode


def _drive(kind: str, end: str, project: str) -> int:
    app = App(Path(project))
    use_disk(app, CutDisk(kind, end))
    [run] = app.runs.folders()
    return asyncio.run(app.drive(run)).exit_code


if __name__ == "__main__":
    sys.exit(_drive(*sys.argv[1:]))
