"""A run's copy of the project: all of it or nothing, and found only where copies are."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.core.copies import NO_COPIES, Copies, copy_of, make_copy, owner_of, path_of
from orchestra.core.errors import UsageError

RUN = "2026-01-01_001_loop_이름"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    source = tmp_path / "p"
    source.mkdir()
    (source / "가.txt").write_text("하나")
    (source / "link").symlink_to("/etc/passwd")
    copy = copy_of(source / ".runs" / RUN)
    copy.parent.mkdir(parents=True)
    make_copy(source, copy, lambda folder, names: {".runs"} & set(names))
    return copy


def test_a_copy_is_found_by_what_the_first_event_names(tmp_path: Path, copied: Path) -> None:
    project = tmp_path / "p"
    path = path_of(project, copied)
    assert (path, owner_of(path)) == (f".runs/{RUN}/workspace", RUN)
    copies = Copies(project, (project / ".runs",))
    assert copies.found(path) == copies.workspace(path) == copied
    assert copies.workspace("") == project
    assert (copied / "가.txt").read_text() == "하나" and (copied / "link").is_symlink()
    assert sorted(one.name for one in copied.iterdir()) == ["link", "가.txt"]


def test_what_an_earlier_process_left_is_made_anew(tmp_path: Path, copied: Path) -> None:
    (copied / "old").touch()
    half = copied.with_name(".workspace.tmp")
    half.mkdir()
    (half / "half").touch()
    make_copy(tmp_path / "p", copied, lambda folder, names: {".runs"} & set(names))
    assert sorted(one.name for one in copied.iterdir()) == ["link", "가.txt"] and not half.exists()


def test_no_other_folder_is_taken_for_a_copy(tmp_path: Path, copied: Path) -> None:
    project = tmp_path / "p"
    copies, path = Copies(project, (project / ".runs",)), path_of(project, copied)
    for other in ("../p", f".runs/{RUN}"):
        with pytest.raises(UsageError, match="no copy of the project"):
            copies.found(other)
    for nowhere in (Copies(project, (tmp_path / "elsewhere",)), NO_COPIES):
        with pytest.raises(UsageError, match="no copy of the project"):
            nowhere.found(path)
    copied.rename(copied.with_name("moved"))
    with pytest.raises(UsageError, match="is gone; start a new run"):
        copies.found(path)
    copied.symlink_to(copied.with_name("moved"))
    with pytest.raises(UsageError, match="is gone; start a new run"):
        copies.found(path)


def test_a_run_folder_that_is_a_link_has_no_copy(tmp_path: Path, copied: Path) -> None:
    copies = Copies(tmp_path / "p", (tmp_path / "p" / ".runs",))
    copied.parent.rename(tmp_path / RUN)
    copied.parent.symlink_to(tmp_path / RUN)
    with pytest.raises(UsageError, match="is gone; start a new run"):
        copies.found(path_of(tmp_path / "p", copied))


def test_a_copy_that_fails_is_told_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be copied to .*: No such file or directory"):
        make_copy(tmp_path / "none", tmp_path / "workspace")
