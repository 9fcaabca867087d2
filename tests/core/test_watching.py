"""The watcher: wakes up when a file appears, grows, is renamed or removed, and for nothing else."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestra.core.watching import LONGEST_POLL_S, Watcher

LONG = 20.0


def woken(watcher: Watcher, act: Callable[[], object], seconds: float = LONG) -> bool:
    async def both() -> bool:
        asyncio.get_running_loop().call_later(0.02, act)
        return await watcher.wait(seconds)

    return asyncio.run(both())


def test_it_wakes_up_for_what_is_watched_only(tmp_path: Path) -> None:
    journal, inbox = tmp_path / "run" / "events", tmp_path / "run" / "inbox"
    with Watcher() as watcher:
        assert not watcher.polls
        watcher.watch([journal], [inbox])
        assert woken(watcher, journal.parent.mkdir)
        watcher.watch([journal], [inbox])
        assert woken(watcher, journal.touch)
        assert not woken(watcher, (journal.parent / "other").touch, 0.3)
        assert woken(watcher, lambda: journal.write_bytes(b"x"))
        assert woken(watcher, inbox.mkdir)
        watcher.watch([journal], [inbox])
        assert woken(watcher, (inbox / "한글").touch)
        assert woken(watcher, lambda: journal.rename(tmp_path / "aside"))
        watcher.watch([journal])
        assert not woken(watcher, (inbox / "more").touch, 0.3)


def test_a_change_between_the_watch_and_the_wait_is_not_missed(tmp_path: Path) -> None:
    with Watcher() as watcher:
        watcher.watch([tmp_path / "file"])
        (tmp_path / "file").touch()
        assert woken(watcher, lambda: None)


def test_a_folder_that_is_removed_and_made_again_is_watched_again(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    with Watcher() as watcher:
        watcher.watch([folder / "file"])
        assert woken(watcher, folder.rmdir)
        watcher.watch([folder / "file"])
        assert woken(watcher, folder.mkdir)
        watcher.watch([folder / "file"])
        assert woken(watcher, (folder / "file").touch)
        assert woken(watcher, lambda: folder.rename(tmp_path / "c"))
        watcher.watch([folder / "file"])
        assert woken(watcher, folder.mkdir)


def test_a_folder_that_is_no_longer_watched_holds_no_watch(tmp_path: Path) -> None:
    """A watch is the kernel's, and a user has some thousands: one that stays is lost to everything of that user."""
    for name in ("가", "b"):
        (tmp_path / name).mkdir()
    with Watcher() as watcher:
        watcher.watch([tmp_path / "가" / "file"])
        watcher.watch([tmp_path / "b" / "file"])
        held = Path(f"/proc/self/fdinfo/{watcher._fd}").read_text()
        assert held.count("inotify wd:") == 1


def test_without_inotify_it_returns_again_and_again(tmp_path: Path) -> None:
    with Watcher(polling=True) as watcher:
        assert watcher.polls
        watcher.watch([tmp_path / "file"])

        async def waits() -> list[bool]:
            return [await watcher.wait(LONG) for _ in range(12)]

        assert asyncio.run(waits()) == [True] * 12
        watcher.soon()
        assert asyncio.run(watcher.wait(0.001)) is False
    assert LONGEST_POLL_S < 1


def test_no_instance_left_means_polling(tmp_path: Path) -> None:
    """A user has 128 or so; the process has a limit of descriptors too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(tmp_path, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        watcher = Watcher()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert watcher.polls


@pytest.mark.parametrize(("polling", "most"), [(False, 1), (True, 15)])
def test_a_wait_in_which_nothing_happens_wakes_up_seldom(tmp_path: Path, polling: bool, most: int) -> None:
    with Watcher(polling=polling) as watcher:
        watcher.watch([tmp_path / "file"])

        async def waits() -> int:
            count, deadline = 0, time.monotonic() + 1
            while (left := deadline - time.monotonic()) > 0.01:
                await watcher.wait(left)
                count += 1
            return count

        assert 1 <= asyncio.run(waits()) <= most


def test_a_wait_that_is_over_takes_no_news_from_the_next_one(tmp_path: Path) -> None:
    async def twice(watcher: Watcher) -> bool:
        assert not await watcher.wait(0.01)
        (tmp_path / "file").touch()
        for _ in range(3):  # turns of the loop, in which nobody waits
            await asyncio.sleep(0.01)
        return await watcher.wait(LONG)

    with Watcher() as watcher:
        watcher.watch([tmp_path / "file"])
        assert asyncio.run(twice(watcher))
