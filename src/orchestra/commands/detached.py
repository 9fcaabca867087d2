"""Drives a run in a process of its own (`--detach`): orchestra, started again as `orchestra resume RUN`.

What the process prints is kept in the user's state folder, for the case that it cannot drive the run at all.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from orchestra.core.keyring import state_folder
from orchestra.core.run import RunFolder
from orchestra.worker.apart import start_apart

_PATIENCE_S, _TICK_S = 15.0, 0.02
_HERE = ("ORCHESTRA_JSON", "ORCHESTRA_STREAM")  # flags for what is printed here
_MOST = 10_000  # characters of what the process printed


class NotDriven(Exception):
    """The process ended before it drove the run: its exit code, and what it printed."""

    def __init__(self, exit_code: int, said: str) -> None:
        super().__init__(said)
        self.exit_code = exit_code


def drive_detached(
    folder: RunFolder, project: Path, options: tuple[str, ...], environ: Mapping[str, str], driven: Callable[[], bool]
) -> int:
    """Start the process; returns its pid when it drives the run, or has ended well; NotDriven if it cannot."""
    output = state_folder(environ) / "detached" / f"{folder.id}.log"
    output.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    env = {name: value for name, value in environ.items() if name not in _HERE}
    words = ("-P", "-m", "orchestra", "-C", str(project), "resume", folder.id, "--no-input", *options)
    process = start_apart((sys.executable, *words), folder=str(project), env=env, output=output)
    until = time.monotonic() + _PATIENCE_S
    while not driven() and time.monotonic() < until:
        code = process.exit_code
        if code in (0, 3):  # it has ended, or waits for the person, already
            return process.pid
        if code is not None:
            said = output.read_bytes()[-_MOST:].decode("utf-8", "replace")
            raise NotDriven(code if code > 0 else 1, said)
        time.sleep(_TICK_S)
    process.leave()
    return process.pid
