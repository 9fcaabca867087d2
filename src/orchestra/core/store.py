"""The store: the only module that creates, lists, locks and opens runs.

Rules
1. A run is named by its folder (core/run.py). The folder is the driver's working copy: artifacts, logs, state.json and
   scratch files are local files in it and do not go through the store.
2. Only the holder of a claim writes a run's journal. A second claim gets RunLocked.
3. Reading needs no claim. A line that is being written right now is left out.
4. Records beside the journal (answers, cancels, a choice of models, an adoption, a reading of the clock) are sealed
   with this user's key for exactly this run. A record without a valid seal is not returned.
5. A fork is made under a hidden name, and gets its own name when it is complete. A run that is removed gets a hidden
   name first. So a kill leaves a complete run or none.

The rest of the program uses `Store`. `FileStore` keeps runs in folders, with the modules below it: the journal
(core/journal.py), the lock (core/lock.py), the inbox (core/inbox.py), the adoption (core/adoption.py), the reading of
the clock (core/clockfile.py). A test refuses other callers of these. A store that is not on this machine will also need
`changed(run)`, to wait for events.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, TypeVar

from msgspec import Struct

from orchestra.core import inbox
from orchestra.core.adoption import Adoption, keep_adoption, read_adoption
from orchestra.core.clockfile import ClockReading, keep_reading, read_reading, remove_reading
from orchestra.core.disk import Disk
from orchestra.core.errors import JournalCorrupt
from orchestra.core.events import Events
from orchestra.core.inbox import Message
from orchestra.core.journal import (
    FileFollower,
    FileJournal,
    Follower,
    Journal,
    OnEvent,
    Reading,
    first_is_own,
    read_events,
    read_first,
    read_journal,
    read_seals,
)
from orchestra.core.keyring import Keyring
from orchestra.core.lock import alone, is_locked, locked
from orchestra.core.records import Event, is_time, utc
from orchestra.core.redact import Redactor
from orchestra.core.run import EVENTS, REMOVED, RunFolder, is_id
from orchestra.core.seal import Seal
from orchestra.core.vouching import Standing, wrong_place

R = TypeVar("R", bound=Struct)
Files = Mapping[str, bytes]  # by their paths in the run's folder
NO_FILES: Files = MappingProxyType({})
_REMOVED = re.compile(r"\.(\d{4}-\d{2}-\d{2}_\d+_.+)" + re.escape(REMOVED))
_MOST_DIGITS = 9  # the most digits of a run's number


class Claim(Protocol):
    """A run that no other process writes (rule 2)."""

    @property
    def folder(self) -> RunFolder: ...

    def journal(self) -> Journal:
        """Open the run's journal for writing; the caller closes it."""


