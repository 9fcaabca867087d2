"""Sessions: the memory of a conversation across runs, one file for each (S5-15 … S5-17).

    .orchestra/sessions/<id>.json     {id, createdAt, updatedAt, turn, runId, messages[{role, content}]}
    .orchestra/sessions/<id>.ndjson   a line for each saved turn: run, goal and answer; for people, never for models
    .orchestra/sessions/<id>.turn     the newest turn and its run
    .orchestra/sessions/<id>.lock     held by the process that drives a turn
    .orchestra/sessions/.history      what was typed in chats of this project; no session's id begins with a dot

Rules
1. A session file is a view: each run records what it saved (effects.py), so the newest run of a session rebuilds its
   file. A file that cannot be read is refused by name and kept as it is; `sessions rebuild` makes it again.
2. A file is replaced whole or not at all. Its size is bounded by ContextGuard, not by the number of turns.
3. One turn at a time: `hold` keeps the session's lock from before a turn begins until its process ends. A turn is
   written down before its run is created, without the run's id; so a kill in between leaves no unknown run behind.
4. A turn saves only over the turn before it: a run that is resumed after newer turns changes nothing.
5. An id is letters, digits, `.`, `_` and `-`, at most 64, not beginning with a dot (G5-4). It is never a path.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from orchestra.core.disk import Disk
from orchestra.core.errors import DurabilityError, OddFile, RunLocked, UsageError
from orchestra.core.files import MIB, open_bounded, read_bounded
from orchestra.core.records import now
from orchestra.core.redact import Redactor
from orchestra.workflows.evidence.memory import Message

FOLDER = Path(".orchestra", "sessions")
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_MOST = 64 * MIB
_TAIL = 64 * 1024  # bytes of the lines' end that are looked at for the last one


class Session(Struct, frozen=True):
    """A session's file."""

    id: str
    createdAt: str
    updatedAt: str
    messages: tuple[Message, ...] = ()
    turn: int = 0  # turns that were saved
    runId: str = ""  # the run that saved it last


class Turn(Struct, frozen=True):
    """The newest turn of a session, ended or not. Without a run: it was about to begin."""

    turn: int
    runId: str = ""


class Told(Struct, frozen=True):
    """A finished turn, as people read it again."""

    turn: int
    runId: str
    goal: str
    answer: str


def checked_id(session: str) -> str:
    """The id, if it is one; UsageError (exit 2) if not (rule 5)."""
    if not _ID.fullmatch(session):
        raise UsageError(
            f"{session!r} is no session's id: use at most 64 of a-z, A-Z, 0-9, '.', '_' and '-', and no dot first"
        )
    return session


def _end_of(path: Path) -> bytes:
    """The last bytes of a file; none if there is no such file."""
    try:
        fd = open_bounded(path, _MOST)
    except (FileNotFoundError, OddFile):
        return b""
    try:
        return os.pread(fd, _TAIL, max(0, os.fstat(fd).st_size - _TAIL))
    finally:
        os.close(fd)


def _damaged(path: Path, what: str, session: str, damage: Exception) -> DurabilityError:
    return DurabilityError(
        f"{path} cannot be read as {what} ({damage}). It was left as it is."
        f" To make it again from its runs: orchestra sessions rebuild {session}"
    )


def in_use(session: str) -> RunLocked:
    """The error of a session whose turn another process drives."""
    return RunLocked(f"session {session} is in use by another process; nothing was recorded. Try again when it is done")


