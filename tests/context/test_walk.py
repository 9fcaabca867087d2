"""The walk is bounded, follows no link and leaves out what a model should not see."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestra.context.walk import walk

from .support import write


def paths(root: Path) -> list[str]:
    return [one.path for one in walk(root).files]


def test_ignored_files_links_and_odd_names_are_left_out(tmp_path: Path) -> None:
    root = write(
        tmp_path / "project",
        {
            ".gitignore": "*.log\n/out/\n",
            "a.py": "x",
            "b.log": "x",
            "out/c.py": "x",
            "sub/.gitignore": "!keep.log\n",
            "sub/keep.log": "x",
            ".git/config": "x",
            ".venv/lib/d.py": "x",
            "node_modules/e.js": "x",
            "new\nline.py": "x",
        },
    )
    (root / os.fsdecode(b"bad\xff.py")).write_text("x")
    (root / "link.py").symlink_to("/etc/passwd")
    (root / "folder").symlink_to("/etc")
    os.mkfifo(root / "pipe.py")
    assert paths(root) == [".gitignore", "a.py", "sub/.gitignore", "sub/keep.log"]


def test_a_folder_build_is_source_unless_gitignore_names_it(tmp_path: Path) -> None:
    root = write(tmp_path, {"a.py": "x", "build/b.py": "x", "dist/c.py": "x"})
    assert paths(root) == ["a.py"]
    write(root, {".gitignore": "*.log\n"})
    assert paths(root) == [".gitignore", "a.py", "build/b.py"]
    write(root, {".gitignore": "build/\n"})
    assert paths(root) == [".gitignore", "a.py"]


def test_a_folder_of_very_many_files_is_bounded_and_said(tmp_path: Path) -> None:
    root = write(tmp_path, {f"many/{at}.txt": "" for at in range(300)} | {"src/a.py": "x"})
    taken = walk(root, most=100)
    assert len(taken.files) == 100 and taken.more
    looked = walk(root, most_entries=50)
    assert len(looked.files) <= 50 and looked.more
    assert not walk(root).more


@pytest.mark.parametrize("line", ["*" * 40 + "x", "a" * 10_000, "[", "\\"])
def test_a_hostile_gitignore_is_no_obstacle(tmp_path: Path, line: str) -> None:
    write(tmp_path, {".gitignore": f"{line}\nb.py\n", "a" * 60 + ".py": "", "b.py": ""})
    assert paths(tmp_path) == [".gitignore", "a" * 60 + ".py"]


@pytest.mark.parametrize(
    ("bounds", "found", "more"),
    [
        ({"most": 4}, 4, False),
        ({"most": 3}, 3, True),  # of the same folder
        ({"most_entries": 5}, 4, False),
        ({"most_entries": 4}, 4, True),  # there may be more
        ({"most_entries": 3}, 3, True),
    ],
)
def test_the_bounds_are_exact(tmp_path: Path, bounds: dict[str, int], found: int, more: bool) -> None:
    write(tmp_path, {f"{at}.py": "" for at in range(4)})
    taken = walk(tmp_path, **bounds)
    assert (len(taken.files), taken.more) == (found, more)


def test_a_folder_that_was_not_looked_at_is_more(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "", "b.py": ""})
    (tmp_path / "sub").mkdir()
    taken = walk(tmp_path, most=2)
    assert ([one.path for one in taken.files], taken.more) == (["a.py", "b.py"], True)
