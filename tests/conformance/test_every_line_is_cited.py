"""Every requirement line of the specs that are built is proven by a test that cites it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ALL: dict[str, tuple[int, ...]] = {
    "S1": tuple(range(1, 127)),
    "S2": tuple(range(1, 138)),
    "S5": (13, 14, 47, 54, *range(68, 75)),  # what of the evidence loop is about models; the loop itself comes later
}


@pytest.mark.parametrize("spec", ALL)
def test_every_line_is_cited(spec: str) -> None:
    cited: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for marks in re.findall(r"mark\.spec\(([^)]*)\)", path.read_text(encoding="utf-8")):
            cited.update(re.findall(rf"{spec}-\d+", marks))
    wanted = {f"{spec}-{number:02}" for number in ALL[spec]}
    assert sorted(wanted - cited) == []
