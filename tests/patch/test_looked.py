"""What a look reads: a plain file of the project or of the run, and no more of it than a text may have."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from orchestra.core.errors import OddFile, UsageError
from orchestra.core.looks import MOST_TEXT, Inside
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


@pytest.mark.parametrize(
    ("inside", "path"),
    [
        *(("project", path) for path in ("", "/etc/passwd", "../x", "a/./b", "a//b", "a\0b", "secret.md")),
        *(("run", path) for path in ("events.ndjson", "a/../events.ndjson", "inbox/x.json")),
    ],
)
def test_a_path_that_no_look_may_have_is_not_read(tmp_path: Path, inside: Inside, path: str) -> None:
    def refused(name: str) -> str:
        return "because" if name == "secret.md" else ""

    (tmp_path / "secret.md").write_text("x")
    (tmp_path / "events.ndjson").write_text("x")
    looked = LookedFiles(tmp_path, RunFolder(tmp_path), refused=refused, hash_of=never)
    with pytest.raises(UsageError):
        looked.read(inside, path)
