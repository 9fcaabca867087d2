"""Streams: the three pipes of one command, read and written in the event loop; output goes to capture.py.

Rules
1. Output is not read faster than it is stored: a command that writes too fast blocks on its pipe.
2. An exception while storing (a full disk) is kept in `failure` for the caller that waits; reading stops.
3. A face gets the newest line at most every 100 ms, and always the last line.
4. The pipes of a command that ends within 25 ms are read once, at its end: such commands print little, and
   watching two pipes costs more than reading them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from orchestra.core.disk import Disk
from orchestra.core.redact import Redactor
from orchestra.worker.capture import Capture, NewestLine, Store, Tap, settle
from orchestra.worker.task import Artifact, Captured, Command

_LINE_S = 0.1  # rule 3
_CHUNK = 1 << 16
_WATCH_S = 0.025  # rule 4
OnLine = Callable[[str], None]
Kept = tuple[Captured, Captured, tuple[Artifact, ...]]  # stdout, stderr, their artifacts


class Streams:
    """stdin, stdout and stderr of one command, and their stores."""

    def __init__(self, command: Command, *, redactor: Redactor, on_line: OnLine | None) -> None:
        self.failure: BaseException | None = None  # raised while storing: the disk is full
        self.reading: set[int] = set()
        self._loop = asyncio.get_running_loop()
        self._on_line = on_line
        self._next_line = 0.0
        self._line_timer: asyncio.TimerHandle | None = None
        self._watch_timer: asyncio.TimerHandle | None = None
        self._watched = False
        self._newest = NewestLine(redactor, self._line_ready) if on_line else None
        self._command = command
        self._redactor = redactor
        self._pipes: list[int] = []
        self._stores: list[Store] = []
        self._captures: list[Capture | Tap] = []
        self._unwritten = memoryview(command.stdin)
        self._stdin = -1
        self._changed: Callable[[], object] = lambda: None

    def open(self, changed: Callable[[], object]) -> list[int]:
        """Make the pipes; return the command's ends: stdout, stderr and, if there is input, stdin."""
        self._changed = changed
        theirs = []
        for _ in ("stdout", "stderr"):
            ours, end = os.pipe()
            theirs.append(end)
            os.set_blocking(ours, False)
            self._pipes.append(ours)
            self.reading.add(ours)
        if self._unwritten:
            stdin, self._stdin = os.pipe()
            os.set_blocking(self._stdin, False)
            theirs.append(stdin)
        return theirs

    def store(self, stdout: str | Path, stderr: str | Path | None, disk: Disk) -> None:
        """Open the files for the output; called while the sandbox is set up."""
        for path in (stdout, stderr):
            if path:
                self._stores.append(Store(path, limit=self._command.capture_limit, disk=disk))
        limit, most = self._command.excerpt_limit, self._command.excerpt_characters
        self._captures += (
            Capture(store, self._redactor, excerpt_limit=limit, characters=most, newest=self._newest)
            for store in (self._stores[0], self._stores[-1])
        )

    def tap(self, on_bytes: Callable[[bytes], object], stderr: Path, disk: Disk) -> None:
        """Pass stdout to `on_bytes` as it arrives, and stderr to its file."""
        self._stores.append(Store(stderr, limit=self._command.capture_limit, disk=disk))
        limit = self._command.excerpt_limit
        self._captures += [Tap(on_bytes), Capture(self._stores[0], self._redactor, excerpt_limit=limit)]
        self.watch()

    def begin(self) -> None:
        """Start to write stdin and to read output; called when the command is released."""
        if not self._watched:
            self._watch_timer = self._loop.call_later(_WATCH_S, self.watch)
        if self._stdin >= 0:
            self._loop.add_writer(self._stdin, self._write)

    def watch(self) -> None:
        """Read output as it arrives."""
        if self._watch_timer:
            self._watch_timer.cancel()
        if not self._watched:
            self._watched = True
            for pipe, capture in zip(self._pipes, self._captures, strict=True):
                if pipe in self.reading:
                    self._loop.add_reader(pipe, self._read, pipe, capture)

    def drain(self) -> None:
        """Read what is in the pipes and close them; called when no process is left that could write."""
        for fd, capture in zip(self._pipes, self._captures, strict=True):
            while fd in self.reading and self._read(fd, capture):
                pass
        self.stop()

    def stop(self) -> None:
        """Close the pipes."""
        if self._watch_timer:
            self._watch_timer.cancel()
        for fd in list(self.reading):
            self._done(fd)
        self._close_stdin()

    def close(self) -> Kept:
        """Finish the stores and make them durable; return what was captured."""
        stdout, stderr = (capture.close() for capture in self._captures)
        self._tell_line()
        artifacts = tuple(store.close() for store in self._stores)
        settle([store for store in self._stores if store.size])  # capture.py, rule 6
        return stdout, stderr, artifacts

    def abandon(self) -> None:
        """Close pipes and stores without finishing them; may be called twice."""
        self.stop()
        if self._line_timer:
            self._line_timer.cancel()
        for store in self._stores:
            store.abandon()

    def _read(self, fd: int, capture: Capture | Tap) -> bool:
        """Read once from a pipe; return whether more may be there at once."""
        try:
            data = os.read(fd, _CHUNK)
            if data:
                capture.feed(data)
                return True
        except BlockingIOError:
            return False
        except Exception as failure:  # a boundary: the loop would only log it. Stop the command, then raise it
            self.failure = failure
        self._done(fd)
        return False

    def _done(self, fd: int) -> None:
        if self._watched:
            self._loop.remove_reader(fd)
        self.reading.discard(fd)
        os.close(fd)
        self._changed()

    def _write(self) -> None:
        try:
            self._unwritten = self._unwritten[os.write(self._stdin, self._unwritten[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            self._unwritten = self._unwritten[:0]  # the command closed its stdin: drop the rest
        if not self._unwritten:
            self._close_stdin()

    def _close_stdin(self) -> None:
        fd, self._stdin = self._stdin, -1
        if fd >= 0:
            self._loop.remove_writer(fd)
            os.close(fd)

    def _line_ready(self) -> None:
        if self._line_timer is None:
            wait = max(0.0, self._next_line - self._loop.time())
            self._line_timer = self._loop.call_later(wait, self._tell_line)

    def _tell_line(self) -> None:
        if self._line_timer:
            self._line_timer.cancel()
            self._line_timer = None
        line = self._newest.take() if self._newest else None
        if line is not None and self._on_line:
            self._next_line = self._loop.time() + _LINE_S
            self._on_line(line)
