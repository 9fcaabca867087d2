"""Reading files that anybody may have put there: bounded, and only regular ones.

Rules
1. A named pipe, a device, a socket, a folder or a link where a file should be is refused by name. Nothing is waited
   for: opening never blocks.
2. A file larger than what its use allows is refused before a byte of it is read; one that grows meanwhile is cut there.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from orchestra.core.errors import OddFile

MIB = 1 << 20
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
}


def open_bounded(path: Path | str, most: int, *, follow: bool = False, write: bool = False) -> int:
    """A descriptor of a regular file of at most `most` bytes; OddFile for anything else, OSError as usual."""
    flags = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    try:
        fd = os.open(path, flags | (os.O_RDWR | os.O_APPEND if write else os.O_RDONLY))
    except OSError as error:
        if kind := _odd(path, follow=follow):
            raise OddFile(str(path), f"is {kind}, not a file") from error
        raise
    try:
        held = os.fstat(fd)
        if not stat.S_ISREG(held.st_mode):
            raise OddFile(str(path), f"is {_KINDS.get(stat.S_IFMT(held.st_mode), 'something else')}, not a file")
        if held.st_size > most:
            raise OddFile(str(path), f"has {size(held.st_size)}; no such file has more than {size(most)}")
    except OddFile:
        os.close(fd)
        raise
    return fd


def read_bounded(path: Path | str, most: int, *, follow: bool = False) -> bytes:
    """The bytes of a regular file, `most` of them at most."""
    fd = open_bounded(path, most, follow=follow)
    try:
        chunks: list[bytes] = []
        while most > 0 and (chunk := os.read(fd, min(most, MIB))):
            chunks.append(chunk)
            most -= len(chunk)
        return b"".join(chunks)
    finally:
        os.close(fd)


def size(count: int) -> str:
    """A number of bytes for people."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", MIB), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.4g} {unit}"
    return f"{count} bytes"


def _odd(path: Path | str, *, follow: bool) -> str:
    """What stands in a file's place; empty if it is a file, or nothing."""
    try:
        kind = stat.S_IFMT((os.stat if follow else os.lstat)(path).st_mode)
    except OSError:
        return ""
    return "" if kind == stat.S_IFREG else _KINDS.get(kind, "something else")
