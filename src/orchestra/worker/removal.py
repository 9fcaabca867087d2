"""Removing what a command left behind, whatever that is: an overlay's folders, a scratch folder.

Rules
1. No link is followed: every name is reached through the descriptor of the folder it is in.
2. No depth is too deep: a folder inside a folder is first moved up to the top, so two descriptors and no recursion are
   enough for any tree.
3. A folder that forbids entry (overlay's mode-0 work folder, MS-3.10) is opened by its owner's right first.
4. It never raises for what it finds; it gives back the names it could not remove.

Nothing here is durable state, so it does not go through `Disk`: a crash only leaves something to remove again.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from orchestra.worker.hostile import FOLDER, entered, opened, shown

MOST_NAMES = 100  # of what could not be removed


def discard(folder: Path) -> tuple[str, ...]:
    """Remove a folder (or file) and everything in it; the names that are still there, if any."""
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
    """One folder being emptied. `_stuck` are names at its top that would not go."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._stuck: dict[str, str] = {}
        self._moved = 0

    def run(self) -> list[str]:
        """Pass after pass, until one finds nothing that it could remove or take apart."""
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
            pass  # to get a new parent, a folder must be writable itself
        while True:
            self._moved += 1
            try:
                os.rename(name, f"{self._moved}", src_dir_fd=folder, dst_dir_fd=self._top)
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise  # not: the name is taken by something the command made
