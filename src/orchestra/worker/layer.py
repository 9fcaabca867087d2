"""The changes a command made: its overlay's upper folder, compared with the workspace (MS-1.3).

What the kernel puts there (bwrap 0.11 `--overlay`, measured on 6.18, the same as user and as root): changed and new
files whole; a deleted name as a character device 0:0; a folder that was removed and made again with the attribute
`user.overlay.opaque=y`; copies of files that were only touched; nothing for folders moved (they are copied). Such marks
cannot be forged from inside: the kernel escapes them (`user.overlay.overlay.opaque`).

Rules
1. The folder is hostile. It is read through directory descriptors, no link is followed, and everything is bounded.
2. Only changes that a text patch can express are taken: UTF-8 text files made, changed, deleted or with another x bit.
   Every other change is in `refused` with its reason; nothing is left out silently.
   As in git, empty folders, folders' modes and other permission bits are no change.
3. Over a bound of the whole (`files`, `total_bytes`, `entries`) nothing is taken at all: half a change is worse.
4. Paths that `ignored` names (build output, caches) are no change. They stay: the folder can be a layer for later
   commands (kept.py).
5. A file that changed in the workspace after `since_ns` is refused: the command never saw that text.

It makes no diff (patch/written.py does) and writes nothing into the workspace.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from orchestra.worker.hostile import FILE, FOLDER, facts_of, join, kind, marks, opened, regular, shown, unspeakable
from orchestra.worker.task import MIB

_CHUNK = 1 << 18


class LayerBounds(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on what is read and taken."""

    files: int = 200  # changed files: the patch gate takes no more (patch/safety.py)
    file_bytes: int = 16 * MIB  # of one file, before or after
    total_bytes: int = 64 * MIB  # of all of them, before and after
    entries: int = 200_000  # names examined, ignored folders not entered
    depth: int = 100
    compare_bytes: int = 256 * MIB  # of a file that may be unchanged
    refusals: int = 100  # listed one by one


BOUNDS = LayerBounds()


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """One text file that changed; None: the file does not exist. Modes are permission bits."""

    path: str
    before: bytes | None
    after: bytes | None
    before_mode: int | None
    after_mode: int | None


class RefusedChange(msgspec.Struct, frozen=True):
    """A change that is not taken. `path` is empty if the reason concerns the whole."""

    path: str
    reason: str


