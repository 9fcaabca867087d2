"""Capture: a command's output in bounded memory, redacted before it is kept or shown (S2-12, S2-81, MS-4.3).

Rules
1. Streams that share an artifact go into it in order of arrival, each through its own redacting stream: whole lines
   stay whole.
2. Bytes past the limit are counted and discarded; the artifact's last line gives their number.
3. Of each stream the head and the tail are quoted. The quote is text for people and models: valid UTF-8, no colour
   codes, every other control, bidi and zero-width character visible as an escape. It is redacted once more after that,
   because a colour code may have stood inside a secret.
4. Output is never read for markers of our own.
5. A face gets the newest whole line, cleaned and redacted likewise; older lines in between are left out.
6. The caller that returns a file's record makes the file's name durable (`settle`), one sync for all in a folder. An
   empty output loses nothing in a crash: its record is complete, so its name is not synced.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestra.core.disk import PRIVATE, Disk
from orchestra.core.redact import Redactor
from orchestra.core.text import clean_output
from orchestra.worker.task import Artifact, Captured

_LONGEST_CHARACTER = 4  # bytes in UTF-8
_LINE = 1000  # bytes of a line that a face gets


class Store:
    """The artifact file: appended, hashed, cut off at the limit, synced before an event can name it (D-04)."""

    def __init__(self, path: str | Path, *, limit: int, disk: Disk) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._unsynced = False
        try:
            self._fd = os.open(path, flags | os.O_EXCL, PRIVATE)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path))
            self._fd = os.open(path, flags | os.O_EXCL, PRIVATE)
        except FileExistsError:
            self._fd = os.open(path, flags | os.O_TRUNC, PRIVATE)
            self._unsynced = True  # an earlier process wrote it: that it is empty now must be durable too
        self.path = str(path)
        self.disk = disk
        self.size = 0
        self.named = False  # whether the file's name is durable
        self._room = limit
        self._dropped = 0
        self._hash = hashlib.sha256()

    def add(self, data: bytes) -> int:
        """Store the bytes up to the limit; return how many were stored."""
        kept = data[: self._room]
        self._room -= len(kept)
        self._dropped += len(data) - len(kept)
        self._append(kept)
        return len(kept)

    def close(self) -> Artifact:
        """Append a note on discarded bytes and make the bytes durable; `settle` does that for the name (rule 6)."""
        try:
            if self._dropped:
                self._append(f"\n[orchestra: {self._dropped} more bytes of output were not kept]\n".encode())
            if self._unsynced:
                self.disk.sync(self._fd)
        finally:
            self.abandon()
        return Artifact(path=self.path, bytes=self.size, sha256=f"sha256:{self._hash.hexdigest()}")

    def abandon(self) -> None:
        """Close the file unfinished, at most once; no event will name it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _append(self, data: bytes) -> None:
        if data:
            self.disk.append(self._fd, data)
            self._hash.update(data)
            self.size += len(data)
            self._unsynced = True


def settle(stores: Sequence[Store]) -> None:
    """Make the names of these files durable (rule 6)."""
    for folder, disk in {os.path.dirname(store.path): store.disk for store in stores if not store.named}.items():
        disk.sync_folder(folder)
    for store in stores:
        store.named = True


