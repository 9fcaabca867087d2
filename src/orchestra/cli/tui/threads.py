"""Work in a thread beside the screen, which stays alive meanwhile.

The thread does not outlive the program: a person who leaves does not wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """What a function returns or raises, in a thread that does not outlive the program."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[T] = loop.create_future()

    def settle(act: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the UI was left
            loop.call_soon_threadsafe(lambda: None if over.done() else act())

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # it is raised where the work is waited for
            raised = error
            settle(lambda: over.set_exception(raised))
        else:
            settle(lambda: over.set_result(result))

    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True).start()
    return await over
