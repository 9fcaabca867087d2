"""How often a failed step is tried again, and how long is waited between (C-09, C-10). core/context.py waits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from orchestra.core.records import utc

LONGEST_WAIT_S = 600.0  # the longest wait that a server may ask for; our own waits are set by `Retry`
_FOREVER_S = 366 * 86_400.0


class Retry(Struct, frozen=True):
    """How often a retriable failure is tried again (C-09: attempts), waiting base · 2^(n-1) seconds (C-10)."""

    times: int = 2
    base_sec: float = 2.0

    def wait(self, attempt: int, at_least: float = 0.0) -> float:
        """The seconds before the next attempt."""
        return min(max(self.base_sec * 2.0 ** (attempt - 1), at_least), _FOREVER_S)

    def waits(self, attempt: int, asked: float) -> bool:
        """Whether the process waits for the `asked` seconds itself (core/context.py, rule 6)."""
        return asked <= max(self.wait(attempt), LONGEST_WAIT_S)


NO_RETRY = Retry(times=0)


class Attempt(Struct, frozen=True):
    """One attempt at a step, by its number, and what its intent says of the wait before it (core/worked.py, rule 2)."""

    number: int
    retry: Retry
    wait: Mapping[str, Any]

    @property
    def is_last(self) -> bool:
        return self.number > self.retry.times

    def next_moment(self, asked: float) -> dict[str, str]:
        """When the next attempt may begin, as its failure records it; `asked`: the seconds that a server asked for."""
        name = "retryAt" if self.retry.waits(self.number, asked) else "notBefore"
        return {name: utc(datetime.now(UTC) + timedelta(seconds=self.retry.wait(self.number, asked)))}
