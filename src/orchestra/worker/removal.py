"""Removing files that a command left: an overlay's folders, a scratch folder.

Rules
1. No link is followed: every name is reached through the descriptor of the folder it is in.
2. Any depth works: a folder inside a folder is first moved up to the top, so two descriptors and no recursion are
   enough for any tree.
3. The owner first changes the mode of a folder that forbids entry (overlay's mode-0 work folder, MS-3.10).
4. No content of the folder makes it raise; it returns the names that it could not remove.

The files are not durable state, so `Disk` is not used: after a crash they are removed again.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from orchestra.worker.hostile import FOLDER, entered, opened, shown

MOST_NAMES = 100  # names that could not be removed are listed up to this number


def discard(folder: Path) -> tuple[str, ...]:
    """Remove a folder (or file) and everything in it; return the names that could not be removed."""
    try:
        with opened(folder.parent, FOLDER & ~os.O_NOFOLLOW) as above:
            return discard_at(above, folder.name)
    except FileNotFoundError:
        return ()
    except OSError as error:
        return (f"{folder}: {error.strerror}",)


def discard_at(above: int, name: str) -> tuple[str, ...]:
    """The same for a name in an open folder."""
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=above)
            return ()
        with entered(above, name) as top:
            stuck = _Emptying(top).run()
        if not stuck:
            os.rmdir(name, dir_fd=above)
        return tuple(f"{shown(name)}/{one}" for one in stuck)
    except FileNotFoundError:
        return ()
    except OSError as error:
        return (f"{shown(name)}: {error.strerror}",)


class _Emptying:
    """Empties one folder. `_stuck` are names at its top that could not be removed."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._stuck: dict[str, str] = {}
        self._moved = 0

    def run(self) -> list[str]:
        """Repeat passes until one removes and moves nothing; return the names that are left."""
        while self._pass():
            pass
        told = [f"{shown(name)}: {why}" for name, why in self._stuck.items()]
        more = len(told) - MOST_NAMES
        return [*told[:MOST_NAMES], f"(and {more} more)"] if more > 0 else told

    def _pass(self) -> bool:
        found = False
        with os.scandir(self._top) as entries:
            for entry in entries:
                if entry.name not in self._stuck:
                    found = True
                    try:
                        self._remove(entry.name)
                    except OSError as error:
                        self._stuck[entry.name] = error.strerror or str(error)
        return found

    def _remove(self, name: str) -> None:
        if self._gone(self._top, name):
            return
        with entered(self._top, name) as folder, os.scandir(folder) as entries:
            for entry in entries:
                if not self._gone(folder, entry.name):
                    self._move_up(folder, entry.name)
        # If listing skipped a name, the folder is not empty yet: the next pass finds it again at the top.
        self._gone(self._top, name)

    def _gone(self, folder: int, name: str) -> bool:
        """Remove a file or an empty folder; False for a folder with something in it."""
        try:
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno != errno.EISDIR:
                raise
        else:
            return True
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return False
        return True

    def _move_up(self, folder: int, name: str) -> None:
        with entered(folder, name):
            pass  # a folder must be writable itself to be moved
        while True:
            self._moved += 1
            try:
                os.rename(name, f"{self._moved}", src_dir_fd=folder, dst_dir_fd=self._top)
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise  # the three others: the command made a file of that name, so try the next number
