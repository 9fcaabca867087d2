"""Reads files of unknown origin: only regular files, of limited size.

Rules
1. A named pipe, a device, a socket, a folder or a link in a file's place is refused with its path. Opening never
   blocks.
2. A file that is larger than its use allows is refused before it is read. If it grows meanwhile, the rest is not read.
3. A file named in a record (`*_below`) must be inside the record's folder: no `..`, no absolute path, and no link in
   its path.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
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
_FILE = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_WAY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC  # opens a folder on the way to a file


def open_bounded(path: Path | str, most: int, *, follow: bool = False, write: bool = False) -> int:
    """A descriptor of a regular file of at most `most` bytes; OddFile for anything else, OSError as usual."""
    flags = _FILE if follow else _FILE | os.O_NOFOLLOW
    try:
        fd = os.open(path, flags | (os.O_RDWR | os.O_APPEND if write else os.O_RDONLY))
    except FileNotFoundError:
        raise  # nothing is in its place
    except OSError as error:
        if kind := _odd(path, follow=follow):
            raise OddFile(str(path), f"is {kind}, not a file") from error
        raise
    return _bounded(fd, path, most)


def open_below(folder: Path, name: str, most: int) -> int:
    """`open_bounded` for a file below a folder (rule 3)."""
    *way, last = name.split("/")
    if any(part in ("", ".", "..") for part in (*way, last)) or "\0" in name:
        raise OddFile(str(folder / name), f"is not inside {folder}")
    at = os.open(folder, _WAY)
    try:
        for part in way:
            at, above = os.open(part, _WAY | os.O_NOFOLLOW, dir_fd=at), at
            os.close(above)
        fd = os.open(last, os.O_RDONLY | _FILE | os.O_NOFOLLOW, dir_fd=at)
    except OSError as error:
        if kind := _odd(last, follow=False, at=at):
            raise OddFile(str(folder / name), f"is {kind}, not a file") from error
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise OddFile(str(folder / name), f"is not inside {folder}: a link, or no folder, is on the way") from error
        raise OSError(error.errno, error.strerror, str(folder / name)) from error
    finally:
        os.close(at)
    return _bounded(fd, folder / name, most)


def read_below(folder: Path, name: str, most: int) -> bytes:
    """The bytes of the file of this name below a folder (rule 3)."""
    return _read(open_below(folder, name, most), most)


def lines_below(folder: Path, name: str, most: int, longest: int = 16 * MIB) -> Iterator[bytes]:
    """The lines of a file below a folder (rule 3); OddFile if a line is longer than `longest`."""
    with open(open_below(folder, name, most), "rb", buffering=MIB) as file:
        while line := file.readline(longest + 1):
            if len(line) > longest:
                raise OddFile(str(folder / name), f"has a line of more than {size(longest)}")
            yield line


def digest_below(folder: Path, name: str, length: int) -> str:
    """`sha256:<hex>` of the file of this name below a folder, if its size is `length`; else empty."""
    try:
        fd = open_below(folder, name, length)
    except (OSError, OddFile):
        return ""
    try:
        found = hashlib.sha256()
        while os.fstat(fd).st_size == length and (chunk := os.read(fd, MIB)):
            found.update(chunk)
        return f"sha256:{found.hexdigest()}" if os.fstat(fd).st_size == length else ""
    finally:
        os.close(fd)


def _bounded(fd: int, path: Path | str, most: int) -> int:
    """The descriptor, if it is of a regular file of at most `most` bytes; else it is closed and OddFile raised."""
    try:
        held = os.fstat(fd)
        if not stat.S_ISREG(held.st_mode):
            raise OddFile(str(path), f"is {_KINDS.get(stat.S_IFMT(held.st_mode), 'something else')}, not a file")
        if held.st_size > most:
            raise OddFile(str(path), f"has {size(held.st_size)}; no such file has more than {size(most)}")
    except (OddFile, OSError):
        os.close(fd)
        raise
    return fd


def read_bounded(path: Path | str, most: int, *, follow: bool = False) -> bytes:
    """The bytes of a regular file; OddFile if there are more than `most`."""
    return _read(open_bounded(path, most, follow=follow), most)


def _read(fd: int, most: int) -> bytes:
    try:
        chunks: list[bytes] = []
        while chunk := os.read(fd, min(most, MIB)):  # at the end of the file, or of what may be read, it is empty
            chunks.append(chunk)
            most -= len(chunk)
        return b"".join(chunks)
    finally:
        os.close(fd)


def ends_with(path: Path, data: bytes) -> bool:
    """Whether a regular file ends with these bytes; only its end is read."""
    try:
        fd = open_bounded(path, 1 << 62)
    except (OSError, OddFile):
        return False
    try:
        return os.pread(fd, len(data), max(os.fstat(fd).st_size - len(data), 0)) == data
    finally:
        os.close(fd)


def entries_below(top: Path) -> Iterator[os.DirEntry[str]]:
    """All entries below a folder that are not folders. No link is followed; unreadable folders are skipped."""
    folders = [str(top)]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        yield entry
        except OSError:
            continue


def mode_and_size(entry: os.DirEntry[str]) -> tuple[int, int]:
    """The mode and size of an entry; (0, 0) if it vanished meanwhile."""
    try:
        held = entry.stat(follow_symlinks=False)
    except OSError:
        return 0, 0
    return held.st_mode, held.st_size


def size(count: int) -> str:
    """A number of bytes for people."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", MIB), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.4g} {unit}"
    return f"{count} bytes"


def _odd(path: Path | str, *, follow: bool, at: int | None = None) -> str:
    """What is in a file's place (a folder, a pipe, …); empty if it is a regular file or missing."""
    try:
        kind = stat.S_IFMT(os.stat(path, dir_fd=at, follow_symlinks=follow).st_mode)
    except OSError:
        return ""
    return "" if kind == stat.S_IFREG else _KINDS.get(kind, "something else")
