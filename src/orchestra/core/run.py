"""A run's folder: its name, its files, its lock. Knows where things are, not what they mean.

.runs/workflows/<runId>/            (S1-100; other workflows: <paths.runs>/<runId>/, D-06)
  events.ndjson                     the journal, the only truth
  state.json                        the newest snapshot, rebuilt from the journal whenever it is missing or behind
  artifacts/<phase>/iter-NNNN.*     what was said and made; *.raw.txt are exact bytes, owner-only (C-12)
  logs/*.log                        JSON lines for people, derived from the journal
  inbox/                            answers and cancels on their way in, each sealed by who sent it
  adopted.json                      a person's word for a run that this user's key did not make
  report.md                         what happened, written before the run ends (C-26)
  lock, scratch/                    who drives it; half-made files of an apply
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from orchestra.core.errors import OddFile, RunLocked, UsageError
from orchestra.core.files import digest_below, lines_below, read_below
from orchestra.core.records import ArtifactRef

EVENTS = "events.ndjson"
REMOVED = ".removed"
MOST_ARTIFACT = 1 << 30
_MOST_ATTEMPTS, _GAP = 1000, 16  # of one call; numbers in a row that may be missing
_MOST_DIGITS = 9  # of a run's number
_SLUG = re.compile(r"[^a-z0-9]+")


class RunFolder:
    """Paths of one run."""

    __slots__ = ("id", "path")  # there may be very many

    def __init__(self, path: Path, run_id: str = "") -> None:
        self.path = path
        self.id = run_id or path.name

    @property
    def events(self) -> Path:
        return self.path / EVENTS

    @property
    def state(self) -> Path:
        return self.path / "state.json"

    @property
    def artifacts(self) -> Path:
        return self.path / "artifacts"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def inbox(self) -> Path:
        return self.path / "inbox"

    @property
    def scratch(self) -> Path:
        return self.path / "scratch"

    @property
    def report(self) -> Path:
        return self.path / "report.md"

    @property
    def adopted(self) -> Path:
        return self.path / "adopted.json"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def removed(self) -> Path:
        """Its name while it is being removed, which is no run's."""
        return self.path.with_name(f".{self.path.name}{REMOVED}")

    def artifact(self, stem: str) -> Path:
        """The file of an artifact named relative to `artifacts/`."""
        return self.artifacts / stem

    def reference(self, path: Path, data: bytes) -> ArtifactRef:
        """How an event names a file of this run (D-04)."""
        return ArtifactRef(path=str(path.relative_to(self.path)), bytes=len(data), sha256=digest(data))

    def read(self, name: str, most: int) -> bytes:
        """The bytes of a file of this run, named relative to its folder; OddFile if it is none, or larger than that."""
        return read_below(self.path, name, most)

    def lines(self, name: str, most: int) -> Iterator[bytes]:
        """The same, line by line."""
        return lines_below(self.path, name, most)

    def recorded(self, said: object, most: int) -> bytes:
        """The bytes of a file as an event names it; UsageError if they are others now: nobody may be shown those."""
        try:
            ref = msgspec.convert(said, ArtifactRef, from_attributes=True)
        except msgspec.ValidationError:
            raise UsageError(f"run {self.id} does not say where that file is; look into {self.artifacts}") from None
        for name in (ref.path, *self._set_aside(ref.path)):
            try:
                data = self.read(name, min(most, ref.bytes))
            except (OSError, OddFile):
                continue
            if digest(data) == ref.sha256:
                return data
        raise UsageError(
            f"{self.path / ref.path} is gone, or is not what the run recorded: it is not shown. "
            f"What is wrong with the run: orchestra verify {self.id}"
        )

    def find(self, ref: ArtifactRef) -> Path | None:
        """The file an event named, wherever a later attempt moved it (G1-8); None if it is gone or changed."""
        if ref.bytes > MOST_ARTIFACT:
            return None
        for name in (ref.path, *self._set_aside(ref.path)):
            if digest_below(self.path, name, ref.bytes) == ref.sha256:
                return self.path / name
        return None

    def _set_aside(self, name: str) -> Iterator[str]:
        """The names that the raw reply of this name may have got since; they are numbered, with few gaps."""
        stem, missing, number = name.removesuffix(".raw.txt"), 0, 0
        while stem != name and missing < _GAP and number < _MOST_ATTEMPTS:
            number += 1
            aside = f"{stem}.attempt-{number}.raw.txt"
            missing = 0 if os.path.lexists(self.path / aside) else missing + 1
            if not missing:
                yield aside

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the one process that drives this run; RunLocked (exit 7) if another is. The kernel frees it on death."""
        fd = _open_lock(self.lock, os.O_RDWR | os.O_CREAT)
        try:
            if not _take_lock(fd):
                holder = os.pread(fd, 20, 0).decode(errors="replace").strip() or "unknown"
                raise RunLocked(
                    f"run {self.id} is being driven by another process (pid {holder}). "
                    f"Watch it: orchestra watch {self.id}. Stop it: orchestra cancel {self.id}"
                )
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(fd)


def is_driven(folder: RunFolder) -> bool:
    """Whether some process holds the run's lock right now."""
    try:
        fd = _open_lock(folder.lock, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError, OddFile):  # nobody can hold what is no lock
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(fd)


def _open_lock(path: Path, flags: int) -> int:
    """The lock's file, and nothing else in its place: a named pipe would be waited for, a link leads elsewhere."""
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise OddFile(str(path), "is no lock, but a link, a folder or a device") from error
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OddFile(str(path), "is no lock, but a named pipe, a folder or a device")
    return fd


def _take_lock(fd: int) -> bool:
    # A few tries: `is_driven` in another process holds the lock for an instant, and that is not driving.
    for _ in range(5):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.01)
    return False


def digest(data: bytes) -> str:
    """How bytes are named everywhere: `sha256:<hex>` (G2-8)."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def slug(text: str, *, most: int = 40) -> str:
    """A kebab-case name from free text (G4-2); text without Latin letters or digits (pure Hangul) becomes `run`."""
    words = _SLUG.sub("-", text.lower()).strip("-")
    if len(words) > most:
        words = words[:most].rsplit("-", 1)[0] or words[:most]
    return words or "run"


def create_folder(root: Path, *, date: str, workflow: str, name: str) -> RunFolder:
    """Make the next free run folder `{date}_{seq}_{workflow}_{name}` (D-07); two starters at once get two (G4-11).

    The id of a run that is being removed is not free: child runs of it may still be there.
    """
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