class Store(Protocol):
    """The runs of one project. `run` is the folder of a run everywhere."""

    # -- making -------------------------------------------------------------------------------------------------------

    def create(self, root: Path, *, workflow: str, name: str, files: Files = NO_FILES) -> RunFolder:
        """Make the next free run `{date}_{seq}_{workflow}_{name}` below `root`, with the files it begins with."""

    def create_child(self, root: Path, run_id: str, files: Files = NO_FILES) -> RunFolder:
        """Make the run of this id, with the files it begins with. An earlier process may have made a part of it."""

    def sync(self, run: RunFolder) -> None:
        """Make the run's name, and the names in its folder, survive a power cut."""

    def create_fork(self, root: Path, *, workflow: str, name: str, run_id: str = "") -> Claim:
        """Make the next free run as `create` does, or the one of this id, under a hidden name (rule 5).

        With `run_id`, what an earlier process made of it under the hidden name is removed first.
        """

    def publish_fork(self, fork: Claim) -> RunFolder:
        """Give a complete fork its own name, durably."""

    def alone(self, root: Path) -> AbstractContextManager[None]:
        """Hold the lock of a folder of runs for a moment: no fork gets its name meanwhile."""

    # -- finding ------------------------------------------------------------------------------------------------------

    def runs(self, roots: Iterable[Path], prefix: str = "") -> Iterator[RunFolder]:
        """The folders below `roots` with this prefix and a journal. The journal may be damaged."""

    def began(self, run: RunFolder) -> str | None:
        """When a run began; None if there is no run. For a damaged run, the time of its journal's file."""

    def is_driven(self, run: RunFolder) -> bool:
        """Whether a process holds the claim of the run now."""

    # -- driving and removing -----------------------------------------------------------------------------------------

    def claim(self, run: RunFolder) -> AbstractContextManager[Claim]:
        """Take the right to write this run; RunLocked (exit 7) if another process has it."""

    def hide(self, run: RunFolder) -> Path:
        """Give a claimed run the hidden name of a run that is being removed, durably. Returns the folder's new path."""

    def hidden(self, roots: Iterable[Path]) -> Iterator[tuple[str, Path]]:
        """The runs that `hide` renamed below these roots: their ids, and the paths of their folders now."""

    # -- reading ------------------------------------------------------------------------------------------------------

    def first(self, run: RunFolder) -> Event | None:
        """The first event of a run, with its workflow and parameters; None if there is none."""

    def first_is_own(self, run: RunFolder) -> bool:
        """Whether this user's key sealed the first event. Only then its record of what a person typed is trusted."""

    def events(self, run: RunFolder, *, keep: bool = True) -> Events:
        """The events of a run, of any user. Without `keep` they are not held in memory but read again when needed."""

    def all_events(self, run: RunFolder) -> list[Event]:
        """The events of a run, unabridged and in memory: for the process that drives it."""

    def standing(
        self,
        run: RunFolder,
        *,
        until: str = "",
        each: OnEvent | None = None,
        keep: bool = True,
        to_write: bool = False,
    ) -> Standing:
        """Read a run, and check whether this user's key sealed it.

        `until` is the id of the last event to read, `each` gets every event, `keep` is as for `events`. `to_write`:
        make the key if there is none, as for writing.
        """

    def vouched(self, run: RunFolder) -> Standing:
        """Check whether this user's key sealed a run, as `standing` does, but decode only its first event.

        For the process that is about to drive the run, and reads all events then.
        """

    def follow(self, run: RunFolder) -> Follower:
        """Read a run as it grows, from its beginning."""

    # -- records beside the journal (rule 4) --------------------------------------------------------------------------

    def deliver(self, run: RunFolder, request: str, message: Message) -> None:
        """Put a message into the run's inbox, durably; UsageError if the request was answered before."""

    def mail(self, run: RunFolder, request: str) -> Message | None:
        """The message for this request, if this user sent one; else None."""

    def unanswered(self, run: RunFolder, pending: Mapping[str, Event]) -> dict[str, Event]:
        """Those of the open requests that have no message yet."""

    def refuse_strangers(self, run: RunFolder, requests: Iterable[str]) -> list[str]:
        """Set aside the files in the place of these messages that this user did not write; returns their names."""

    def set_aside(self, run: RunFolder, request: str) -> None:
        """Remove a message from its place, so that the request can be answered again."""

    def keep(self, run: RunFolder, name: str, record: Struct) -> None:
        """Write a record with a field `seal` beside the run's messages, durably, in place of an earlier one."""

    def kept(self, run: RunFolder, name: str, kind: type[R]) -> R | None:
        """The record that `keep` wrote; None if this user wrote none."""

    def adopt(self, run: RunFolder, adoption: Adoption) -> None:
        """Record that a person adopted a run."""

    def keep_reading(self, run: RunFolder, reading: ClockReading) -> None:
        """Leave a reading of the tree's clock beside the journal of its root, in place of an earlier one; not durably.

        Only the holder of the root's claim calls this.
        """

    def kept_reading(self, run: RunFolder) -> ClockReading | None:
        """The reading that `keep_reading` wrote; None if this user left none."""

    def remove_reading(self, run: RunFolder) -> None:
        """Remove the reading of a run that ends, or whatever file is in its place.

        Only the holder of the root's claim calls this.
        """


class FileClaim:
    """A run in a folder whose lock is held, or whose name is hidden."""

    def __init__(self, folder: RunFolder, *, disk: Disk, redactor: Redactor, keyring: Keyring) -> None:
        self.folder = folder
        self._disk = disk
        self._redactor = redactor
        self._keyring = keyring

    def journal(self) -> Journal:
        """Open the run's journal for writing; the caller closes it."""
        seal = self._keyring.seal
        adoption = partial(read_adoption, self.folder, seal)
        return FileJournal(self.folder.events, disk=self._disk, redactor=self._redactor, seal=seal, adoption=adoption)


