"""The garbage collector, kept out of the way: a run makes very many objects that stay, and hardly a cycle.

It would look at all of them again and again: a tenth to a fifth of the time of a big graph, a long journal, a big plan.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def relax() -> None:
    """For a whole process: begin to look after 50,000 new objects instead of 700, as compilers and linters do."""
    gc.set_threshold(50_000, 20, 50)


@contextmanager
def uncollected() -> Iterator[None]:
    """Nothing is collected meanwhile. For short, synchronous work; also as a decorator."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
