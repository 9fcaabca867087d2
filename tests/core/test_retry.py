"""How long a failed call waits, and who waits (C-09, C-10)."""

from __future__ import annotations

import pytest

from orchestra.core.retry import LONGEST_WAIT_S, Retry


@pytest.mark.parametrize(
    ("attempt", "at_least", "seconds"),
    [(1, 0.0, 2.0), (2, 0.0, 4.0), (3, 0.0, 8.0), (1, 30.0, 30.0), (3, 5.0, 8.0), (99, 0.0, 366 * 86_400.0)],
)
def test_each_wait_is_twice_the_last_and_as_long_as_a_server_asks(
    attempt: int, at_least: float, seconds: float
) -> None:
    assert Retry().wait(attempt, at_least) == seconds


@pytest.mark.parametrize(
    ("attempt", "asked", "waits"),
    [
        (1, LONGEST_WAIT_S, True),
        (1, LONGEST_WAIT_S + 1, False),  # the run parks
        (10, 1024.0, True),  # our own wait is as long
        (10, 1025.0, False),
    ],
)
def test_a_process_waits_only_so_long_itself(attempt: int, asked: float, waits: bool) -> None:
    assert Retry().waits(attempt, asked) is waits
