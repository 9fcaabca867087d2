"""The projects of this user: where they are, and the number of the newest run in each.

Rules
1. There is one small file for each project, in the user's state folder (core/keyring.py). It is written when a run is
   started there.
2. The number of a run is recorded in its first event. It only grows: the number of a removed run is not given again.
   Two runs that are started at once get two numbers.
3. Numbers are for convenience. If the file cannot be written, a run has no number, and is started all the same.
4. A project is listed only while its folder is there and belongs to this user or to root: another user could have put
   another folder in its place.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from orchestra.core.disk import Disk
from orchestra.core.errors import OddFile, OrchestraError, UsageError
from orchestra.core.files import MIB, entries_below, read_bounded
from orchestra.core.keyring import state_folder, within_project
from orchestra.core.records import now
from orchestra.core.store import Store

MOST_NUMBER = 999_999_999


class Known(Struct, frozen=True):
    """The record of one project."""

    project: str
    number: int  # of the newest run
    at: str  # when that was started


class Projects:
    """The projects of one user."""

    def __init__(self, environ: Mapping[str, str], store: Store) -> None:
        self._environ = environ
        self._store = store
        self._disk = Disk()  # not the project's: nothing of a run depends on these files

    def next_number(self, project: Path, newest: Callable[[], int]) -> int:
        """The number of a new run, recorded; 0 if it cannot be recorded (rule 3).

        `newest` gives the greatest number of the runs in the project; it is called if there is no record.
        """
        try:
            file = self._file(str(project))
            if within_project(file, str(project)):
                return 0
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._store.alone(file.parent):
                known = _read(file)
                before = known.number if known and known.project == str(project) else newest()
                number = min(before, MOST_NUMBER - 1) + 1
                record = Known(str(project), number, now())
                self._disk.publish(file, msgspec.json.encode(record), durable=False)
                return number
        except (OSError, OrchestraError):
            return 0

    def all(self) -> Iterator[Path]:
        """The folders of the projects, those with the newest runs first (rule 4)."""
        try:
            files = [Path(entry.path) for entry in entries_below(self._folder)]
        except UsageError:
            return
        known = filter(None, map(_read, files))
        for one in sorted(known, key=lambda one: one.at, reverse=True):
            if is_ours(one.project):
                yield Path(one.project)

    @property
    def _folder(self) -> Path:
        return state_folder(self._environ) / "projects"

    def _file(self, project: str) -> Path:
        name = hashlib.sha256(project.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return self._folder / f"{name}.json"


def is_ours(path: str) -> bool:
    """Whether this is a folder, no link, of this user or of root."""
    try:
        held = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(held.st_mode) and held.st_uid in (os.geteuid(), 0)


def _read(file: Path) -> Known | None:
    """A record; None if there is none that can be used."""
    try:
        found = msgspec.json.decode(read_bounded(file, MIB), type=Known)
    except (OSError, OddFile, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if os.path.isabs(found.project) and 0 <= found.number <= MOST_NUMBER else None