class Harvest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of an upper folder. `kept` are the topmost ignored paths, which stay there."""

    files: tuple[Written, ...] = ()
    kept: tuple[str, ...] = ()
    refused: tuple[RefusedChange, ...] = ()


def changes(
    upper: Path,
    workspace: Path,
    *,
    ignored: Callable[[str, bool], bool],
    limits: LayerBounds = BOUNDS,
    since_ns: int | None = None,
) -> Harvest:
    """Read an upper folder after its command has ended. `ignored(path, is_folder)` judges workspace-relative paths."""
    walk = _Walk(ignored, limits, since_ns)
    with opened(upper, FOLDER) as new, opened(workspace, FOLDER & ~os.O_NOFOLLOW) as old:
        try:
            walk.folder("", new, old, depth=1)
        except _TooMuch as much:
            return Harvest(refused=(RefusedChange("", str(much)),))
    return Harvest(files=tuple(walk.files), kept=tuple(walk.kept), refused=walk.refusals())


class _TooMuch(Exception):
    """A limit of the whole is exceeded (rule 3)."""


class _Walk:
    """One reading of an upper folder."""

    def __init__(self, ignored: Callable[[str, bool], bool], limits: LayerBounds, since_ns: int | None) -> None:
        self.files: list[Written] = []
        self.kept: list[str] = []
        self._ignored = ignored
        self._limits = limits
        self._since = since_ns
        self._refused: list[RefusedChange] = []
        self._unnamed = 0  # refusals past the bound
        self._entries = self._bytes = 0

    def refusals(self) -> tuple[RefusedChange, ...]:
        more = (RefusedChange("", f"{self._unnamed} more changes were refused"),) if self._unnamed else ()
        return (*self._refused, *more)

    def folder(self, path: str, new: int, old: int | None, *, depth: int) -> None:
        """Compare a folder of the upper layer with the workspace's folder of that name, if there is one."""
        names = self._names(new)
        for name in names:
            with self._refusing(join(path, name)):
                self._entry(join(path, name), name, new, old, depth=depth)
        if old is not None and path and marks(new).get("opaque") == b"y":
            for name in sorted(set(self._names(old)) - set(names)):
                with self._refusing(join(path, name)):
                    self._gone(join(path, name), name, old, depth=depth)

    def _entry(self, path: str, name: str, new: int, old: int | None, *, depth: int) -> None:
        facts = os.stat(name, dir_fd=new, follow_symlinks=False)
        if _is_whiteout(facts):
            self._gone(path, name, old, depth=depth)
            return
        if why := unspeakable(name):
            self._refuse(path, why)
            return
        if self._ignored(path, stat.S_ISDIR(facts.st_mode)):
            self.kept.append(path)
            return
        was = facts_of(name, old)
        if was is not None and stat.S_IFMT(was.st_mode) != stat.S_IFMT(facts.st_mode):
            self._refuse(path, f"{kind(facts)} took the place of {kind(was)}")
        elif stat.S_ISDIR(facts.st_mode):
            self._subfolder(path, name, new, old if was else None, mode=facts.st_mode, depth=depth)
        elif stat.S_ISREG(facts.st_mode):
            self._file(path, name, new, old if was else None)
        elif not (stat.S_ISLNK(facts.st_mode) and was and _target(name, new) == _target(name, old)):
            self._refuse(path, f"it is {kind(facts)}; only text files are taken")

    def _subfolder(self, path: str, name: str, new: int, old: int | None, *, mode: int, depth: int) -> None:
        if depth >= self._limits.depth:
            self._refuse(path, f"folders lie in each other more than {self._limits.depth} deep")
        elif mode & 0o500 != 0o500:
            self._refuse(path, f"the folder's own mode ({stat.S_IMODE(mode):03o}) forbids entry")
        else:
            with opened(name, FOLDER, new) as inner, _maybe(name, old) as below:
                if "redirect" in marks(inner):
                    self._refuse(path, "the folder was moved by the file system, not copied")
                else:
                    self.folder(path, inner, below, depth=depth + 1)

    def _file(self, path: str, name: str, new: int, old: int | None) -> None:
        with opened(name, FILE, new) as fd:
            facts = regular(fd)
            if {"metacopy", "redirect", "whiteout"} & marks(fd).keys():
                self._refuse(path, "it is in a form of overlay that is not known here")
                return
            before, was = None, None
            if old is not None:
                with opened(name, FILE, old) as below:
                    was = regular(below)
                    if self._is_same(fd, facts, below, was):
                        return
                    if self._is_newer(path, was):
                        return
                    before = self._text(path, below, was)
            if facts.st_mode & (stat.S_ISUID | stat.S_ISGID):
                self._refuse(path, "it has a set-user or set-group bit")
            elif not facts.st_mode & 0o400:
                self._refuse(path, "its own mode forbids reading it")
            elif old is None or before is not None:
                after = self._text(path, fd, facts)
                if after is not None:
                    self._take(path, before, after, was, facts)

    def _gone(self, path: str, name: str, old: int | None, *, depth: int) -> None:
        """A name the command deleted: a file, or everything in a folder but what is ignored."""
        was = facts_of(name, old)
        if was is None or old is None:
            return  # the name was in another layer only
        if why := unspeakable(name):
            self._refuse(path, why)
        elif self._ignored(path, stat.S_ISDIR(was.st_mode)):
            pass  # an ignored path: its deletion is not kept (rule 4)
        elif stat.S_ISDIR(was.st_mode):
            if depth >= self._limits.depth:
                self._refuse(path, f"folders lie in each other more than {self._limits.depth} deep")
                return
            with opened(name, FOLDER, old) as inner:
                for one in self._names(inner):
                    with self._refusing(join(path, one)):
                        self._gone(join(path, one), one, inner, depth=depth + 1)
        elif stat.S_ISREG(was.st_mode):
            with opened(name, FILE, old) as fd:
                was = regular(fd)
                if not self._is_newer(path, was):
                    before = self._text(path, fd, was)
                    if before is not None:
                        self._take(path, before, None, was, None)
        else:
            self._refuse(path, f"it deletes {kind(was)}")

    def _take(
        self,
        path: str,
        before: bytes | None,
        after: bytes | None,
        was: os.stat_result | None,
        facts: os.stat_result | None,
    ) -> None:
        self.files.append(
            Written(
                path=path,
                before=before,
                after=after,
                before_mode=None if was is None else stat.S_IMODE(was.st_mode),
                after_mode=None if facts is None else stat.S_IMODE(facts.st_mode),
            )
        )
        self._bytes += len(before or b"") + len(after or b"")
        if len(self.files) > self._limits.files:
            raise _TooMuch(f"more than {self._limits.files} files changed; none of them is taken")
        if self._bytes > self._limits.total_bytes:
            raise _TooMuch(f"the changed files hold more than {self._limits.total_bytes} bytes; none of them is taken")

    def _is_newer(self, path: str, was: os.stat_result) -> bool:
        newer = self._since is not None and was.st_ctime_ns > self._since
        if newer:
            self._refuse(path, "someone else changed it in the workspace while the command ran")
        return newer

    def _is_same(self, new: int, facts: os.stat_result, old: int, was: os.stat_result) -> bool:
        """Whether the file is an unchanged copy that the file system made, e.g. because the file was touched."""
        if facts.st_size != was.st_size or (facts.st_mode ^ was.st_mode) & 0o100:
            return False
        if facts.st_size > self._limits.compare_bytes:
            return False
        offset = 0
        while chunk := os.pread(new, _CHUNK, offset):
            if chunk != os.pread(old, len(chunk), offset):
                return False
            offset += len(chunk)
        return True

    def _text(self, path: str, fd: int, facts: os.stat_result) -> bytes | None:
        """The file's bytes; None, and a refusal is recorded, if it is too big or not text."""
        if facts.st_size > self._limits.file_bytes:
            self._refuse(path, f"it holds {facts.st_size} bytes; files up to {self._limits.file_bytes} are taken")
            return None
        parts: list[bytes] = []
        size = 0
        while size <= self._limits.file_bytes and (chunk := os.pread(fd, _CHUNK, size)):
            parts.append(chunk)
            size += len(chunk)
        data = b"".join(parts)
        if size > self._limits.file_bytes or b"\0" in data or not _is_utf8(data):
            self._refuse(path, "it is binary, or no UTF-8 text; patches are text")
            return None
        return data

    def _names(self, fd: int) -> list[str]:
        names: list[str] = []
        with os.scandir(fd) as entries:
            for entry in entries:
                self._entries += 1
                if self._entries > self._limits.entries:
                    raise _TooMuch(f"more than {self._limits.entries} files and folders; none of them is taken")
                names.append(entry.name)
        return sorted(names)

    @contextmanager
    def _refusing(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._refuse(path, f"it cannot be read: {error.strerror or error}")

    def _refuse(self, path: str, reason: str) -> None:
        if len(self._refused) < self._limits.refusals:
            self._refused.append(RefusedChange(shown(path), reason))
        else:
            self._unnamed += 1


@contextmanager
def _maybe(name: str, above: int | None) -> Iterator[int | None]:
    if above is None:
        yield None
    else:
        with opened(name, FOLDER, above) as fd:
            yield fd


def _target(name: str, above: int | None) -> str | None:
    return None if above is None else os.readlink(name, dir_fd=above)


def _is_whiteout(facts: os.stat_result) -> bool:
    return stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