class Capture:
    """One stream of a command: counted, redacted, quoted, and passed on to the store."""

    def __init__(
        self,
        store: Store,
        redactor: Redactor,
        *,
        excerpt_limit: int,
        characters: int = 0,
        newest: NewestLine | None = None,
    ) -> None:
        """`characters`: quote at most so many characters of text, instead of `excerpt_limit` bytes of output."""
        self._store = store
        self._newest = newest
        self._redactor = redactor
        self._stream = redactor.stream()
        self._characters = characters
        self._half = (characters * _LONGEST_CHARACTER or excerpt_limit) // 2
        self._head = b""
        self._tail = b""
        self._seen = self._shown = self._kept = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the command."""
        self._seen += len(data)
        self._take(self._stream.feed(data))

    def close(self) -> Captured:
        """The stream is over."""
        if not self._seen:
            return Captured()
        self._take(self._stream.close())
        return Captured(bytes=self._seen, kept=self._kept, truncated=self._kept < self._shown, excerpt=self._excerpt())

    def _take(self, data: bytes) -> None:
        if self._newest and data:
            self._newest.add(self, data)
        self._shown += len(data)
        self._kept += self._store.add(data)
        missing = self._half - len(self._head)
        self._head += data[:missing]
        if len(data) > missing:
            self._tail = (self._tail + data[max(missing, len(data) - self._half) :])[-self._half :]

    def _excerpt(self) -> str:
        if self._characters:
            return _quote_characters(self._head, self._tail, self._shown, self._redactor, self._characters)
        return _quote(self._head, self._tail, self._shown, self._redactor)


class Tap:
    """One stream of a program whose caller reads it live: counted, passed on unchanged, not stored."""

    def __init__(self, on_bytes: Callable[[bytes], object]) -> None:
        self._on_bytes = on_bytes
        self._seen = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the program."""
        self._seen += len(data)
        self._on_bytes(data)

    def close(self) -> Captured:
        """The stream is over."""
        return Captured(bytes=self._seen)


class NewestLine:
    """The last whole line of any stream of a command; `ready` is called when there is a new one."""

    def __init__(self, redactor: Redactor, ready: Callable[[], None]) -> None:
        self._redactor = redactor
        self._ready = ready
        self._begun: dict[Capture, bytes] = {}
        self._line: bytes | None = None

    def add(self, stream: Capture, data: bytes) -> None:
        """Take bytes of a stream, already redacted."""
        end = data.rfind(b"\n")
        if end < 0:
            self._begun[stream] = (self._begun.get(stream, b"") + data)[:_LINE]
            return
        said = data[:end].rstrip()
        start = said.rfind(b"\n") + 1
        line = said[start : start + _LINE] if start else (self._begun.get(stream, b"") + said)[:_LINE]
        self._begun[stream] = data[end + 1 :][:_LINE]
        if line.strip():
            self._line = line
            self._ready()

    def take(self) -> str | None:
        """Return the line if it is new, else None."""
        line, self._line = self._line, None
        return None if line is None else readable(_whole_end(line), self._redactor)


def readable(data: bytes, redactor: Redactor) -> str:
    """A command's bytes as text for people and models (rule 3)."""
    return redactor.text(clean_output(data.decode("utf-8", "backslashreplace")))


def shared_excerpt(path: str, limit: int, redactor: Redactor) -> str:
    """The head and the tail of an artifact, quoted (rule 3): of streams that share it, in the order of arrival."""
    half = limit // 2
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(half)
        file.seek(max(half, size - half))
        return _quote(head, file.read(half), size, redactor)


def _quote(head: bytes, tail: bytes, size: int, redactor: Redactor) -> str:
    """The first and the last of `size` bytes as text, and how many between them are left out."""
    left_out = size - len(head) - len(tail)
    if not left_out:
        return readable(head + tail, redactor)
    # Do not begin or end inside a character: a broken one would look like a fault of the command.
    begin, end = readable(_whole_end(head), redactor), readable(_whole_start(tail), redactor)
    return f"{begin}\n[… {left_out} bytes left out …]\n{end}"


def _quote_characters(head: bytes, tail: bytes, size: int, redactor: Redactor, most: int) -> str:
    """The first and the last of `size` bytes as at most `most` characters, and a line between them if some are missing.

    They are cut after they were made readable: an escape of a broken byte has four characters.
    """
    if size == len(head) + len(tail):
        begin = end = readable(head + tail, redactor)
        if len(begin) <= most:
            return begin
    else:
        begin, end = readable(_whole_end(head), redactor), readable(_whole_start(tail), redactor)
    half = most // 2
    return f"{begin[:half]}\n[… cut: {size} bytes in all …]\n{end[-half:]}"


def _whole_end(data: bytes) -> bytes:
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:  # the first byte of a character: are all its bytes here?
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data if back >= length else data[:-back]
        if byte < 0x80:
            break
    return data


def _whole_start(data: bytes) -> bytes:
    for skip in range(min(4, len(data))):
        if data[skip] & 0xC0 != 0x80:
            return data[skip:]
    return data
