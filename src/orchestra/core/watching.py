"""Waits until files change, without asking for them again and again: inotify, or polling where there is none.

    with Watcher() as watcher:
        watcher.watch(files=[run.events], folders=[run.inbox])
        look()                       # first the watches, then the look: no change falls in between
        await watcher.wait(1.0)      # until something may have changed, or one second has passed

Rules
1. A wake-up only means that something may have changed: the owner looks for itself. A change is never missed, because a
   look follows the watches.
2. A file is watched by its name in its folder, so that it may appear, be renamed or be removed. If the folder does not
   exist yet, the nearest one above it is watched for the next name on the way.
3. Where inotify cannot be had (another system, no watches left), `wait` returns after a short sleep that grows while
   the owner waits on and shrinks when it watches something new or says `soon`. File systems that report no changes are
   covered by the owner's time limit.
4. Nothing is opened or read here, and no file is kept from being removed.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

_MODIFY, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x40, 0x80, 0x100, 0x200  # sys/inotify.h
_DELETE_SELF, _MOVE_SELF, _IGNORED, _OVERFLOW, _ONLYDIR = 0x400, 0x800, 0x8000, 0x4000, 0x01000000
_WANTED = _MODIFY | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR
_APPEARS = _WANTED & ~(_MODIFY | _DELETE)  # of a folder that is watched only until another one is made in it
_HEAD = struct.Struct("iIII")
_READ = 1 << 16
_REFUSED = -1  # what the C library returns instead of a number
_ANY = ""  # as a name: every change in the folder
POLL_S, LONGEST_POLL_S = 0.02, 0.2  # rule 3


class Watcher:
    """Waits for changes of some files and folders. It belongs to one event loop."""

    def __init__(self, *, polling: bool = False) -> None:
        """`polling`: as on a machine without inotify."""
        self._libc: Any
        self._fd: int | None
        self._libc, self._fd = (None, None) if polling else _open()
        self._wanted: frozenset[tuple[str, bool]] = frozenset()
        self._folders: dict[str, int] = {}  # watched folders, and the kernel's number of each watch
        self._masks: dict[str, int] = {}  # by folder: the changes that the kernel reports
        self._names: dict[int, set[str]] = {}  # by that number: the names that matter
        self._came = False
        self._poll = POLL_S

    @property
    def polls(self) -> bool:
        """Whether changes are not reported here, so that `wait` polls (rule 3)."""
        return self._fd is None

    def watch(self, files: Iterable[Path] = (), folders: Iterable[Path] = ()) -> None:
        """Watch exactly these from now on; none of them need exist. Cheap if nothing changed since the last time."""
        wanted = frozenset([*((str(file), False) for file in files), *((str(folder), True) for folder in folders)])
        if wanted != self._wanted:
            self._wanted = wanted
            self._poll = POLL_S
        if self._fd is None:
            return
        places: dict[str, set[str]] = {}
        masks: dict[str, int] = {}
        for path, is_folder in wanted:
            place, name = _place(path, is_folder=is_folder)
            places.setdefault(place, set()).add(name)
            # A run's journal grows beside an inbox that does not exist yet: that must wake nobody.
            masks[place] = masks.get(place, 0) | (_APPEARS if is_folder and name != _ANY else _WANTED)
        for place in self._folders.keys() - places.keys():
            self._forget(place)
        self._names = {}
        for place, names in places.items():
            known = place in self._folders and self._masks.get(place) == masks[place]
            if not known and not self._add(place, masks[place]):
                return
            self._names.setdefault(self._folders[place], set()).update(names)

    def soon(self) -> None:
        """Poll often again, because something changed just now (rule 3)."""
        self._poll = POLL_S

    async def wait(self, seconds: float) -> bool:
        """Wait until something may have changed, at most this long; returns False if the time is over."""
        if self._fd is None:
            pause = min(self._poll, seconds)
            self._poll = min(self._poll * 1.5, LONGEST_POLL_S)
            await asyncio.sleep(pause)
            return pause < seconds
        if self._read():
            return True
        fd, loop = self._fd, asyncio.get_running_loop()
        woken = asyncio.Event()

        def came() -> None:
            if self._read():
                woken.set()

        loop.add_reader(fd, came)
        try:
            async with asyncio.timeout(seconds):
                await woken.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(fd)
        return True

    def close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add(self, place: str, mask: int) -> bool:
        """Watch a folder. False: the kernel has no watch left, or none for this file system, so polling begins."""
        assert self._libc is not None
        number: int = self._libc.inotify_add_watch(self._fd, os.fsencode(place), mask)
        if number == _REFUSED:
            if os.path.isdir(place):
                self.close()
                return False
            number = -2 - len(self._folders)  # it vanished just now: the next `watch` finds another place
            self._came = True
        self._folders[place], self._masks[place] = number, mask
        return True

    def _forget(self, place: str) -> None:
        assert self._libc is not None
        number = self._folders.pop(place)
        self._names.pop(number, None)
        self._libc.inotify_rm_watch(self._fd, number)  # refused for one that vanished, which has no watch

    def _read(self) -> bool:
        """Take what the kernel reports; returns whether it is about something that is watched."""
        assert self._fd is not None
        came, self._came = self._came, False
        while True:
            try:
                data = os.read(self._fd, _READ)
            except BlockingIOError:
                return came
            at = 0
            while at < len(data):
                number, mask, _, length = _HEAD.unpack_from(data, at)
                name = os.fsdecode(data[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0"))
                at += _HEAD.size + length
                came = self._concerns(number, mask, name) or came

    def _concerns(self, number: int, mask: int, name: str) -> bool:
        if mask & _IGNORED:  # the folder is gone; a later one of its name is another folder
            self._folders = {place: one for place, one in self._folders.items() if one != number}
            return self._names.pop(number, None) is not None
        if mask & (_OVERFLOW | _DELETE_SELF | _MOVE_SELF):
            if mask & _MOVE_SELF:  # it has another name now
                for place in [place for place, one in self._folders.items() if one == number]:
                    self._forget(place)
            return True
        names = self._names.get(number, ())
        return name in names or _ANY in names


def _place(path: str, *, is_folder: bool) -> tuple[str, str]:
    """The folder to watch for a path, and the name in it that matters (rule 2)."""
    if is_folder and os.path.isdir(path):
        return path, _ANY
    folder, _, name = os.path.abspath(path).rpartition("/")
    while not os.path.isdir(folder or "/"):
        folder, _, name = folder.rpartition("/")
    return folder or "/", name


def _open() -> tuple[Any, int | None]:
    """The C library and an inotify descriptor; None if there is none."""
    import ctypes  # here, because most commands watch nothing

    try:
        libc: Any = ctypes.CDLL(None, use_errno=True)
        fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, AttributeError):
        return None, None
    return (None, None) if fd == _REFUSED else (libc, fd)
