"""Streams: the three pipes of one command, read and written in the event loop; what is read goes to capture.py.

Rules
1. Nothing is read faster than it is stored: the pipe pushes back on a command that writes too fast.
2. What storing raises (a full disk) is kept in `failure` for whoever waits on the command; reading stops.
3. A face is told the newest line at most every 100 ms, and the last one always.
4. The pipes of a command that is over within 25 ms are read once, at its end: most that end so soon say little, and
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
Kept = tuple[Captured, Captured, tuple[Artifact, ...]]  # stdout, stderr, and where they are kept


class Streams:
    """stdin, stdout and stderr of one command, and where they go."""

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
        """Make the pipes; the command's ends of them: stdout, stderr and, if there is something to read, stdin."""
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
        """Where it all goes; made while the sandbox is set up."""
        for path in (stdout, stderr):
            if path:
                self._stores.append(Store(path, limit=self._command.capture_limit, disk=disk))
        limit = self._command.excerpt_limit
        self._captures += (
            Capture(store, self._redactor, excerpt_limit=limit, newest=self._newest)
            for store in (self._stores[0], self._stores[-1])
        )

    def tap(self, on_bytes: Callable[[bytes], object], stderr: Path, disk: Disk) -> None:
        """stdout to who listens, at once; stderr to its file."""
        self._stores.append(Store(stderr, limit=self._command.capture_limit, disk=disk))
        limit = self._command.excerpt_limit
        self._captures += [Tap(on_bytes), Capture(self._stores[0], self._redactor, excerpt_limit=limit)]
        self.watch()

    def begin(self) -> None:
        """The command was let go: begin to read what it says and to write what it is to read."""
        if not self._watched:
            self._watch_timer = self._loop.call_later(_WATCH_S, self.watch)
        if self._stdin >= 0:
            self._loop.add_writer(self._stdin, self._write)

    def watch(self) -> None:
        """Read what comes, as it comes."""
        if self._watch_timer:
            self._watch_timer.cancel()
        if not self._watched:
            self._watched = True
            for pipe, capture in zip(self._pipes, self._captures, strict=True):
                if pipe in self.reading:
                    self._loop.add_reader(pipe, self._read, pipe, capture)

    def drain(self) -> None:
        """Read what is there and close the pipes: nobody is left who could write more."""
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
        """All there is, durable."""
        stdout, stderr = (capture.close() for capture in self._captures)
        self._tell_line()
        artifacts = tuple(store.close() for store in self._stores)
        settle([store for store in self._stores if store.size])  # capture.py, rule 6
        return stdout, stderr, artifacts

    def abandon(self) -> None:
        """Let go of everything as it is (again, if need be)."""
        self.stop()
        if self._line_timer:
            self._line_timer.cancel()
        for store in self._stores:
            store.abandon()

    def _read(self, fd: int, capture: Capture | Tap) -> bool:
        """Take what is there; whether there may be more at once."""
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
            self._unwritten = self._unwritten[:0]  # it does not want to read the rest: its right
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
