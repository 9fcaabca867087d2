"""The disk: the few operations that make bytes durable. Tests inject crashes here.

Rules
1. Every byte that orchestra keeps is written, synced and named by these operations.
2. Each operation is the smallest step that a crash can fall between: append, sync, replace, link, unlink.
3. A disk with `Chaos` kills the process (SIGKILL) or fails (ENOSPC) at a chosen operation. It is part of the product
   (`ORCHESTRA_CHAOS=17:torn`), so the kill tests run the same program as a user.
4. A refused write is `DiskFull`, whatever error the file system reports.

When to sync is decided by the journal, not here.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from orchestra.core.errors import DiskFull, UsageError

PRIVATE = 0o600  # run folders contain prompts, diffs and raw replies, for the owner only (C-12)
# No link is followed, and opening a named pipe fails instead of waiting.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


Mode = Literal["before", "torn", "after", "enospc"]


class Chaos:
    """Kills this process, or makes its disk full, at the n-th operation."""

    def __init__(self, at: int, mode: Mode) -> None:
        self._left = at
        self._mode: Mode = mode

    @classmethod
    def from_spec(cls, spec: str) -> Chaos:
        """Read `N:before|torn|after|enospc`, the form of ORCHESTRA_CHAOS."""
        number, _, mode = spec.partition(":")
        if not number.isdigit() or mode not in ("before", "torn", "after", "enospc"):
            raise UsageError(f"ORCHESTRA_CHAOS={spec!r}: want N:before, N:torn, N:after or N:enospc, e.g. 17:torn")
        return cls(int(number), mode)  # type: ignore[arg-type]  # checked by the line above

    @property
    def full(self) -> bool:
        """Whether the disk is full by now."""
        return self._left <= 0 and self._mode == "enospc"

    def at(self, act: Callable[[], None], torn: Callable[[], object] | None = None) -> None:
        """Do one operation, or crash before, in the middle of (`torn` does half of it) or after it."""
        self._left -= 1
        if self._left > 0:
            return act()
        if self._left < 0:
            # A full disk stays full until the process ends: all later writes fail too.
            if self._mode == "enospc":
                raise _named(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "append")
            return act()
        match self._mode:
            case "before":
                pass
            case "torn":
                (torn or act)()
            case "after":
                try:
                    act()
                except OSError:
                    pass  # e.g. removing a missing file: the caller would have gone on, so kill here too
            case "enospc":
                if torn:
                    torn()
                raise _named(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "append")
        os.kill(os.getpid(), signal.SIGKILL)
        return None


class Disk:
    """The disk. With `chaos`, one that fails at a chosen operation."""

    chaos: Chaos | None = None

    def __init__(self, chaos: Chaos | None = None) -> None:
        self.chaos = chaos

    def uncounted(self) -> Disk:
        """A disk for writes that a clock decides: `Chaos` does not count them, so its numbers depend on no clock."""
        if self.chaos and self.chaos.full:
            raise _named(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "append")
        return Disk()

    def append(self, fd: int, data: bytes) -> None:
        """Write all of `data` at the end of an open file; after this it survives `kill -9`, not yet a power cut."""
        if self.chaos:
            return self.chaos.at(lambda: _append(fd, data), torn=lambda: os.write(fd, data[: len(data) // 2]))
        return _append(fd, data)

    def overwrite(self, path: Path, data: bytes) -> None:
        """Write less than a page over the beginning of a file, and make it if there is none.

        `kill -9` leaves the old bytes or the new; a power cut may leave neither. This takes microseconds, and `publish`
        without a sync milliseconds on a busy disk: ext4 writes a file out when it takes another one's name. It is no
        operation that `Chaos` counts: only readings of a clock are written so.
        """
        fd = os.open(path, _NEW, PRIVATE)
        try:
            _append(fd, data)
        finally:
            os.close(fd)

    def sync(self, fd: int) -> None:
        """After this, what was appended survives a power cut."""
        return self.chaos.at(lambda: _sync(fd)) if self.chaos else _sync(fd)

    def replace(
        self, source: str, target: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        """Atomically give the file at `source` the name `target`, whatever had that name."""

        def act() -> None:
            try:
                os.replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            except OSError as error:
                raise _named(error, target) from error

        return self.chaos.at(act) if self.chaos else act()

    def link(self, source: str, target: str) -> None:
        """Give the file a second name; FileExistsError if the name is taken, so the first of two writers wins."""

        def act() -> None:
            try:
                os.link(source, target)
            except OSError as error:
                raise _named(error, target) from error

        return self.chaos.at(act) if self.chaos else act()

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        """Remove a name."""
        return self.chaos.at(lambda: os.unlink(path, dir_fd=dir_fd)) if self.chaos else os.unlink(path, dir_fd=dir_fd)

    def publish(self, path: Path, data: bytes, *, durable: bool, mode: int = PRIVATE) -> None:
        """Replace a whole file: readers see the old bytes or the new, never a mixture.

        With `durable`, file and name survive a power cut when this returns. A file that can be rebuilt does not need
        it.
        """
        temporary = f"{path}.{os.getpid()}.tmp"
        try:
            self.write(temporary, data, durable=durable, mode=mode)
        except FileNotFoundError:  # the first file of its folder
            path.parent.mkdir(parents=True, exist_ok=True)
            self.write(temporary, data, durable=durable, mode=mode)
        self.replace(temporary, str(path))
        if durable:
            self.sync_folder(path.parent)

    def write(self, path: str, data: bytes, *, durable: bool, mode: int = PRIVATE) -> None:
        """Write a file that has no reader yet: it has a temporary name, or no event names it."""
        fd = os.open(path, _NEW | os.O_TRUNC, mode)
        try:
            self.append(fd, data)
            if durable:
                self.sync(fd)
        finally:
            os.close(fd)

    def open_end(self, path: Path) -> int:
        """Open a file for appending, and make it if there is none."""
        return os.open(path, _NEW | os.O_APPEND, PRIVATE)

    def sync_file(self, path: Path) -> None:
        """Make a file that is already written survive a power cut."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.sync(fd)
        finally:
            os.close(fd)

    def sync_folder(self, folder: Path | str) -> None:
        """Make the names in a folder (created, renamed) survive a power cut."""
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sync(fd)
        finally:
            os.close(fd)


def _append(fd: int, data: bytes) -> None:
    try:
        written = os.write(fd, data)
        while written < len(data):
            written += os.write(fd, memoryview(data)[written:])
    except OSError as error:
        raise _named(error, "append") from error


def _sync(fd: int) -> None:
    try:
        os.fdatasync(fd)
    except OSError as error:
        raise _named(error, "sync") from error


def _named(error: OSError, what: str) -> Exception:
    if error.errno in _NO_ROOM:
        return DiskFull(
            f"the disk is full: {what} was not written ({error.strerror}). Nothing acknowledged is lost; "
            f"make room, then: orchestra resume RUN"
        )
    return error
