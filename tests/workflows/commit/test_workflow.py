"""An apply is begun by its own command, which looks at the runs and the repository first."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.app import App
from orchestra.core.errors import UsageError
from orchestra.core.work import CommitTo
from orchestra.providers.choose import Models
from orchestra.workflows.commit.shapes import Job
from orchestra.workflows.commit.workflow import prepare

TO = CommitTo("fix", "0" * 40, False, "홍 길동", "hong@example.com", 1_700_000_000, 32_400, "둘\n")


@pytest.mark.parametrize("job", [Job(), Job(runs=("r",)), Job(to=TO)], ids=["nothing", "no commit", "no runs"])
def test_an_apply_without_a_run_or_without_a_commit_is_refused(job: Job, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a commit is made by its own command: orchestra apply RUN --branch NAME"):
        prepare(App(tmp_path).project, job, Models())


def test_an_apply_of_its_command_is_taken_as_it_is(tmp_path: Path) -> None:
    job = Job("r", ("r",), TO)
    assert prepare(App(tmp_path).project, job, Models()) == (job, Models())
