"""S3: tasks run in task_order, subtasks in subtask_order, one at a time."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from orchestra.core.reading import StepEvent
from tests.support.contracts import ContractsProject, breakdown, says, script
from tests.support.runs import read_events


@pytest.mark.spec("S3-37", "S3-53")
def test_tasks_and_subtasks_run_in_the_order_of_their_contracts(tmp_path: Path) -> None:
    tasks = (("T1", "T1-S1"), ("T2", "T2-S1", "T2-S2"))
    turned = says("planner", breakdown(*tasks, task_order=["T2", "T1"]))
    replies = [turned if reply["match"].get("agent") == "planner" else reply for reply in script(*tasks)]
    project = ContractsProject(tmp_path / "p", *replies)
    ended = project.contracts()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    steps = [StepEvent.of(event) for event in read_events(project.requests[0].events)]
    worked = [step.target for step in steps if step.native in ("test-contract", "test-code", "implement", "verify")]
    assert [target for target, _ in itertools.groupby(worked)] == ["T2-S1", "T2-S2", "T1-S1"]  # one at a time
