"""Names as tolerant file systems take them, and names that every file system takes."""

from __future__ import annotations

import pytest

from orchestra.core.names import is_name, met_folder, shortened


@pytest.mark.parametrize(
    ("part", "name", "same"),
    [
        (".GIT", ".git", True),
        (".g\u200cit", ".git", True),
        (".git::$DATA", ".git", True),
        (".git. ", ".git", True),
        ("git~1", ".git", True),
        ("orches~1", ".orchestra", True),
        ("orche~12", ".orchestra", True),
        ("orche~1", ".orchestra", False),
        ("workfl~1", "workflow", False),  # of eight letters: it has no other short form
        ("workfl~1", "workflows", True),
        (".gitignore", ".git", False),
    ],
)
def test_which_names_are_one(part: str, name: str, same: bool) -> None:
    assert is_name(part, name) is same


@pytest.mark.parametrize(
    ("path", "met"), [(".runs/x", ".runs"), (".claude", ".claude/orchestrator"), (".claude/x", ""), ("src/.runs", "")]
)
def test_which_folder_a_path_meets(path: str, met: str) -> None:
    assert met_folder(path, (".runs", ".claude/orchestrator")) == met


def test_a_name_of_100_bytes_stays_and_longer_ones_stay_different() -> None:
    assert shortened("a" * 100) == "a" * 100
    longer, other = shortened("a" * 101), shortened("a" * 102)
    assert longer != other and longer.startswith("a" * 100) and len(longer) == 100 + 2 + 16
    assert len(shortened("가" * 200).encode()) <= 118
