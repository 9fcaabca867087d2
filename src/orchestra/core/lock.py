"""The lock of a run's folder: one process drives a run. Used by the store of runs in files only (core/store.py).

`alone` is the short lock of an inbox, and of a folder of runs.

Rules
1. The lock is `flock` on the file `lock`. The kernel releases it when the process ends, however it ends.
2. Only a regular file is a lock. A named pipe or a link is refused: a pipe would block, a link is another file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestra.core.errors import OddFile, RunLocked
from orchestra.core.run import RunFolder


@contextmanager
def locked(folder: RunFolder) -> Iterator[None]:
    """Hold the run's lock; RunLocked (exit 7) if another process holds it."""
    fd = _open_lock(folder.lock, os.O_RDWR | os.O_CREAT)
    try:
        if not _take_lock(fd):
            holder = os.pread(fd, 20, 0).decode(errors="replace").strip() or "unknown"
            raise RunLocked(
                f"run {folder.id} is being driven by another process (pid {holder}). "
                f"Watch it: orchestra watch {folder.id}. Stop it: orchestra cancel {folder.id}"
            )
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of files that several processes change, for a moment: others wait."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def is_locked(folder: RunFolder) -> bool:
    """Whether some process holds the run's lock right now."""
    try:
        fd = _open_lock(folder.lock, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError, OddFile):  # there is no lock that could be held
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(fd)


def _open_lock(path: Path, flags: int) -> int:
    """Open the lock's file; OddFile for anything but a regular file (rule 2)."""
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise OddFile(str(path), "is no lock, but a link, a folder or a device") from error
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OddFile(str(path), "is no lock, but a named pipe, a folder or a device")
    return fd


def _take_lock(fd: int) -> bool:
    # A few tries, because `is_locked` in another process holds the lock for an instant.
    for _ in range(5):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.01)
    return False
