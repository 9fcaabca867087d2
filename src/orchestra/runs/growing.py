"""A file below a run's folder that another process writes, read as it grows.

Rules
1. It may be anybody's file: only a regular file inside the run's folder is opened, and only so much of it is read
   (core/files.py).
2. It stays open. So it is read to its last byte although it was renamed meanwhile, and a new file of the same name is
   not taken for its continuation: the two can be told apart as long as the first is open.
"""

from __future__ import annotations

import os
from pathlib import Path

from orchestra.core.files import open_below

_AT_ONCE = 1 << 16


class Growing:
    """One such file, opened by its name."""

    def __init__(self, folder: Path, name: str, most: int) -> None:
        """OddFile for anything but a file (rule 1); OSError as usual."""
        self._path = folder / name
        self._left = most
        self._fd = open_below(folder, name, most)
        held = os.fstat(self._fd)
        self._same = held.st_dev, held.st_ino

    def read(self) -> bytes:
        """The next bytes; empty if there are none now."""
        data = os.read(self._fd, min(_AT_ONCE, self._left))
        self._left -= len(data)
        return data

    def is_at(self, path: Path) -> bool:
        """Whether the file has this name now."""
        return _identity(path) == self._same

    @property
    def replaced(self) -> bool:
        """Whether its name is another file's now; False if nothing has the name."""
        return _identity(self._path) not in (None, self._same)

    def close(self) -> None:
        os.close(self._fd)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        held = os.lstat(path)
    except OSError:
        return None
    return held.st_dev, held.st_ino
