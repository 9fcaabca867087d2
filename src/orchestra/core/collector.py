"""The garbage collector, kept out of the way where very many objects are made and none of them is garbage.

It would look at all of them again and again: a tenth to a fifth of the time of reading a long journal or a big plan.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