class FileStore:
    """Runs in folders of this machine. `Store` documents the methods."""

    def __init__(self, disk: Disk, redactor: Redactor, keyring: Keyring) -> None:
        self._disk = disk
        self._redactor = redactor
        self._keyring = keyring

    # -- making -------------------------------------------------------------------------------------------------------

    def create(self, root: Path, *, workflow: str, name: str, files: Files = NO_FILES) -> RunFolder:
        run = _create_folder(root, workflow=workflow, name=name)
        self._write(run, files)
        return run

    def create_child(self, root: Path, run_id: str, files: Files = NO_FILES) -> RunFolder:
        run = RunFolder(root / run_id)
        run.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._write(run, files)
        return run

    def _write(self, run: RunFolder, files: Files) -> None:
        for path, data in files.items():
            self._disk.publish(run.path / path, data, durable=True)

    def sync(self, run: RunFolder) -> None:
        self._disk.sync_folder(run.path)
        self._disk.sync_folder(run.path.parent)

    def create_fork(self, root: Path, *, workflow: str, name: str, run_id: str = "") -> Claim:
        new = run_id or _create_folder(root, workflow=workflow, name=name).id
        making = RunFolder(root / f".{new}.fork", new)
        if run_id and _is_folder(making.path):
            shutil.rmtree(making.path)
        making.path.mkdir(mode=0o700)
        return self._claim(making)

    def publish_fork(self, fork: Claim) -> RunFolder:
        making = fork.folder
        new = RunFolder(making.path.with_name(making.id))
        self._disk.sync_folder(making.path)
        with alone(new.path.parent):
            self._disk.replace(str(making.path), str(new.path))
        self._disk.sync_folder(new.path.parent)
        return new

    def alone(self, root: Path) -> AbstractContextManager[None]:
        return alone(root)

    # -- finding ------------------------------------------------------------------------------------------------------

    def runs(self, roots: Iterable[Path], prefix: str = "") -> Iterator[RunFolder]:
        for root in roots:
            try:
                with os.scandir(root) as entries:
                    for entry in entries:
                        if entry.name.startswith(prefix) and is_id(entry.name) and _has_journal(entry.path):
                            yield RunFolder(root / entry.name)
            except (FileNotFoundError, NotADirectoryError):
                continue

    def began(self, run: RunFolder) -> str | None:
        try:
            created = read_first(run.events)
            return _began(created) if created else None
        except JournalCorrupt:
            return utc(datetime.fromtimestamp(os.lstat(run.events).st_mtime, UTC))
        except OSError:
            return None

    def is_driven(self, run: RunFolder) -> bool:
        return is_locked(run)

    # -- driving and removing -----------------------------------------------------------------------------------------

    @contextmanager
    def claim(self, run: RunFolder) -> Iterator[Claim]:
        with locked(run):
            yield self._claim(run)

    def _claim(self, run: RunFolder) -> Claim:
        return FileClaim(run, disk=self._disk, redactor=self._redactor, keyring=self._keyring)

    def hide(self, run: RunFolder) -> Path:
        self._disk.replace(str(run.path), str(run.removed))
        self._disk.sync_folder(run.path.parent)
        return run.removed

    def hidden(self, roots: Iterable[Path]) -> Iterator[tuple[str, Path]]:
        for root in roots:
            try:
                with os.scandir(root) as entries:
                    names = sorted(entry.name for entry in entries if entry.name.endswith(REMOVED))
            except (FileNotFoundError, NotADirectoryError):
                continue
            for name in names:
                if (found := _REMOVED.fullmatch(name)) and _is_folder(root / name):
                    yield found[1], root / name

    # -- reading ------------------------------------------------------------------------------------------------------

    def first(self, run: RunFolder) -> Event | None:
        return read_first(run.events)

    def first_is_own(self, run: RunFolder) -> bool:
        return first_is_own(run.events, self._keyring.known)

    def events(self, run: RunFolder, *, keep: bool = True) -> Events:
        return read_journal(run.events, keep=keep).events

    def all_events(self, run: RunFolder) -> list[Event]:
        return read_events(run.events)

    def standing(
        self,
        run: RunFolder,
        *,
        until: str = "",
        each: OnEvent | None = None,
        keep: bool = True,
        to_write: bool = False,
    ) -> Standing:
        seal = self._keyring.seal if to_write else self._keyring.known
        return _standing(run, read_journal(run.events, seal, until=until, each=each, keep=keep), seal)

    def vouched(self, run: RunFolder) -> Standing:
        seal = self._keyring.known
        return _standing(run, read_seals(run.events, seal), seal)

    def follow(self, run: RunFolder) -> Follower:
        return FileFollower(run.events)

    # -- records beside the journal -----------------------------------------------------------------------------------

    def deliver(self, run: RunFolder, request: str, message: Message) -> None:
        seal = self._keyring.seal
        inbox.deliver(run, request, message, disk=self._disk, redactor=self._redactor, seal=seal)

    def mail(self, run: RunFolder, request: str) -> Message | None:
        return inbox.read(run, request, self._keyring.known)

    def unanswered(self, run: RunFolder, pending: Mapping[str, Event]) -> dict[str, Event]:
        return {name: event for name, event in pending.items() if self.mail(run, name) is None}

    def refuse_strangers(self, run: RunFolder, requests: Iterable[str]) -> list[str]:
        return inbox.refuse_strangers(run, requests, disk=self._disk, seal=self._keyring.seal)

    def set_aside(self, run: RunFolder, request: str) -> None:
        inbox.set_aside(run, request, self._disk)

    def keep(self, run: RunFolder, name: str, record: Struct) -> None:
        inbox.keep(run, name, record, disk=self._disk, seal=self._keyring.seal)

    def kept(self, run: RunFolder, name: str, kind: type[R]) -> R | None:
        return inbox.kept(run, name, kind, self._keyring.known)

    def adopt(self, run: RunFolder, adoption: Adoption) -> None:
        keep_adoption(run, adoption, disk=self._disk, seal=self._keyring.seal)

    def keep_reading(self, run: RunFolder, reading: ClockReading) -> None:
        keep_reading(run, reading, disk=self._disk, seal=self._keyring.seal)

    def kept_reading(self, run: RunFolder) -> ClockReading | None:
        return read_reading(run, self._keyring.known)

    def remove_reading(self, run: RunFolder) -> None:
        remove_reading(run, self._disk)


