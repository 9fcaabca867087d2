"""What a person opens: a file, or lines of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.context.reading import from_record, lines_of, openable, recorded
from orchestra.core.errors import UsageError
from orchestra.core.shown import Opened

from .support import write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path, {"a.py": "one\ntwo\nthree\n", "odd:1-2": "its name\n", "long.txt": "x" * 5_000 + "\ny\n"})


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("a.py", Opened("a.py")),
        ("./a.py:2-3", Opened("a.py", (2, 3))),
        ("a.py:2", Opened("a.py", (2, 2))),
        ("odd:1-2", Opened("odd:1-2")),
        ("odd:1-2:1", Opened("odd:1-2", (1, 1))),
        ("long.txt:2", Opened("long.txt", (2, 2))),
    ],
)
def test_a_file_or_its_lines_are_opened_and_recorded(root: Path, given: str, meant: Opened) -> None:
    opened = openable(root, given, 1_000)
    assert opened == meant
    assert from_record(root, recorded(opened)) == meant


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("a.py:9-12", "the file has 3 lines"),
        ("a.py:3-2", "write FILE:A-B with A up to B"),
        ("none.py:1", "there is no such file"),
        ("../a.py:1", "it is not in the project"),
        ("long.txt", "5003 bytes are more than a prompt may hold (1000); give some lines of it: FILE:A-B"),
        ("long.txt:1", "give fewer lines"),
    ],
)
def test_what_cannot_be_opened_is_refused_with_the_reason(root: Path, given: str, why: str) -> None:
    with pytest.raises(UsageError, match="--context") as refused:
        openable(root, given, 1_000)
    assert why in str(refused.value)


def test_only_a_newline_ends_a_line() -> None:
    assert lines_of("a\x0bb\r\nc\u2028d\n\ne") == ["a\x0bb\r\n", "c\u2028d\n", "\n", "e"]
    assert lines_of("") == [] and lines_of("\n") == ["\n"]
