"""Files a command left in its own output folder, copied into the run's artifacts (S2-34 … S2-36, S2-117).

Rules
1. The folder is hostile: regular files only, reached through directory descriptors, no link followed, bounded. The mode
   of a folder that cannot be entered is changed.
2. A kept file is redacted like any output (S2-81), synced before its record is returned (D-04), and recorded
   with the size and digest of the stored bytes.
3. A file is kept whole or not at all. Each file that is not kept is listed with the reason.
4. A folder that a command did not touch can be given to another command. Its change time (ctime) proves
   that: entries, mode, owner, attributes and flags all change it, and no program can set it. Its clock ticks
   slowly (10 ms), so the contents are checked too.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import msgspec

from orchestra.core.disk import Disk
from orchestra.core.redact import Redactor
from orchestra.worker.capture import Store, settle
from orchestra.worker.hostile import FILE, entered, join, opened, regular, shown, unspeakable
from orchestra.worker.task import MIB, Artifact

TRAY_MODE = 0o700
_CHUNK = 1 << 18


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on what is kept."""

    files: int = 1_000
    file_bytes: int = 64 * MIB
    total_bytes: int = 256 * MIB
    entries: int = 10_000  # names examined
    depth: int = 16
    path_bytes: int = 1_024
    told: int = 100  # skipped names that are listed one by one


ROOM = Room()


class Skipped(msgspec.Struct, frozen=True):
    """A file that is not kept. `path` is relative to the output folder; empty for a reason that concerns the whole."""

    path: str
    reason: str


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """The files that were kept, by name, and those that were not."""

    artifacts: tuple[Artifact, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    untouched: bool = False  # rule 4


class Tray(msgspec.Struct, frozen=True):
    """An empty folder for a command's output files, with the time of our last change to it."""

    path: str
    changed_ns: int

    @classmethod
    def of(cls, path: str) -> Tray:
        """The tray of a folder that was just made."""
        return cls(path, os.stat(path).st_ctime_ns)


def collect(tray: Tray, into: str, *, disk: Disk, redactor: Redactor, room: Room = ROOM) -> Collected:
    """Copy the files that a command left, after it has ended. A full disk raises `DiskFull`."""
    collecting = _Collecting(into, disk, redactor, room=room)
    with entered(None, tray.path) as fd:
        collecting.folder(fd, "", depth=1)
        settle(collecting.stores)
        return collecting.result(untouched=not collecting.entries and _as_new(fd, tray))


def _as_new(fd: int, tray: Tray) -> bool:
    now = os.fstat(fd)
    return now.st_ctime_ns == tray.changed_ns and stat.S_IMODE(now.st_mode) == TRAY_MODE and not os.listxattr(fd)


class _Collecting:
    def __init__(self, into: str, disk: Disk, redactor: Redactor, *, room: Room) -> None:
        self._into = into
        self._disk = disk
        self._redactor = redactor
        self._room = room
        self.stores: list[Store] = []
        self._artifacts: list[Artifact] = []
        self._skipped: list[Skipped] = []
        self._untold = self.entries = self._bytes = 0

    def result(self, *, untouched: bool) -> Collected:
        more = (Skipped("", f"{self._untold} more were not kept"),) if self._untold else ()
        return Collected(artifacts=tuple(self._artifacts), skipped=(*self._skipped, *more), untouched=untouched)

    def folder(self, fd: int, path: str, *, depth: int) -> None:
        for name in self._names(fd, path):
            here = join(path, name)
            try:
                self._entry(fd, name, here, depth=depth)
            except OSError as error:
                self._skip(here, f"it cannot be read: {error.strerror or error}")

    def _entry(self, above: int, name: str, path: str, *, depth: int) -> None:
        mode = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
        if why := unspeakable(name):
            self._skip(path, why)
        elif len(path.encode()) > self._room.path_bytes or depth > self._room.depth:
            self._skip(path, "its path is too long")
        elif self._redactor.text(path) != path:
            self._skip("", "a file whose name holds a secret was not kept")
        elif stat.S_ISDIR(mode):
            with entered(above, name) as fd:
                self.folder(fd, path, depth=depth + 1)
        elif stat.S_ISREG(mode):
            with opened(name, FILE, above) as fd:
                self._file(fd, path, regular(fd).st_size)
        else:
            self._skip(path, "it is no regular file")

    def _file(self, fd: int, path: str, size: int) -> None:
        if len(self._artifacts) >= self._room.files:
            self._skip(path, f"{self._room.files} files are kept already")
        elif size > self._room.file_bytes:
            self._skip(path, f"it holds {size} bytes; files up to {self._room.file_bytes} are kept")
        elif self._bytes + size > self._room.total_bytes:
            self._skip(path, f"with it more than {self._room.total_bytes} bytes would be kept")
        else:
            self._bytes += size
            self._artifacts.append(self._copy(fd, path, size))

    def _copy(self, fd: int, path: str, size: int) -> Artifact:
        # A mask may be longer than the secret: the store's own limit must not cut a file that is kept whole.
        store = Store(f"{self._into}/{path}", limit=size * 16 + MIB, disk=self._disk)
        self.stores.append(store)
        try:
            stream = self._redactor.stream()
            for chunk in _chunks(fd, size):
                store.add(stream.feed(chunk))
            store.add(stream.close())
            return store.close()
        finally:
            store.abandon()

    def _names(self, fd: int, path: str) -> list[str]:
        names: list[str] = []
        with os.scandir(fd) as entries:
            for entry in entries:
                self.entries += 1
                if self.entries > self._room.entries:
                    self._skip(path, f"more than {self._room.entries} names: the rest was not looked at")
                    break
                names.append(entry.name)
        return sorted(names)

    def _skip(self, path: str, reason: str) -> None:
        if len(self._skipped) < self._room.told:
            self._skipped.append(Skipped(shown(path), reason))
        else:
            self._untold += 1


def _chunks(fd: int, size: int) -> Iterator[bytes]:
    """The first `size` bytes: a file that still grows is cut at the size that was checked."""
    done = 0
    while done < size and (chunk := os.pread(fd, min(_CHUNK, size - done), done)):
        yield chunk
        done += len(chunk)
