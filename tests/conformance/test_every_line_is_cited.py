"""Every requirement line of S1 is proven by a test that cites it."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_every_line_of_s1_is_cited() -> None:
    cited: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for marks in re.findall(r"mark\.spec\(([^)]*)\)", path.read_text(encoding="utf-8")):
            cited.update(re.findall(r"S1-\d+", marks))
    assert [f"S1-{n:02}" for n in range(1, 127) if f"S1-{n:02}" not in cited] == []
