"""Rules between the fields of one contract."""

from __future__ import annotations

from typing import Any

import pytest

from orchestra.workflows.contracts.documents import Malformed, read
from tests.workflows.contracts.samples import KINDS, text, values


def wrong(name: str, **changed: Any) -> list[str]:
    """The requirements that a sample breaks with some fields changed, each with its field."""
    try:
        read(text(values(name) | changed), KINDS[name], name)
    except Malformed as malformed:
        return [f"{one.requirement} {one.field}" for one in malformed.mistakes]
    return []


@pytest.mark.spec("S3-34", "S3-33")
@pytest.mark.parametrize(
    ("order", "said"),
    [
        (["T1"], "T2 is missing"),
        (["T1", "T2", "T2"], "T2 stands 2 times"),
        (["T1", "T2", "T3"], "T3 does not exist"),
        ([], "T1 is missing, T2 is missing"),
    ],
)
def test_a_task_order_is_a_permutation_of_the_tasks(order: list[str], said: str) -> None:
    with pytest.raises(Malformed, match=said):
        read(text(values("task-breakdown") | {"task_order": order}), KINDS["task-breakdown"], "x")
    assert wrong("task-breakdown", task_order=order) == ["S3-34 task_order"]
    assert wrong("task-breakdown", task_order=["T2", "T1"]) == []


@pytest.mark.spec("S3-52", "S3-51")
def test_a_subtask_order_is_a_permutation_of_the_subtasks() -> None:
    assert wrong("design-brief", subtask_order=["T1-S3", "T1-S1", "T1-S2"]) == []
    assert wrong("design-brief", subtask_order=["T1-S1", "T1-S2"]) == ["S3-52 subtask_order"]


@pytest.mark.spec("S3-35", "S3-36", "S3-60", "S3-94", "S3-111")
def test_ids_are_unique_and_subtasks_carry_the_id_of_their_task() -> None:
    tasks = values("task-breakdown")["tasks"]
    tasks[1]["id"] = "T1"
    found = wrong("task-breakdown", tasks=tasks)
    assert found == ["S3-35 tasks[1].id", "S3-36 tasks[1].subtasks[0].id", "S3-34 task_order"]
    tasks = values("task-breakdown")["tasks"]
    tasks[0]["subtasks"][1]["id"] = "T1-S1"
    assert wrong("task-breakdown", tasks=tasks) == ["S3-36 tasks[0].subtasks[1].id"]
    assert wrong("test-contract", test_cases=values("test-contract")["test_cases"][:1] * 2) == [
        "S3-94 test_cases[1].id"
    ]
    assert wrong("design-contract", invariants=values("design-contract")["invariants"][:1] * 2) == [
        "S3-60 invariants[1].id"
    ]
    assert wrong("test-contract", task_id="T2") == ["S3-11 subtask_id"]


@pytest.mark.spec("S3-24", "S3-28", "S3-42")
def test_a_request_has_tasks_and_a_task_has_subtasks() -> None:
    assert wrong("task-breakdown", tasks=[], task_order=[]) == ["S3-24 tasks"]
    tasks = values("task-breakdown")["tasks"]
    tasks[1]["subtasks"] = []
    assert wrong("task-breakdown", tasks=tasks) == ["S3-28 tasks[1].subtasks"]
    assert wrong("design-brief", subtasks=[], subtask_order=[]) == ["S3-42 subtasks"]


def failing(category: str = "implementation_error") -> dict[str, Any]:
    return {
        "execution": {"command": "pytest", "timestamp": "2024-01-15T11:00:00", "result": "fail"},
        "summary": {"total": 2, "passed": 1, "failed": 1, "skipped": 0},
        "failed_tests": [{"id": "TC-2", "name": "존재하지_않는_ID", "reason": "Expected AError", "category": category}],
        "recommendation": {"action": "retry_implementation", "reason": "1 failed"},
    }


@pytest.mark.spec("S3-109", "S3-119", "S3-120", "S3-121", "S3-122", "S3-123", "S3-105", "S3-106", "S3-107", "S3-108")
def test_a_result_and_what_it_recommends_agree() -> None:
    action = "recommendation.action"
    assert wrong("test-result", **failing()) == []
    assert wrong("test-result", **failing("test_error")) == []
    assert wrong("test-result", summary={"total": 3, "passed": 2, "failed": 0, "skipped": 0}) == [
        "S3-109 summary.total"
    ]
    assert wrong("test-result", failed_tests=failing()["failed_tests"]) == ["S3-122 execution.result"]
    assert wrong("test-result", summary=failing()["summary"]) == ["S3-119 execution.result"]
    complete = {"recommendation": {"action": "complete", "reason": ""}}
    redesign = {"recommendation": {"action": "retry_design", "reason": ""}}
    again = {"recommendation": {"action": "retry_implementation", "reason": ""}}
    assert wrong("test-result", **(failing() | complete)) == [f"S3-123 {action}"]
    assert wrong("test-result", **(failing() | redesign)) == [f"S3-121 {action}"]
    assert wrong("test-result", **failing("design_violation")) == [f"S3-121 {action}"]
    assert wrong("test-result", **(failing("design_violation") | redesign)) == []
    assert wrong("test-result", **again) == [f"S3-120 {action}"]
    assert wrong("test-result", **redesign) == [f"S3-121 {action}"]


@pytest.mark.spec("S3-119")
def test_skipped_tests_alone_complete_nothing() -> None:
    skipped = {"total": 2, "passed": 0, "failed": 0, "skipped": 2}
    assert wrong("test-result", summary=skipped) == ["S3-119 recommendation.action"]


@pytest.mark.spec("S3-46", "S3-73")
def test_a_file_has_one_status() -> None:
    refs = values("design-brief")["file_refs"]
    other = [*refs, refs[0] | {"status": "exists"}]
    assert wrong("design-brief", file_refs=other) == ["S3-46 file_refs[1].status"]
    assert wrong("design-contract", file_refs=other) == ["S3-73 file_refs[1].status"]
