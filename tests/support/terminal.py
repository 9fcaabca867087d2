"""The program on a real terminal (a pty): type, wait for text, press Ctrl-C."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path

_CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """One program on one terminal."""

    def __init__(
        self,
        arguments: list[str],
        cwd: Path,
        *,
        env: Mapping[str, str] | None = None,
        size: tuple[int, int] | None = None,
    ) -> None:
        """`env`: variables of its own. `size`: columns and rows."""
        self._fd, theirs = pty.openpty()
        self.seen = ""
        self.raw = bytearray()  # every byte that was shown
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        if size:
            self.resize(*size)
        self._process = subprocess.Popen(
            arguments,
            cwd=cwd,
            env={**os.environ, "TERM": "xterm-256color", **(env or {})},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(theirs)

    def wait_for(self, *texts: str, seconds: float = 120) -> str:
        """Read until the texts were shown, in this order, since the last wait; returns all that was shown.

        What comes in one piece is one wait's: texts that follow one another without a key between are given together.
        """
        deadline = time.monotonic() + seconds
        while missing := self._missing(texts):
            assert time.monotonic() < deadline, f"{missing!r} was not shown; shown: {self.seen!r}"
            if not self.read(0.1) and self._process.poll() is not None:
                assert not self._missing(texts), f"ended without {missing!r}: {self.seen!r}"
        shown, self.seen = self.seen, ""
        return _CODES.sub("", shown)

    def _missing(self, texts: tuple[str, ...]) -> str:
        """The first of these texts that was not shown behind the ones before it."""
        rest = _CODES.sub("", self.seen)
        for text in texts:
            if text not in rest:
                return text
            rest = rest.partition(text)[2]
        return ""

    def type(self, keys: str) -> None:
        """Type these; a byte that is no UTF-8 is a lone surrogate (PEP 383)."""
        os.write(self._fd, keys.encode("utf-8", "surrogateescape"))

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size; the program gets SIGWINCH."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self, seconds: float = 120) -> int:
        """Wait for the program's end; its exit code."""
        deadline = time.monotonic() + seconds
        while self._process.poll() is None:
            assert time.monotonic() < deadline, f"it did not end; shown: {self.seen!r}"
            self.read(0.05)
        while self.read(0.05):
            pass
        os.close(self._fd)
        return self._process.returncode

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def cooked(self) -> bool:
        """Whether it gives whole lines, with echo and signals, as a shell's does."""
        wanted = termios.ICANON | termios.ECHO | termios.ISIG
        attributes = termios.tcgetattr(self._fd)
        return attributes[3] & wanted == wanted and bool(attributes[0] & termios.ICRNL)

    def vanish(self) -> None:
        """The window is closed; the program goes on, or not."""
        os.close(self._fd)

    def wait(self, seconds: float = 120) -> int:
        return self._process.wait(seconds)

    def read(self, seconds: float) -> bytes:
        """Wait for output, at most so long; the bytes, which are also in `seen`."""
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if not ready:
            return b""
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # Linux: the other end is closed
            return b""
        self.raw += data
        self.seen += self._decoder.decode(data)
        return data


def _take_terminal() -> None:
    """Make the pty the controlling terminal, so that Ctrl-C is a signal as on any terminal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
