"""Left over: processes of an earlier life of orchestra, known from the journal by pid and start time.

A pid alone names nobody: it may be anyone's by now. With the start time it is one process, for as long as it lives.
"""

from __future__ import annotations

import os
import signal
import time

from orchestra.worker import usage

_GIVE_UP_S = 10.0


def kill_left_over(pid: int, start_time: str) -> bool:
    """Kill it with everything below it, if it is still the one that was journaled; whether it was."""
    if not pid or usage.start_time(pid) != start_time or not _running([pid]):
        return False
    deadline = time.monotonic() + _GIVE_UP_S
    # A keeper (tiers landlock, none) goes last: what it keeps comes back to it as long as it lives. Of a namespace
    # (tier strict) it is pid 1 that was journaled, and the kernel kills the rest with it.
    if not _is_init(pid):
        while (below := _running(usage.tree(pid))) and time.monotonic() < deadline:
            _kill(below)
    while usage.start_time(pid) == start_time and _running([pid]) and time.monotonic() < deadline:
        _kill([pid])
    return True


def _is_init(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            ids = next((line.split()[1:] for line in file if line.startswith(b"NSpid:")), [])
    except OSError:
        return False
    return len(ids) > 1 and ids[-1] == b"1"


def _running(pids: list[int]) -> list[int]:
    found = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                if file.read().rpartition(b")")[2].split()[0] != b"Z":
                    found.append(pid)
        except (OSError, IndexError):
            continue  # gone
    return found


def _kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # it ended meanwhile, or is another user's now
    time.sleep(0.001)
