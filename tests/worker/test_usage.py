"""What the watchdog looks at is bounded, whatever a command does meanwhile."""

from __future__ import annotations

import os
import signal

from orchestra.worker import usage


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
