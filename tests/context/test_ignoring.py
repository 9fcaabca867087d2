"""The patterns of a `.gitignore`, and those that could take forever."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.context.ignoring import ignored, rules_of


@pytest.mark.parametrize(
    ("line", "path", "counts"),
    [
        ("a" * 500, "a" * 500, True),
        ("a" * 501, "a" * 501, False),
        ("*a*b*c", "1a2b3c", True),
        ("*a*b*c*", "1a2b3c4", False),
        ("**/x/*a*b*", "y/x/1a2b3", True),  # folders of any name cost nothing
    ],
)
def test_a_pattern_counts_up_to_its_bounds(tmp_path: Path, line: str, path: str, counts: bool) -> None:
    (tmp_path / ".gitignore").write_text(f"{line}\n")
    assert ignored(path, rules_of(tmp_path, "")) is counts
