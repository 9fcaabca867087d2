"""The part of a command's layer that is kept: build output and caches. Later commands of the run read it as a layer.

Rules
1. `prune` leaves only kept paths. A folder's mode and the overlay's marks must not hide a file of the workspace, so
   whiteouts and opaque folders are removed, in kept folders too: ignored files that a command deleted come back.
2. In kept trees, files, folders and links stay; pipes, sockets, devices, set-user bits and too deep folders do not.
3. A layer that a command may read is never changed (the kernel forbids it). `fold` makes one new layer of several,
   by hard links: a mount accepts few layers (their paths share one 4 KiB page; 60 layers were possible, 80 were not).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Sequence
from pathlib import Path

from orchestra.worker.hostile import FOLDER, HANDLE, entered, join, opened, shown, unmark
from orchestra.worker.layer import BOUNDS, Harvest, LayerBounds
from orchestra.worker.removal import discard_at


def prune(upper: Path, harvest: Harvest, *, limits: LayerBounds = BOUNDS) -> tuple[str, ...]:
    """Remove all but the kept paths, so that `upper` can be a lower layer; return names that could not be removed."""
    pruning = _Pruning(harvest.kept, limits.depth)
    with opened(upper, FOLDER) as fd:
        pruning.way(fd, "")
    return tuple(pruning.stuck)


def fold(layers: Sequence[Path], into: Path) -> None:
    """Make one layer of pruned layers, given lowest first; where two have the same path, the higher layer wins."""
    into.mkdir(mode=0o700)
    with opened(into, FOLDER) as target:
        for layer in layers:
            with opened(layer, FOLDER) as source:
                _lay_over(source, target)


def _lay_over(source: int, target: int) -> None:
    with os.scandir(source) as entries:
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not (is_folder and _is_folder(entry.name, target)):
                discard_at(target, entry.name)
                if is_folder:
                    os.mkdir(entry.name, stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode), dir_fd=target)
            if is_folder:
                with opened(entry.name, FOLDER, source) as inner, opened(entry.name, FOLDER, target) as below:
                    _lay_over(inner, below)
            else:
                os.link(entry.name, entry.name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)


def _is_folder(name: str, above: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


class _Pruning:
    """One call of `prune`. `stuck` are the names that could not be removed."""

    def __init__(self, kept: Collection[str], depth: int) -> None:
        self.stuck: list[str] = []
        self._kept = set(kept)
        self._ways = {path[: at.start()] for path in kept for at in re.finditer("/", path)}  # folders above them
        self._depth = depth

    def way(self, fd: int, path: str) -> None:
        """Prune a folder that is a parent of kept paths."""
        unmark(fd)
        for name in os.listdir(fd):
            here = join(path, name)
            try:
                if here in self._kept:
                    self._settle(fd, name, depth=0)
                elif here in self._ways:
                    with entered(fd, name) as inner:
                        self.way(inner, here)
                else:
                    self.stuck += discard_at(fd, name)
            except OSError as error:
                self.stuck.append(f"{shown(here)}: {error.strerror}")

    def _settle(self, fd: int, name: str, *, depth: int) -> None:
        """Clean a kept file or tree by rule 2."""
        facts = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISDIR(facts.st_mode) and depth < self._depth:
            with entered(fd, name) as inner:
                unmark(inner)
                for one in os.listdir(inner):
                    self._settle(inner, one, depth=depth + 1)
        elif stat.S_ISREG(facts.st_mode):
            if facts.st_mode & (stat.S_ISUID | stat.S_ISGID):
                with opened(name, HANDLE, fd) as file:
                    os.chmod(f"/proc/self/fd/{file}", stat.S_IMODE(facts.st_mode) & 0o777)
        elif not stat.S_ISLNK(facts.st_mode):
            self.stuck += discard_at(fd, name)
