"""`--context FILE[:LINES]`: as typed, as recorded, as read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.context.opening import opened_file, recorded, written
from orchestra.core.errors import UsageError
from orchestra.core.shown import Opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "x.py").write_text("one\ntwo\nthree")  # three lines, the last without its newline
    (tmp_path / "odd:1-2").write_text("a file of this name\n")
    (tmp_path / "form.txt").write_text("a\x0cb\nc\r\nd\n")  # a form feed ends no line
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "found", "text"),
    [
        ("x.py", Opened("x.py"), "x.py"),
        ("./x.py:2-3", Opened("x.py", (2, 3)), "x.py:2-3"),
        ("x.py:2", Opened("x.py", (2, 2)), "x.py:2-2"),
        ("x.py:1-3", Opened("x.py", (1, 3)), "x.py:1-3"),
        ("odd:1-2", Opened("odd:1-2"), "odd:1-2"),
        ("odd:1-2:1", Opened("odd:1-2", (1, 1)), "odd:1-2:1-1"),
        ("form.txt:3", Opened("form.txt", (3, 3)), "form.txt:3-3"),
    ],
)
def test_lines_are_read_recorded_and_read_again(root: Path, typed: str, found: Opened, text: str) -> None:
    assert opened_file(root, typed, 100) == found
    assert written(found) == text
    assert recorded(root, text) == found


def test_a_run_of_an_older_version_recorded_paths_only(root: Path) -> None:
    assert recorded(root, "gone.py") == Opened("gone.py")
    assert recorded(root, "gone:7") == Opened("gone:7")


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("x.py:9-3", "there are no lines 9-3; write FILE:A-B, counted from 1"),
        ("x.py:0-2", "there are no lines 0-2"),
        ("x.py:0", "there are no lines 0-0"),
        ("x.py:2-4", "x.py has only 3 lines"),
        ("form.txt:4", "form.txt has only 3 lines"),
        ("x.py:x", "there is no such file"),
        ("none.py:1-2", "there is no such file"),
        ("../x.py:1-2", "it is not in the project"),
    ],
)
def test_wrong_lines_are_refused_with_one_message(root: Path, typed: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        opened_file(root, typed, 100)
    assert str(refused.value).startswith("--context ") and why in str(refused.value)


def test_of_a_long_file_lines_that_fit_can_be_shown(root: Path) -> None:
    (root / "long.txt").write_text("0123456789\n" * 1000)
    assert opened_file(root, "long.txt:5-9", 100) == Opened("long.txt", (5, 9))
    with pytest.raises(UsageError, match="110 bytes are more than a prompt may hold"):
        opened_file(root, "long.txt:5-14", 100)


@pytest.mark.parametrize(("typed", "size"), [("x.py", 13), ("x.py:1-2", 8)])
def test_what_fits_to_the_byte_is_shown(root: Path, typed: str, size: int) -> None:
    assert opened_file(root, typed, size).path == "x.py"
    with pytest.raises(UsageError, match=f"{size} bytes are more than a prompt may hold"):
        opened_file(root, typed, size - 1)
