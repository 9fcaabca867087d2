"""What commands leave behind: what later commands may see of it, and what is worth a word to a person."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.context.leftovers import Leftovers, keepable, missed, only_built

from .support import write


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("out.txt", True),  # a new file
        ("there.txt", False),  # it would replace one
        ("sub/new.txt", True),
        ("build", True),
        ("sub/build", True),  # though the workspace has one
        (".git/config", False),
        ("sub/.git", False),
        ("sub/__pycache__", False),
        (".runs/x", False),
        ("node_modules", False),
    ],
)
def test_what_later_commands_may_see(tmp_path: Path, path: str, kept: bool) -> None:
    write(tmp_path, {"there.txt": "", "sub/build/x": "", "node_modules/a.js": ""})
    assert keepable([path], tmp_path) == ((path,) if kept else ())


def test_folders_of_build_output_are_left_to_the_next_check_and_no_files(tmp_path: Path) -> None:
    write(tmp_path, {"build/x": "", "out.txt": "", ".venv/x": ""})
    assert only_built(["build", "out.txt", ".venv"], tmp_path) == ("build",)


def test_programs_and_packages_that_are_not_kept_are_missed(tmp_path: Path) -> None:
    write(tmp_path, {"tool": "", "text": "", ".venv/x": "", ".git/hook": "", "kept": ""})
    for name in ("tool", ".git/hook", "kept"):
        (tmp_path / name).chmod(0o755)
    assert missed(["tool", "text", ".venv", ".git/hook", "kept"], ("kept",), tmp_path) == ("tool", ".venv")


@pytest.mark.parametrize(
    ("path", "is_folder", "left"),
    [
        ("a.py", False, False),
        ("a.log", False, True),  # named by .gitignore
        ("sub/__pycache__/a.pyc", False, True),
        ("__pycache__", False, False),  # a file of that name
        ("build/a", False, True),
        ("src/build/a", False, False),  # the workspace has this folder
        (".runs", True, True),
        ("sub/.runs", True, False),
    ],
)
def test_build_output_and_caches_are_known_by_their_folders(
    tmp_path: Path, path: str, is_folder: bool, left: bool
) -> None:
    write(tmp_path, {".gitignore": "*.log\n", "src/build/b.py": ""})
    assert Leftovers(tmp_path)(path, is_folder) is left
