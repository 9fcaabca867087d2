"""Patience: the timeouts of one call of any provider. Cancels its `with` block when one of them has run out.

Three timeouts: until the first news of a reply, silence between news, and the call's own limit. News is output of a
model (reading.py, rule 3): keep-alives do not extend a timeout.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from msgspec import Struct

_LAZY_S = 0.25  # precision of silence: moving the alarm at every token costs more than reading the token


class Limits(Struct, frozen=True):
    """The timeouts, in seconds."""

    first_byte: float = 120.0
    idle: float = 60.0


class Patience:
    """A context manager around one call; afterwards `why` names the timeout that ended it."""

    def __init__(self, total: float, limits: Limits) -> None:
        self.why = ""
        self._total = total
        self._limits = limits
        self._news = 0
        self._moved = 0.0
        self._clock = asyncio.get_running_loop().time
        self._end = self._clock() + total
        self._alarm = asyncio.timeout_at(None)

    async def __aenter__(self) -> None:
        await self._alarm.__aenter__()
        self._set(self._limits.first_byte, "no first byte of a reply within")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._alarm.__aexit__(kind, error, trace)

    def heard(self, news: int) -> None:
        """Report the count of news; the alarm moves only if the count grew."""
        if news != self._news:
            first, self._news = self._news == 0, news
            if first or self._clock() - self._moved > min(_LAZY_S, self._limits.idle / 4):
                self._set(self._limits.idle, "the reply stopped: nothing new for")

    def _set(self, seconds: float, why: str) -> None:
        self._moved = self._clock()
        at = self._moved + seconds
        if at < self._end:
            self.why = f"{why} {seconds:g} s"
        else:
            at, self.why = self._end, f"no complete reply within {self._total:g} s"
        self._alarm.reschedule(at)
