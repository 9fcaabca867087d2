"""The numbers of runs, and the projects of a user."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.core.projects import MOST_NUMBER, Projects, is_ours
from tests.support.runs import store_of


@pytest.fixture
def projects(tmp_path: Path) -> Projects:
    return Projects({"XDG_STATE_HOME": str(tmp_path / "state")}, store_of())


def never() -> int:
    raise AssertionError("there is a record: the runs are not looked at")


def test_numbers_only_grow_and_go_on_from_runs_that_are_there(tmp_path: Path, projects: Projects) -> None:
    one, other = tmp_path / "하나", tmp_path / "둘"
    assert projects.next_number(one, lambda: 7) == 8
    assert projects.next_number(one, never) == 9
    assert projects.next_number(other, lambda: 0) == 1
    assert projects.next_number(tmp_path / "셋", lambda: MOST_NUMBER + 5) == MOST_NUMBER
    assert projects.next_number(tmp_path / "셋", never) == MOST_NUMBER


def test_a_run_has_no_number_where_none_can_be_recorded(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    assert Projects({"XDG_STATE_HOME": str(tmp_path / "state")}, store_of()).next_number(tmp_path / "p", lambda: 1) == 0
    inside = Projects({"XDG_STATE_HOME": str(tmp_path / "p" / "state")}, store_of())
    assert inside.next_number(tmp_path / "p", lambda: 1) == 0 and not (tmp_path / "p").exists()


def test_a_record_that_cannot_be_used_is_made_anew(tmp_path: Path, projects: Projects) -> None:
    project = tmp_path / "p"
    projects.next_number(project, lambda: 0)
    [file] = (tmp_path / "state/orchestra/projects").glob("*.json")
    assert file.parent.stat().st_mode & 0o077 == 0
    record = '{"project": "%s", "number": %s, "at": ""}'
    for wrong in ("broken", record % ("p", 3), record % (project, -1), record % (project, MOST_NUMBER + 1)):
        file.write_text(wrong)
        assert projects.next_number(project, lambda: 40) == 41, wrong
    file.write_text(record % (project, 0))
    assert projects.next_number(project, never) == 1


def test_projects_are_listed_while_their_folders_are_there_and_no_links(tmp_path: Path, projects: Projects) -> None:
    assert list(projects.all()) == []
    for name in ("p", "gone", "link"):
        projects.next_number(tmp_path / name, lambda: 0)
    (tmp_path / "p").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "p")
    assert list(projects.all()) == [tmp_path / "p"]
    (tmp_path / "gone").write_text("a file")
    assert not is_ours(str(tmp_path / "gone")) and not is_ours("a\0b")
