"""The files of model calls, and nobody else's: what a task leaves is its own, whatever it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tasks import Tasks, step

NAMES = ("survey.asked.json", "half.raw.txt.part", "x.attempt-one.raw.txt", "y.attempt-1.raw.txt")


@pytest.mark.parametrize("name", NAMES)
def test_a_task_may_leave_files_that_are_called_like_those_of_a_call(tmp_path: Path, name: str) -> None:
    code = f"import os; open(os.environ['ORCHESTRA_ARTIFACTS'] + '/{name}', 'w').write('mine')"
    project = Tasks(tmp_path / "p", step("survey", code=code))
    done = project.dag("--approval", "never")
    assert done.returncode == 0, done.stderr
    left = {path.name: path.read_text() for path in (project.folder.artifacts / "survey" / "files").iterdir()}
    assert left == {name: "mine"}
    checked = project.run("verify", project.folder.id)
    assert checked.returncode == 0, checked.stdout
