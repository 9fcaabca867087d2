"""What a scenario expects of a number."""

from __future__ import annotations

import pytest

from orchestra.workflows.dag.scenario import Range, _within


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (3, {3}),
        (Range(min=2, max=3), {2, 3}),
        (Range(min=2), {2, 3, 4}),
        (Range(max=3), {0, 1, 2, 3}),
        (Range(), {0, 1, 2, 3, 4}),
    ],
)
def test_a_range_includes_its_limits_and_a_missing_limit_is_open(wanted: int | Range, numbers: set[int]) -> None:
    assert {number for number in range(5) if _within(number, wanted)} == numbers
