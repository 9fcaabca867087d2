"""Folders of the tests in memory: where root runs them, on a Linux that has room; elsewhere they are on the disk.

What the tests write is thrown away, and what a kill leaves is the same in either place: only a power cut could tell a
disk from memory. The mount belongs to this process and its children (unshare(2)) and is gone with the last of them,
however they end. `--basetemp=FOLDER` keeps what the tests leave.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path

_NEW_MOUNTS, _RECURSIVE, _PRIVATE = 0x20000, 0x4000, 0x40000  # CLONE_NEWNS, MS_REC, MS_PRIVATE
_ENOUGH = 8 << 30  # bytes of free memory; the whole suite leaves fewer than two


def folder_in_memory() -> Path | None:
    """A new folder in memory for this process and what it starts; None if there cannot be one."""
    room = _free_memory()
    if os.geteuid() != 0 or room < _ENOUGH:
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_MOUNTS) != 0 or libc.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None) != 0:
        return None
    folder = tempfile.mkdtemp(prefix="orchestra-tests-")
    if libc.mount(b"tests", folder.encode(), b"tmpfs", 0, f"mode=755,size={room // 2}".encode()) != 0:
        os.rmdir(folder)
        return None
    return Path(folder)


def remove(folder: Path) -> None:
    """Give the memory back, and leave nothing where it was."""
    detach = 2  # MNT_DETACH: a process of a test may still be there
    if ctypes.CDLL(None).umount2(str(folder).encode(), detach) == 0:
        folder.rmdir()


def _free_memory() -> int:
    """In bytes; 0 if the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), 0)
