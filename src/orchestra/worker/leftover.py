"""Left over: processes that an earlier orchestra process started, known from the journal by pid and start time.

A pid alone is not enough: the system may have given it to another process. Pid and start time name one process.
"""

from __future__ import annotations

import os
import signal
import time

from orchestra.worker import usage

_GIVE_UP_S = 10.0


def kill_left_over(pid: int, start_time: str) -> bool:
    """Kill the journaled process and its descendants, if that process still exists; return whether it did."""
    if not pid or usage.start_time(pid) != start_time or not _running([pid]):
        return False
    deadline = time.monotonic() + _GIVE_UP_S
    # A keeper (tiers landlock, none) is killed last: orphans become its children as long as it exists. In tier strict
    # the journaled process is pid 1 of the namespace, and the kernel kills all others with it.
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
            continue  # the process ended
    return found


def _kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # the process ended meanwhile, or belongs to another user now
    time.sleep(0.001)
