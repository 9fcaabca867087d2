"""Starts a program of the person's own that goes on without orchestra: uncontained, in a session of its own.

Rules
1. argv only, never a shell line. It has no terminal: stdin is empty, its output goes to a file or nowhere.
2. Nobody waits for it, and it is never ended from here: it may outlive this process.
3. This is for what a person agreed to run on their machine: their `notify:` command, and orchestra itself for
   --detach. Commands of models and of projects are started by the launcher (launcher.py).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


class Apart:
    """A program that was started so."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def leave(self) -> None:
        """Stop looking after it (rule 2)."""
        if self._process.poll() is None:
            self._process.returncode = 0  # else Python warns that it still runs


def start_apart(argv: tuple[str, ...], *, folder: str, env: Mapping[str, str], output: Path | None = None) -> Apart:
    """Start a program (rule 1); OSError if it cannot be started."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    written = os.open(output, flags, 0o600) if output is not None else os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        return Apart(
            subprocess.Popen(
                argv,
                cwd=folder,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                start_new_session=True,
                close_fds=True,
            )
        )
    finally:
        os.close(written)
