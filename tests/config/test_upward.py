"""The project that a person stands in: found upwards, and never one that another user put there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestra.config.upward import find_project
from tests.support.inside import said

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the files of another user")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "top"
    (folder / "a" / "한글" / "c").mkdir(parents=True)
    return folder


@pytest.mark.parametrize("mark", ["orchestra.config.yaml", ".runs", ".git"])
def test_the_nearest_folder_with_a_mark_is_the_project(top: Path, mark: str) -> None:
    below = top / "a" / "한글" / "c"
    assert find_project(below, {}) == below
    (top / mark).touch() if mark.endswith("yaml") else (top / mark).mkdir()
    assert find_project(below, {}) == top and find_project(top, {}) == top
    (top / "a" / ".git").write_text("gitdir: elsewhere\n")  # a worktree's
    assert find_project(below, {}) == top / "a"


def test_the_search_stops_at_the_home_folder_which_is_never_taken(top: Path) -> None:
    (top / ".git").mkdir()
    (top / "a" / ".git").mkdir()
    below = top / "a" / "한글"
    assert find_project(below, {"HOME": str(top / "a")}) == below
    assert find_project(top / "a", {"HOME": str(top / "a")}) == top / "a"


@AS_ROOT
@pytest.mark.parametrize("of_another", ["mark", "mark beside ours", "folder", "folder on the way"])
def test_what_another_user_made_is_not_taken(top: Path, of_another: str) -> None:
    config = top / "orchestra.config.yaml"
    config.write_text("version: '1.0'\n")
    below = top / "a" / "한글"
    assert find_project(below, {}) == top
    if of_another == "mark beside ours":
        (top / ".git").mkdir()
    foreign = {"mark": config, "mark beside ours": config, "folder": top, "folder on the way": top / "a"}[of_another]
    os.chown(foreign, 12345, 12345)
    assert find_project(below, {}) == below


def test_a_command_says_where_the_project_is_and_works_there(top: Path) -> None:
    (top / ".git").mkdir()
    below = top / "a" / "한글"
    done = said(below, "tool", "run", "--no-input", "--", "ls", "a")
    assert done.code == 0 and done.out == "한글\n", "commands run in the project, not in the folder below"
    assert f"orchestra: the project is {top}\n" in done.err and not (below / "runs").exists()
    assert f"orchestra: the project is {top}" not in said(top, "runs").err
    here = said(below, "-C", ".", "runs")
    assert "no runs here yet" in here.out and here.err == ""
    assert said(below, "init").code == 0 and (below / "orchestra.config.yaml").exists(), "init makes a project here"
    assert find_project(below, {}) == below


def test_a_next_step_needs_no_folder_from_inside_the_project(top: Path) -> None:
    (top / ".git").mkdir()
    done = said(top / "a", "tool", "run", "--no-input", "--", "ls")
    assert "orchestra show " in done.err and " -C " not in done.err
    outside = said(top.parent, "-C", str(top), "tool", "run", "--no-input", "--", "ls")
    assert f" -C {top}" in outside.err