def _standing(run: RunFolder, reading: Reading, seal: Seal | None) -> Standing:
    """Whether the run is foreign: by its seals, its adoption and its place."""
    chain, events = reading.chain, reading.events
    lines, sha256 = chain.lines, chain.digest
    if adoption := read_adoption(run, seal):
        chain.adopt(adoption)
    created = events[0] if events else None
    workspace = chain.workspace or (str(created.payload.get("workspace", "")) if created else "")
    misplaced = wrong_place(run, created) if created else ""
    foreign = misplaced or (chain.why_foreign if chain.foreign else "")
    return Standing(events, created, foreign, workspace, lines, sha256)


def _create_folder(root: Path, *, workflow: str, name: str) -> RunFolder:
    """Make the next free run folder `{date}_{seq}_{workflow}_{name}` (D-07). Two concurrent starts get two (G4-11).

    The id of a run that is being removed is not free: its child runs may still exist.
    """
    date = datetime.now(UTC).date().isoformat()  # G4-1
    root.mkdir(parents=True, exist_ok=True)
    tail = f"_{workflow}_{name}"
    number = 1
    with os.scandir(root) as entries:
        for entry in entries:
            name = entry.name.removeprefix(".").removesuffix(REMOVED)
            if name.startswith(f"{date}_") and name.endswith(tail) and (taken := name.split("_")[1]).isdecimal():
                number = max(number, int(taken[:_MOST_DIGITS]) + 1)
    while True:
        folder = root / f"{date}_{number:03d}{tail}"
        try:
            folder.mkdir(mode=0o700)
            return RunFolder(folder)
        except FileExistsError:
            number += 1


def _began(created: Event) -> str:
    """When the run of this first event was made: that of a fork has the time of its source."""
    forked = created.payload.get("forkedFrom")
    made = forked.get("made") if isinstance(forked, dict) else None
    return made if isinstance(made, str) and is_time(made) else created.ts


def _has_journal(path: str) -> bool:
    """Whether the folder has something named like a journal. Cheap, because there may be many other folders."""
    return os.path.lexists(f"{path}/{EVENTS}")


def _is_folder(path: Path) -> bool:
    """Whether the path is a folder, and not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False
