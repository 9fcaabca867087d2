"""Every requirement line of the specs that are built is proven by a test that cites it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.spec import requirements

TESTS = Path(__file__).parents[1]
# The faces of the evidence loop that come later: the terminal UI, the web UI.
LATER = {f"S5-{number}" for number in (22, 23, 27, *range(79, 85))}
EVIDENCE = [line for line in requirements("S5") if line not in LATER]
BUILT = {**{spec: requirements(spec) for spec in ("S1", "S2", "S3", "S4")}, "S5": EVIDENCE}


@pytest.mark.parametrize("spec", BUILT)
def test_every_line_is_cited(spec: str) -> None:
    cited: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for marks in re.findall(r"mark\.spec\(([^)]*)\)", path.read_text(encoding="utf-8")):
            cited.update(re.findall(rf"{spec}-\d+", marks))
    assert sorted(set(BUILT[spec]) - cited) == []
