"""Waiting for messages of many runs with one watcher: nothing is missed, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestra.core.arrivals import Arrivals


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def reading(path: Path) -> Callable[[], str | None]:
    return lambda: path.read_text(encoding="utf-8") if path.exists() else None


def put(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".tmp").write_text(text, encoding="utf-8")
    path.with_suffix(".tmp").rename(path)


@pytest.mark.parametrize("polling", [False, True])
def test_each_waiter_gets_its_own_message_also_in_an_inbox_that_is_made_later(tmp_path: Path, polling: bool) -> None:
    before = descriptors()
    files = [tmp_path / f"실행-{number}" / "inbox" / "답.json" for number in range(20)]
    for file in files:
        file.parent.parent.mkdir()

    async def all_of_them() -> list[str]:
        arrivals = Arrivals(polling=polling)
        waiters = [asyncio.ensure_future(arrivals.first(file.parent, reading(file))) for file in files]
        for number, file in enumerate(files):
            await asyncio.sleep(0)
            put(file, f"답 {number}")
        return list(await asyncio.gather(*waiters))

    assert asyncio.run(all_of_them()) == [f"답 {number}" for number in range(20)]
    assert descriptors() == before


def test_what_is_there_is_taken_at_once_and_a_waiter_that_is_canceled_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "inbox" / "cancel.json"

    async def canceled() -> None:
        arrivals, before = Arrivals(), descriptors()
        waiter = asyncio.ensure_future(arrivals.first(file.parent, reading(file)))
        await asyncio.sleep(0.02)
        assert descriptors() == before + 1  # the watcher
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        await asyncio.sleep(0.02)
        assert descriptors() == before
        put(file, "그만")
        assert await arrivals.first(file.parent, reading(file)) == "그만"
        assert descriptors() == before

    asyncio.run(canceled())


def test_a_journal_that_grows_beside_a_missing_inbox_wakes_nobody(tmp_path: Path) -> None:
    looks = 0

    def look() -> str | None:
        nonlocal looks
        looks += 1
        return reading(tmp_path / "inbox" / "a.json")()

    async def grows() -> int:
        waiter = asyncio.ensure_future(Arrivals().first(tmp_path / "inbox", look))
        with (tmp_path / "events.ndjson").open("ab", buffering=0) as journal:
            await asyncio.sleep(0.02)
            before = looks
            for _ in range(20):
                journal.write(b"{}\n")
                await asyncio.sleep(0.001)
            woken = looks - before
        put(tmp_path / "inbox" / "a.json", "답")
        assert await waiter == "답"
        return woken

    assert asyncio.run(grows()) <= 1  # one is the look after the longest time, on a slow machine
