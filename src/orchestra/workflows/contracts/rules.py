"""What must hold between the fields of one contract, and between a contract and its path. Pure.

Rules
1. Each broken rule is a `Broken`: where in the document, which requirement, what is wrong. All are reported at once.
2. A document is judged alone: the spec's own samples do not agree with each other (docs/spec). What must hold between
   documents is checked by verifying.py, for a whole tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from orchestra.workflows.contracts.records import (
    Contract,
    DesignBrief,
    DesignContract,
    FailedTest,
    FileRef,
    TaskBreakdown,
    TestContract,
    TestResult,
)

KeyPath = tuple[str | int, ...]


class Broken(Struct, frozen=True):
    """A rule that a document breaks."""

    places: KeyPath  # the key path
    requirement: str
    text: str

    @property
    def field(self) -> str:
        """The key path as people write it: `tasks[0].id`."""
        joined = "".join(f"[{place}]" if isinstance(place, int) else f".{place}" for place in self.places)
        return joined.removeprefix(".")


class Ids(Struct, frozen=True):
    """The ids of a contract, as its path has them (S3-19)."""

    request_id: str = ""
    task_id: str = ""
    subtask_id: str = ""


def broken(record: Contract) -> Iterator[Broken]:
    """The rules that a contract breaks."""
    match record:
        case TaskBreakdown():
            yield from _breakdown(record)
        case DesignBrief():
            yield from _brief(record)
        case DesignContract():
            yield from _twice([one.id for one in record.invariants], ("invariants",), "S3-60")
            yield from _refs(record.file_refs, "S3-73")
        case TestContract():
            yield from _ids_agree(record.task_id, record.subtask_id)
            yield from _twice([one.id for one in record.test_cases], ("test_cases",), "S3-94")
        case TestResult():
            yield from _ids_agree(record.task_id, record.subtask_id)
            yield from _result(record)


def other_ids(record: Contract, ids: Ids) -> Iterator[Broken]:
    """Ids in the document that are not those of its path (S3-19)."""
    for name in Ids.__struct_fields__:
        wanted, found = getattr(ids, name), getattr(record, name, "")
        if wanted and found != wanted:
            yield Broken((name,), "S3-19", f"it is {found}, and the path has {wanted}")


def _breakdown(record: TaskBreakdown) -> Iterator[Broken]:
    if not record.tasks:
        yield Broken(("tasks",), "S3-24", "there is no task")
    yield from _twice([task.id for task in record.tasks], ("tasks",), "S3-35")
    for at, task in enumerate(record.tasks):
        if not task.subtasks:
            yield Broken(("tasks", at, "subtasks"), "S3-28", f"task {task.id} has no subtask")
        for number, subtask in enumerate(task.subtasks):
            yield from _prefixed(subtask.id, task.id, ("tasks", at, "subtasks", number, "id"), "S3-36")
        yield from _twice([one.id for one in task.subtasks], ("tasks", at, "subtasks"), "S3-36")
    yield from _order(record.task_order, [task.id for task in record.tasks], "task_order", "S3-34")


def _brief(record: DesignBrief) -> Iterator[Broken]:
    ids = [subtask.id for subtask in record.subtasks]
    if not ids:
        yield Broken(("subtasks",), "S3-42", "there is no subtask")
    for at, subtask in enumerate(record.subtasks):
        yield from _prefixed(subtask.id, record.task_id, ("subtasks", at, "id"), "S3-36")
    yield from _twice(ids, ("subtasks",), "S3-36")
    yield from _refs(record.file_refs, "S3-46")
    yield from _order(record.subtask_order, ids, "subtask_order", "S3-52")


def _result(record: TestResult) -> Iterator[Broken]:
    summary, failed = record.summary, record.failed_tests
    parts = summary.passed + summary.failed + summary.skipped
    if summary.total != parts:
        text = f"it is {summary.total}, and passed + failed + skipped is {parts}"
        yield Broken(("summary", "total"), "S3-109", text)
    yield from _twice([one.id for one in failed], ("failed_tests",), "S3-111")
    passed = record.execution.result == "pass"
    if passed and failed:
        yield Broken(("execution", "result"), "S3-122", f"it is pass, and failed_tests has {failed[0].id}")
    if passed and summary.failed:
        yield Broken(("execution", "result"), "S3-119", f"it is pass, and summary.failed is {summary.failed}")
    yield from _action(record, failed, passed=passed)


def _action(record: TestResult, failed: Sequence[FailedTest], *, passed: bool) -> Iterator[Broken]:
    """Whether the recommended action follows from the result (S3-119 … S3-123, G3-4, G3-7)."""
    action, where = record.recommendation.action, ("recommendation", "action")
    classes = {one.category for one in failed}
    if action == "complete":
        if not passed:
            yield Broken(where, "S3-123", "it is complete, and execution.result is fail")
        elif not record.summary.passed:
            yield Broken(where, "S3-119", "it is complete, and no test passed")
    elif passed and record.summary.passed:
        requirement = "S3-121" if action == "retry_design" else "S3-120"
        yield Broken(where, requirement, f"it is {action}, and execution.result is pass")
    elif action == "retry_design" and "design_violation" not in classes:
        yield Broken(where, "S3-121", "it is retry_design, and no failed test is a design_violation")
    elif action == "retry_implementation" and "design_violation" in classes:
        yield Broken(where, "S3-121", "it is retry_implementation, and a failed test is a design_violation")


def _ids_agree(task: str, subtask: str) -> Iterator[Broken]:
    yield from _prefixed(subtask, task, ("subtask_id",), "S3-11")


def _prefixed(subtask: str, task: str, places: KeyPath, requirement: str) -> Iterator[Broken]:
    if not subtask.startswith(f"{task}-S"):
        yield Broken(places, requirement, f"{subtask} does not begin with its task's id: {task}-S…")


def _refs(refs: Iterable[FileRef], requirement: str) -> Iterator[Broken]:
    """Findings for a path with two statuses: whether the file exists cannot be determined."""
    statuses: dict[str, str] = {}
    for at, ref in enumerate(refs):
        other = statuses.setdefault(ref.path, ref.status)
        if other != ref.status:
            yield Broken(("file_refs", at, "status"), requirement, f"{ref.path} is {ref.status} here and {other} above")


def _twice(ids: Sequence[str], places: KeyPath, requirement: str) -> Iterator[Broken]:
    met: set[str] = set()
    for at, one in enumerate(ids):
        if one in met:
            yield Broken((*places, at, "id"), requirement, f"{one} stands twice")
        met.add(one)


def _order(order: Sequence[str], ids: Sequence[str], field: str, requirement: str) -> Iterator[Broken]:
    """Whether an order has each id exactly once."""
    counts = Counter(order)
    wrong = [f"{one} stands {times} times" for one, times in counts.items() if times > 1]
    wrong += [f"{one} is missing" for one in dict.fromkeys(ids) if one not in counts]
    wrong += [f"{one} does not exist" for one in counts if one not in ids]
    if wrong:
        yield Broken((field,), requirement, f"it must have each id exactly once: {', '.join(wrong)}")
