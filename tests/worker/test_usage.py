"""What the watchdog looks at is bounded, whatever a command does meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from orchestra.worker import usage

MIB = 1024 * 1024
# A file that is deleted and closed, but still mapped: no folder and no descriptor shows it.
MAPS = """
import mmap, os, sys
with open(sys.argv[1], "wb+") as file:
    file.write(b"x" * (64 << 20))
    file.flush()
    os.fsync(file.fileno())
    kept = mmap.mmap(file.fileno(), 0)
os.unlink(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_look_at_a_tree_that_grows_without_end_comes_to_an_end() -> None:
    # A chain of forks that is always longer than what was walked so far; unbounded, the walk follows it to its end.
    ready, say = os.pipe()
    first = os.fork()
    if first == 0:
        for _ in range(40):
            if os.fork():
                break
        else:
            os.write(say, b"x")
        signal.pause()
    try:
        os.read(ready, 1)
        assert len(usage.tree(first)) == 40
        assert len(usage.tree(first, 3)) == 4
        assert usage.children(first).split() == [b"%d" % usage.tree(first, 0)[0]]
    finally:
        for pid in (*usage.tree(first), first):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(first, 0)
        assert usage.children(first) == b""
        os.close(ready)
        os.close(say)


def test_a_file_that_is_only_mapped_counts_as_disk(tmp_path: Path) -> None:
    limits = {"processes": 50, "files": 1000, "disk": 8 * MIB, "memory": 10**15}
    (tmp_path / "writes").mkdir()
    meter = usage.Meter(os.getpid(), None, [os.fsencode(tmp_path / "writes")], limits)
    assert meter.exceeded() is None
    words = [sys.executable, "-c", MAPS, str(tmp_path / "writes" / "gone")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as command:
        assert command.stdout is not None and command.stdin is not None
        assert command.stdout.readline() == b"ready\n"
        found = meter.exceeded()
        command.stdin.close()
    assert found == "disk"
