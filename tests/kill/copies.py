"""What SIGKILL would leave at an operation, without a kill: a copy of the folder at that moment.

A kill takes nothing back that was written, and nothing more is written after it: what it leaves is what another process
sees. So one run makes the copies for all operations, where as many kills would need as many runs. What a copy cannot
show, a process of a command that outlives the run for a moment, the kills of the same tests show (harness.py).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from orchestra.core.disk import Disk
from tests.support.core import CountingDisk

Point = tuple[int, str]  # the number of an operation, and the mode: see Chaos


def name_of(point: Point) -> str:
    """The name of a copy."""
    number, mode = point
    return f"{number}-{mode}"


class CopyingDisk(CountingDisk):
    """The real disk, which copies a folder at some operations."""

    def __init__(self, folder: Path, into: Path, points: Iterable[Point]) -> None:
        super().__init__()
        self._folder, self._into = folder, into
        self._points = set(points)

    def append(self, fd: int, data: bytes) -> None:
        self._note("append", os.readlink(f"/proc/self/fd/{fd}"))
        if (len(self.operations), "torn") in self._points:
            half = len(data) // 2
            os.write(fd, data[:half])
            self._copy("torn")
            data = data[half:]
        Disk.append(self, fd, data)
        self._copy("after")

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self._done()

    def replace(
        self, source: str, target: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        super().replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        self._done()

    def link(self, source: str, target: str) -> None:
        super().link(source, target)
        self._done()

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        super().unlink(path, dir_fd=dir_fd)
        self._done()

    def _note(self, kind: str, path: str) -> None:
        super()._note(kind, path)
        self._copy("before")

    def _done(self) -> None:
        """An operation that has no middle."""
        self._copy("torn")
        self._copy("after")

    def _copy(self, mode: str) -> None:
        point = (len(self.operations), mode)
        if point in self._points:
            subprocess.run(["cp", "-a", "-T", self._folder, self._into / name_of(point)], check=True)
