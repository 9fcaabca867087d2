"""Reading a folder whose contents are hostile: names, descriptors, the overlay's marks.

Rules
1. A name is reached through the descriptor of its folder, and no link is followed.
2. Opening never blocks, also if the name is a pipe or a device.
3. A name that is not valid text is shown with escapes and never used as a path of the workspace.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_UNSEEN = ("Cc", "Cf", "Zl", "Zp")
_MARKS = ("user.overlay.", "trusted.overlay.")


@contextmanager
def opened(name: str | Path, flags: int, above: int | None = None) -> Iterator[int]:
    """Open a name; the descriptor is closed at the end of the block."""
    fd = os.open(name, flags, dir_fd=above)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def entered(above: int | None, name: str) -> Iterator[int]:
    """Open a folder that we own for reading and removing, whatever its mode is."""
    with opened(name, HANDLE | os.O_DIRECTORY, above) as handle:
        here = f"/proc/self/fd/{handle}"  # this folder, even if its name now belongs to another
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        if mode & 0o700 != 0o700:
            os.chmod(here, mode | 0o700)
        with opened(here, FOLDER & ~os.O_NOFOLLOW) as fd:
            yield fd


def facts_of(name: str, above: int | None) -> os.stat_result | None:
    """The facts of a name, without following a link; None if there is no such name."""
    if above is None:
        return None
    try:
        return os.stat(name, dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return None


def regular(fd: int) -> os.stat_result:
    """The facts of an open file; OSError if it is not a regular file."""
    facts = os.fstat(fd)
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file any more")
    return facts


def kind(facts: os.stat_result) -> str:
    """The type of a file, in words for people."""
    kinds = {
        stat.S_IFREG: "a file",
        stat.S_IFDIR: "a folder",
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(facts.st_mode), "a device")


def unspeakable(name: str) -> str:
    """Why a name is not valid text; "" if it is. Whether its path is allowed is decided elsewhere."""
    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in name):
        return "its name holds control characters, or is no UTF-8"
    return ""


def join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def shown(path: str) -> str:
    """A name for people: on one line, with invisible characters escaped."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(ascii(char)[1:-1] if unicodedata.category(char) in _UNSEEN else char for char in text)


def marks(fd: int) -> dict[str, bytes]:
    """The overlay's attributes of an open file or folder, by short name. Forged ones begin with `overlay.`."""
    return {name.split(".", 2)[2]: os.getxattr(fd, name) for name in _mark_names(fd)}


def unmark(fd: int) -> None:
    """Remove the overlay's attributes."""
    for name in _mark_names(fd):
        os.removexattr(fd, name)


def _mark_names(fd: int) -> list[str]:
    try:
        return [name for name in os.listxattr(fd) if name.startswith(_MARKS)]
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return []
        raise
