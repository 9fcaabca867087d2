"""Time and chance: handlers of Now, NewId and Sleep. A flow itself may touch neither."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from orchestra.core.effects import Instant, NewId, Now, RandomId, Sleep, Slept
from orchestra.core.records import now

if TYPE_CHECKING:
    from orchestra.core.context import Step


def seconds_until(moment: str) -> float:
    """The seconds from now to a recorded moment."""
    return (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds()


async def sleep_until(moment: str, wait: Callable[[float], Awaitable[None]] = asyncio.sleep) -> int:
    """Wait until a recorded moment, not at all if it is over; returns the milliseconds. `wait` waits for seconds."""
    left = max(0.0, seconds_until(moment))
    if left:
        await wait(left)
    return round(1000 * left)


async def now_is(effect: Now, step: Step) -> Instant:
    """Handler of Now."""
    return Instant(now())


async def new_id(effect: NewId, step: Step) -> RandomId:
    """Handler of NewId."""
    return RandomId(os.urandom(16).hex())


async def sleep(effect: Sleep, step: Step) -> Slept:
    """Handler of Sleep."""
    assert step.intent is not None, "a sleep has an intent, with its deadline"
    waited = await sleep_until(step.intent.payload["deadline"])
    return Slept(now(), waited)
