"""How often each term occurs in each file: counted once, kept in orchestra's cache folder, asked many times.

Rules
1. A file is counted anew if its size or time differs from the kept ones. A file that was changed within two seconds of
   its counting may change again without a new time: its counts are not kept.
2. Any doubt about the kept table (unreadable, of another user, damaged, another version) means counting anew. The table
   is read as plain bytes of bounded size: a damaged one cannot use more memory than its size.
3. The table is outside the project, because models write to the project. It is written to a file of its own and moved
   into place: two processes at once are fine, the last one stays.
4. Files over `MOST_BYTES`, files that are no text or that a tool wrote, and files beyond the bounds of all counting are
   not counted, but for their paths. Of a file that is no code, the beginning is counted.
   The terms of a path are counted with the text, and once more by themselves (`NAME`, `FOLDER`).
5. The same files give the same counts, whatever was kept.
"""

from __future__ import annotations

import functools
import os
import re
import stat
import sys
import threading
import time
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import msgspec

from orchestra.context.kinds import WEIGHTS, is_code, kind_of
from orchestra.context.reading import text_of
from orchestra.context.walk import Found
from orchestra.context.words import compounds, counted
from orchestra.core.errors import OddFile
from orchestra.core.files import MIB, read_bounded
from orchestra.core.run import digest

MOST_BYTES = MIB  # of a file that is counted
_MOST_OTHER = MIB // 16  # of a file that is no code: its beginning is counted
MOST_ALL, MOST_FILES = 128 * MIB, 30_000  # of all files together
_MOST_TABLE = 128 * MIB
_VERSION = "counts-2"
_DOUBT = 2_000_000_000  # nanoseconds (rule 1)
_TIMES = 255  # more occurrences in a file count as so many: one number holds file and count
_PATH_WEIGHT = 5  # a term in the path counts as so many in the text
NAME, FOLDER = "/", ":"  # before a term: it is in the name of the file, or only in its folders
_WRITTEN_AFTER = 0.02  # of the files counted anew: below that, counting again is cheaper than writing the table


def countable(files: Iterable[Found]) -> list[Found]:
    """The files that are counted: source first, within the bounds of all counting (rule 4)."""
    left = MOST_ALL
    taken: list[Found] = []
    for one in sorted(files, key=lambda one: -WEIGHTS[kind_of(one.path)]):
        left -= min(one.size, MOST_BYTES)
        if left < 0 or len(taken) == MOST_FILES:
            break
        taken.append(one)
    return taken