class Sessions:
    """The sessions of one project."""

    def __init__(self, project: Path, disk: Disk, redactor: Redactor) -> None:
        self._folder = project / FOLDER
        self._disk = disk
        self._redactor = redactor

    def path(self, session: str) -> Path:
        """The file of a session."""
        return self._folder / f"{checked_id(session)}.json"

    @property
    def history(self) -> Path:
        """The file of what was typed in chats."""
        return self._folder / ".history"

    def open(self, session: str) -> Session | None:
        """A session; None if there is none. DurabilityError if its file cannot be read (rule 1)."""
        path = self.path(session)
        try:
            found = msgspec.json.decode(read_bounded(path, _MOST), type=Session)
        except FileNotFoundError:
            return None
        except (OddFile, OSError, msgspec.DecodeError, UnicodeDecodeError) as damage:
            raise _damaged(path, "a session", session, damage) from damage
        if found.id != session:
            raise DurabilityError(f"{path} is the file of session {found.id!r}; rename it, or move it away")
        return found

    def save(self, session: str, messages: tuple[Message, ...], told: Told, *, previous: str = "") -> bool:
        """Replace a session's file after a turn; False unless it is as `previous`, the turn before, saved it."""
        earlier = self.open(session)
        if earlier is not None and earlier.runId not in (previous, told.runId):
            return False
        created = earlier.createdAt if earlier else now()
        kept = tuple(Message(one.role, self._redactor.text(one.content)) for one in messages)
        self._write(Session(session, created, now(), kept, told.turn, told.runId))
        self._log(session, told)
        return True

    def _log(self, session: str, told: Told) -> None:
        """Append a turn to the lines for people, unless a process that was killed has done it already."""
        path = self._lines(session)
        end = _end_of(path)
        whole = end.endswith(b"\n")  # else a kill tore the last line
        if whole and f'"runId":"{told.runId}"'.encode() in end.rstrip(b"\n").rpartition(b"\n")[2]:
            return
        line = self._redactor.data(msgspec.json.encode(told)) + b"\n"
        fd = self._disk.open_end(path)
        try:
            self._disk.append(fd, line if whole or not end else b"\n" + line)
        finally:
            os.close(fd)

    def turns(self, session: str) -> Iterator[Told]:
        """The saved turns, the oldest first. Lines that cannot be read are left out."""
        try:
            fd = open_bounded(self._lines(session), _MOST)
        except (OSError, OddFile):
            return
        with open(fd, "rb") as lines:
            for line in lines:
                try:
                    yield msgspec.json.decode(line, type=Told)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    continue

    def restore(self, session: str, messages: tuple[Message, ...], turns: Sequence[Told]) -> Path | None:
        """Write a session's files anew from its runs; returns where a damaged file was moved to."""
        self._make_folder()
        aside = self._set_aside(self.path(session))
        self._write(Session(session, now(), now(), messages, turns[-1].turn, turns[-1].runId))
        lines = b"".join(msgspec.json.encode(one) + b"\n" for one in turns)
        self._disk.publish(self._lines(session), lines, durable=True)
        return aside

    def restore_turn(self, session: str, turn: Turn) -> None:
        """Write down the newest turn again, as its run has it; a damaged file is kept under another name."""
        self._make_folder()
        self._set_aside(self._turn(session))
        self.begin_turn(session, turn)

    def _set_aside(self, path: Path) -> Path | None:
        if not os.path.lexists(path):
            return None
        aside = path.with_name(f"{path.name}.damaged-{now().replace(':', '')}")
        self._disk.replace(str(path), str(aside))
        return aside

    def _lines(self, session: str) -> Path:
        return self.path(session).with_suffix(".ndjson")

    def _write(self, session: Session) -> None:
        self._make_folder()
        self._disk.publish(
            self.path(session.id), msgspec.json.format(msgspec.json.encode(session)) + b"\n", durable=True
        )

    # -- turns --------------------------------------------------------------------------------------------------------

    @contextmanager
    def hold(self, session: str) -> Iterator[None]:
        """Hold the session during a turn; RunLocked (exit 7) if another process does (rule 3)."""
        self._make_folder()
        fd = os.open(
            self.path(session).with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise in_use(session) from None
            yield
        finally:
            os.close(fd)

    def newest_turn(self, session: str) -> Turn | None:
        """The newest turn that was begun; None if there is none. DurabilityError if its file is damaged (rule 1)."""
        path = self._turn(session)
        try:
            return msgspec.json.decode(read_bounded(path, MIB), type=Turn)
        except FileNotFoundError:
            return None
        except (OSError, OddFile, msgspec.DecodeError, UnicodeDecodeError) as damage:
            raise _damaged(path, "the newest turn of a session", session, damage) from damage

    def begin_turn(self, session: str, turn: Turn) -> None:
        """Write down a new turn: durably before its run exists, then with its run (rule 3)."""
        self._disk.publish(self._turn(session), msgspec.json.encode(turn), durable=not turn.runId)

    def _turn(self, session: str) -> Path:
        return self.path(session).with_suffix(".turn")

    # -- all of them --------------------------------------------------------------------------------------------------

    def ids(self) -> list[str]:
        """The ids of all sessions, in order."""
        try:
            with os.scandir(self._folder) as entries:
                files = (entry.name for entry in entries)
                names = {name.rpartition(".")[0] for name in files if name.endswith((".json", ".turn"))}
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(name for name in names if _ID.fullmatch(name))

    def exists(self, session: str) -> bool:
        """Whether there is a session of this id, readable or not; one whose first turn is not over counts."""
        return os.path.lexists(self.path(session)) or os.path.lexists(self._turn(session))

    def require(self, session: str) -> str:
        """The id; UsageError if there is no such session."""
        if not self.exists(session):
            raise UsageError(f"there is no session {session!r}; to list them: orchestra sessions")
        return session

    def rename(self, session: str, new: str) -> None:
        """Give a session another id. Its runs keep the old one."""
        found = self.open(self.require(session))
        if self.exists(new):
            raise UsageError(f"there is a session {new!r} already; delete it first, or choose another name")
        if found is not None:
            self._write(msgspec.structs.replace(found, id=new))
        for old, target in ((self._lines(session), self._lines(new)), (self._turn(session), self._turn(new))):
            if os.path.lexists(old):
                self._disk.replace(str(old), str(target))
        self.delete(session)

    def delete(self, session: str) -> None:
        """Remove a session's files. Its runs stay."""
        for one in (self.path(session), self._lines(session), self._turn(session)):
            if os.path.lexists(one):
                self._disk.unlink(str(one))

    def _make_folder(self) -> None:
        if self._folder.is_symlink() or self._folder.parent.is_symlink():
            raise UsageError(f"{self._folder} is a link; sessions are kept in a folder of the project: remove the link")
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        ignore = self._folder / ".gitignore"
        if not ignore.exists():  # what was said is not committed by accident
            self._disk.publish(ignore, b"*\n", durable=False)
