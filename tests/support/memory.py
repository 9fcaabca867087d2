"""How much memory a program takes: measured by a small process that starts it.

A child's peak is never below that of the process it was started by (Linux keeps the mark over `exec`), and a process
that runs tests is large.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

_STARTER = """
import os, sys
said = (os.POSIX_SPAWN_DUP2, 2, 1)
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[said])
_, status, used = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_maxrss * 1024)
"""


class Measured(NamedTuple):
    """How a program ended, what it said, and how many bytes were resident at most."""

    code: int
    said: str
    peak: int


def measured(words: list[str], folder: Path, env: dict[str, str] | None = None) -> Measured:
    """Run a program to its end."""
    with tempfile.TemporaryFile("w+") as said:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _STARTER, *words],
            cwd=folder,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            check=True,
        )
        said.seek(0)
        code, peak = map(int, done.stdout.split())
        return Measured(code, said.read(), peak)
