"""The program on a real terminal (a pty): type, wait for text, press Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from pathlib import Path

_CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """One program on one terminal."""

    def __init__(self, arguments: list[str], cwd: Path) -> None:
        self._fd, theirs = pty.openpty()
        self.seen = ""
        self._process = subprocess.Popen(
            arguments,
            cwd=cwd,
            env={**os.environ, "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(theirs)

    def wait_for(self, text: str, seconds: float = 30) -> str:
        """Read until `text` was shown since the last wait; returns what was shown."""
        deadline = time.monotonic() + seconds
        while text not in _CODES.sub("", self.seen):
            assert time.monotonic() < deadline, f"{text!r} was not shown; shown: {self.seen!r}"
            if not self._read(0.1) and self._process.poll() is not None:
                assert text in _CODES.sub("", self.seen), f"ended without {text!r}: {self.seen!r}"
        shown, self.seen = self.seen, ""
        return _CODES.sub("", shown)

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def end(self, seconds: float = 30) -> int:
        """Wait for the program's end; its exit code."""
        deadline = time.monotonic() + seconds
        while self._process.poll() is None:
            assert time.monotonic() < deadline, f"it did not end; shown: {self.seen!r}"
            self._read(0.05)
        while self._read(0.05):
            pass
        os.close(self._fd)
        return self._process.returncode

    @property
    def pid(self) -> int:
        return self._process.pid

    def vanish(self) -> None:
        """The window is closed; the program goes on, or not."""
        os.close(self._fd)

    def wait(self, seconds: float = 30) -> int:
        return self._process.wait(seconds)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # Linux: the other end is closed
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)


def _take_terminal() -> None:
    """Make the pty the controlling terminal, so that Ctrl-C is a signal as on any terminal."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
