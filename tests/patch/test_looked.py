"""What a look reads: a plain file of the project or of the run, and no more of it than a text may have."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from orchestra.core.errors import OddFile
from orchestra.core.looks import MOST_TEXT
from orchestra.core.run import RunFolder
from orchestra.patch.looked import LookedFiles


def never(globs: tuple[str, ...]) -> NoReturn:
    raise AssertionError(globs)


def test_a_look_reads_a_plain_file_of_at_most_a_mebibyte(tmp_path: Path) -> None:
    project, run = tmp_path / "p", tmp_path / "r"
    project.mkdir()
    run.mkdir()
    looked = LookedFiles(project, RunFolder(run), refused=lambda path: "", hash_of=never)
    (project / "가.md").write_bytes(b"x" * MOST_TEXT)
    (run / "가.md").write_text("실행의 것")
    assert looked.read("project", "가.md") == b"x" * MOST_TEXT
    assert looked.read("run", "가.md") == "실행의 것".encode()
    assert looked.read("project", "none.md") is None
    (project / "가.md").write_bytes(b"x" * (MOST_TEXT + 1))
    (project / "link").symlink_to("가.md")
    for odd in ("가.md", "link"):
        with pytest.raises(OddFile):
            looked.read("project", odd)
