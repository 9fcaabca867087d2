"""Exploration: what of it the next model is shown."""

from __future__ import annotations

from typing import Any

import pytest

from orchestra.workflows.contracts.discovery import _told, shortened_text


@pytest.mark.parametrize(("size", "left_out"), [(24_000, False), (24_001, True)])
def test_only_the_end_of_a_longer_text_is_left_out(size: int, left_out: bool) -> None:
    text = "가" * size
    assert shortened_text(text) == (text[:24_000] + "\n[… more was left out]" if left_out else text)


FOUND = {
    "answer": "느린 곳은 a.py",
    "files": [{"path": "a.py", "lines": [1, 2]}, {"path": "b.py"}],
    "evidence": [{"command": "grep -n x a.py", "text": "1:x"}, {"command": "ls", "text": "a.py"}],
}


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (None, "nothing"),
        ("text", "nothing"),
        ({}, "nothing"),
        ({"answer": ""}, "nothing"),
        ({"answer": "a"}, "a\n\nFiles: none\n\n"),
        (FOUND, "느린 곳은 a.py\n\nFiles: a.py, b.py\n\n$ grep -n x a.py\n1:x\n\n$ ls\na.py"),
    ],
)
def test_the_answer_the_files_and_what_was_looked_at_are_told(result: Any, told: str) -> None:
    assert _told(result) == told