@functools.lru_cache(maxsize=10_000)
def _of_folders(path: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """How often each term occurs in a folder's path, and its terms without those of words with hyphens."""
    return counted(" ".join((path, *compounds(path)))), tuple(counted(path))


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """What lies before the arrays in a table's file."""

    version: str
    order: str  # of bytes in a number
    paths: str  # one a line; an empty line is a file that changed since
    terms: int  # bytes
    postings: int  # numbers
    check: int  # of everything behind the head


class _Kept:
    """The part of the counts that was read from disk: sorted terms, and for each its files."""

    def __init__(self, terms: bytes, starts: array[int], ends: array[int], postings: array[int]) -> None:
        self.terms, self.starts, self.ends, self.postings = terms, starts, ends, postings

    def term(self, at: int) -> bytes:
        return self.terms[self.starts[at] : self.starts[at + 1] - 1]

    def of(self, term: str) -> array[int]:
        """The files of a term, as numbers of file and count."""
        at = bisect_left(range(len(self.ends)), term.encode(), key=self.term)
        if at == len(self.ends) or self.term(at) != term.encode():
            return array("I")
        return self.postings[self.ends[at - 1] if at else 0 : self.ends[at]]


def _nothing() -> _Kept:
    return _Kept(b"", array("I", [0]), array("I"), array("I"))


class Counts:
    """The counts of one project's files."""

    def __init__(self, root: Path, memory: Path | None) -> None:
        self._root = root
        self._memory = memory / f"{digest(os.fsencode(os.path.realpath(root)))[7:39]}.counts" if memory else None
        self.lock = threading.Lock()
        self._start_anew()
        if self._memory:
            self._load(self._memory)

    def _start_anew(self) -> None:
        self._kept = _nothing()
        self._fresh: dict[str, array[int]] = {}
        self._ids: dict[str, int] = {}
        self._sizes, self._times, self._lengths = array("q"), array("q"), array("I")
        self._dead = self._unwritten = 0

    # -- the files ----------------------------------------------------------------------------------------------------

    def bring_up_to_date(self, files: Iterable[Found]) -> None:
        """Count the files that are new or changed; write the table if they are many."""
        known = {one.path: one for one in files}
        gone = [path for path in self._ids if path not in known]
        changed = [one for one in known.values() if not self._is_current(one)]
        if self._dead + len(gone) > max(1_000, len(known)):
            self._start_anew()
            changed, gone = list(known.values()), []
        for path in gone:
            del self._ids[path]
            self._dead += 1
        for one in changed:
            self._count(one)
        self._unwritten += len(changed)
        if self._memory and self._unwritten > max(20, _WRITTEN_AFTER * len(known)):
            self._write(self._memory)
            self._unwritten = 0

    def _is_current(self, one: Found) -> bool:
        at = self._ids.get(one.path)
        return at is not None and self._sizes[at] == one.size and self._times[at] == one.mtime

    def _count(self, one: Found) -> None:
        if one.path in self._ids:
            self._dead += 1
        now = time.time_ns()
        terms: dict[str, int] = {}
        if one.size <= MOST_BYTES and kind_of(one.path) != "generated":
            text = text_of(self._root, one.path, MOST_BYTES if is_code(one.path) else _MOST_OTHER)
            terms = counted(text.text) if text is not None else {}
        folders, _, name = (one.path.rpartition(".")[0] or one.path).rpartition("/")
        named = counted(" ".join((name, *compounds(name))))
        above, plain = _of_folders(folders)
        for term, times in (*named.items(), *above.items()):
            terms[term] = terms.get(term, 0) + _PATH_WEIGHT * times
        length = sum(terms.values())
        terms.update((NAME + term, 1) for term in named)
        terms.update((FOLDER + term, 1) for term in plain if term not in named)
        at = len(self._sizes)
        self._ids[one.path] = at
        self._sizes.append(one.size)
        self._times.append(one.mtime if one.mtime < now - _DOUBT else -1)  # rule 1
        self._lengths.append(min(length, 0xFFFFFFFF))
        for term, times in terms.items():
            number = at << 8 | min(times, _TIMES)
            found = self._fresh.get(term)
            if found is None:
                self._fresh[term] = array("I", (number,))
            else:
                found.append(number)

    # -- questions ----------------------------------------------------------------------------------------------------

    def length(self, path: str) -> int:
        """How many terms a file has, repeated ones too."""
        return self._lengths[self._ids[path]] if path in self._ids else 0

    def numbers(self, paths: Iterable[str]) -> dict[int, str]:
        """The files by number, for `occurrences`."""
        return {self._ids[path]: path for path in paths if path in self._ids}

    def occurrences(self, term: str, files: dict[int, str]) -> list[tuple[str, int]]:
        """The files that have a term, and how often."""
        found = self._kept.of(term)
        if term in self._fresh:
            found = found + self._fresh[term]
        return [(files[number >> 8], number & 0xFF) for number in found if number >> 8 in files]

    # -- the table on disk --------------------------------------------------------------------------------------------

    def _load(self, file: Path) -> None:
        """Load the kept table, if its owner and its form are right (rule 2)."""
        try:
            if not _is_own(file):
                return
            data = read_bounded(file, _MOST_TABLE)
            size = int.from_bytes(data[:4], "little")
            head = msgspec.msgpack.decode(data[4 : 4 + size], type=_Head)
            rest = memoryview(data)[4 + size :]
            if (head.version, head.order, head.check) != (_VERSION, sys.byteorder, zlib.crc32(rest)):
                return
            paths = head.paths.split("\n")
            terms, rest = bytes(rest[: head.terms]), rest[head.terms :]
            sizes, rest = _numbers("q", rest, len(paths))
            times, rest = _numbers("q", rest, len(paths))
            lengths, rest = _numbers("I", rest, len(paths))
            ends, rest = _numbers("I", rest, terms.count(b"\n"))
            postings, rest = _numbers("I", rest, head.postings)
        except (OSError, OddFile, ValueError, msgspec.DecodeError):
            return
        kept = _Kept(terms, _starts(terms), ends, postings)
        if rest or len(terms) != head.terms or any(a > b for a, b in pairwise(ends)):
            return  # cannot be, but for a table that was made to mislead
        self._kept, self._sizes, self._times, self._lengths = kept, sizes, times, lengths
        self._ids = {path: at for at, path in enumerate(paths) if path}
        self._dead = len(paths) - len(self._ids)

    def _write(self, file: Path) -> None:
        """Write the table of all counts. A failure is not reported: the next run counts again."""
        old, paths = self._kept, [""] * len(self._sizes)
        for path, at in self._ids.items():
            paths[at] = path
        names: set[bytes] = {term.encode() for term in self._fresh}
        names.update(old.terms.split(b"\n")[:-1])
        ordered = sorted(names)
        postings, ends = array("I"), array("I")
        for name in ordered:
            postings.extend(old.of(term := name.decode()))
            postings.extend(self._fresh.get(term, ()))
            ends.append(len(postings))
        terms = b"".join(name + b"\n" for name in ordered)
        body = (terms, self._sizes, self._times, self._lengths, ends, postings)
        check = 0
        for part in body:
            check = zlib.crc32(part, check)
        names_of_files = "\n".join(paths)
        head = msgspec.msgpack.encode(_Head(_VERSION, sys.byteorder, names_of_files, len(terms), len(postings), check))
        self._kept, self._fresh = _Kept(terms, _starts(terms), ends, postings), {}
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            own = file.with_name(f"{file.name}.{os.getpid()}-{threading.get_ident()}")
            try:
                fd = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                with open(fd, "wb") as out:
                    out.writelines((len(head).to_bytes(4, "little"), head, *body))
                os.replace(own, file)
            except OSError:
                own.unlink(missing_ok=True)


def _numbers(kind: str, data: memoryview, many: int) -> tuple[array[int], memoryview]:
    """The first numbers of the data, and the rest; ValueError if there are not so many."""
    numbers = array(kind)
    size = many * numbers.itemsize
    if not 0 <= size <= len(data):
        raise ValueError(many)
    numbers.frombytes(data[:size])
    return numbers, data[size:]


def _starts(terms: bytes) -> array[int]:
    """Where each term begins, and the end of the last."""
    return array("I", [0, *(found.end() for found in re.finditer(b"\n", terms))])


def _is_own(file: Path) -> bool:
    """Whether the file belongs to this user, and nobody else can write to it."""
    held = os.lstat(file)
    return stat.S_ISREG(held.st_mode) and held.st_uid == os.geteuid() and not held.st_mode & 0o022


_REMEMBERED: dict[tuple[str, str], Counts] = {}
_DOOR = threading.Lock()
_MOST_PROJECTS = 2


def counts_of(root: Path, memory: Path | None) -> Counts:
    """The counts of a project; the same object for later calls of this process."""
    key = (os.fspath(root), os.fspath(memory or ""))
    with _DOOR:
        if key not in _REMEMBERED:
            while len(_REMEMBERED) >= _MOST_PROJECTS:
                del _REMEMBERED[next(iter(_REMEMBERED))]
            _REMEMBERED[key] = Counts(root, memory)
        return _REMEMBERED[key]
