"""Waits for messages in the inboxes of the runs that one process drives: with one watcher for all of them.

Rules
1. A message is taken within milliseconds, and waiting costs nothing: the kernel reports that an inbox changed
   (core/watching.py). Where it does not, the inboxes are looked at from time to time.
2. An inbox is watched before it is looked at, so that no message falls in between.
3. A waiter looks for itself: a wake-up only means that some inbox may have changed.
4. The watcher exists while somebody waits. A drive that is over in a moment makes none (core/cancel.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from orchestra.core.watching import Watcher

T = TypeVar("T")
_LONGEST_S = 1.0  # between two looks, for file systems that report nothing


class Arrivals:
    """The inboxes that one drive waits for."""

    def __init__(self, *, polling: bool = False) -> None:
        """`polling`: as on a machine without inotify."""
        self._polling = polling
        self._inboxes: Counter[Path] = Counter()
        self._watcher: Watcher | None = None
        self._pump: asyncio.Task[None] | None = None
        self._next = asyncio.Event()  # set at the next change

    async def first(self, inbox: Path, look: Callable[[], T | None]) -> T:
        """What `look` finds in this inbox, as soon as it finds something."""
        if (found := look()) is not None:
            return found
        with self._watched(inbox):
            while (found := look()) is None:
                await self._next.wait()
        return found

    @contextmanager
    def _watched(self, inbox: Path) -> Iterator[None]:
        self._inboxes[inbox] += 1
        if self._watcher is None:
            watcher = self._watcher = Watcher(polling=self._polling)
            self._pump = asyncio.ensure_future(self._wake(watcher))
            self._pump.add_done_callback(lambda _: watcher.close())
        self._watcher.watch(folders=self._inboxes)  # rule 2
        try:
            yield
        finally:
            self._inboxes[inbox] -= 1
            self._inboxes += Counter()  # without those that are waited for no more
            if not self._inboxes and self._pump is not None:
                self._pump.cancel()
                self._pump = self._watcher = None

    async def _wake(self, watcher: Watcher) -> None:
        """Wake all waiters at each change."""
        while True:
            await watcher.wait(_LONGEST_S)
            watcher.watch(folders=self._inboxes)  # an inbox may have been made just now
            woken, self._next = self._next, asyncio.Event()
            woken.set()
