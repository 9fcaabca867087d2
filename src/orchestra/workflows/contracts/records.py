"""The contracts of S3 as records: what each role hands to the next, one YAML document each.

    explored, task-breakdown  →  design-brief  →  design-contract  →  test-contract  →  test-result
    (of a request)               (of a task)                          (of a subtask)

Rules
1. Records are strict (C-32): unknown fields are refused, and a field is required unless it has a default here.
2. The requirement of a field is written beside it (`L22` is S3-22), so a mistake is named with its requirement.
3. What no single field shows (orders, duplicate ids, results that contradict each other) is in rules.py.
4. documents.py reads and writes records; times in a record are UTC and end in Z (G3-6).
"""

from __future__ import annotations

from typing import Annotated as A
from typing import Literal

from msgspec import Meta, Struct

CreatedBy = Literal["code-explore", "planner", "orchestrator", "architect", "qa-engineer"]  # S3-140
FileStatus = Literal["exists", "to_create", "to_modify"]  # S3-47
Category = Literal["happy_path", "error_case", "edge_case"]  # S3-88
FailureClass = Literal["implementation_error", "design_violation", "test_error"]  # S3-114, S3-115, G3-3
Action = Literal["complete", "retry_implementation", "retry_design"]  # S3-117
Result = Literal["pass", "fail"]  # S3-103

# Values of a field. The description completes the sentence "it must be …".
Text = A[str, Meta(pattern=r"\S", description="a text that is not empty")]
Moment = A[str, Meta(description="a time as 2024-01-15T10:00:00Z (ISO-8601)", extra={"form": "time"})]
FilePath = A[Text, Meta(description="a path inside the project, with /", extra={"form": "path"})]
RequestId = A[str, Meta(pattern=r"^R[1-9][0-9]{0,8}\Z", description="R1, R2, …")]
TaskId = A[str, Meta(pattern=r"^T[1-9][0-9]{0,8}\Z", description="T1, T2, …")]
SubtaskId = A[str, Meta(pattern=r"^T[1-9][0-9]{0,8}-S[1-9][0-9]{0,8}\Z", description="T1-S1, T1-S2, …")]
InvariantId = A[str, Meta(pattern=r"^INV-[1-9][0-9]{0,8}\Z", description="INV-1, INV-2, …")]
CaseId = A[str, Meta(pattern=r"^TC-[1-9][0-9]{0,8}\Z", description="TC-1, TC-2, …")]
YesNo = A[bool, Meta(description="true or false")]
Count = A[int, Meta(ge=0, description="a number, 0 or more")]


def line(number: int) -> Meta:
    """Marks a field with the number of its requirement in S3 (rule 2)."""
    return Meta(extra={"requirement": f"S3-{number:02}"})


# -- of a request -----------------------------------------------------------------------------------------------------


class ProjectManifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The project's rules for people and agents; None where the project has no such file."""

    claude_md: A[str | None, line(141)]
    agents_md: A[str | None, line(141)]


class ExploredFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that the exploration looked at."""

    path: A[FilePath, line(141)]
    summary: A[str, line(141)]


class Explored(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`explored.yaml`, by code-explore: what is in the project (S3-03, S3-141)."""

    version: A[Literal[1], line(13)]
    request_id: A[RequestId, line(14)]
    created_at: A[Moment, line(17)]
    created_by: A[Literal["code-explore"], line(18)]
    project_manifest: A[ProjectManifest, line(141)]
    explored_files: A[tuple[ExploredFile, ...], line(141)]
    directory_structure: A[dict[str, str], line(141)]


class PlannedSubtask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A subtask as the planner planned it."""

    id: A[SubtaskId, line(29)]
    name: A[Text, line(30)]
    description: A[str, line(31)]


class PlannedTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task as the planner planned it."""

    id: A[TaskId, line(25)]
    name: A[Text, line(26)]
    objective: A[Text, line(27)]
    subtasks: A[tuple[PlannedSubtask, ...], line(28)]


class TaskBreakdown(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`task-breakdown.yaml`, by the planner: the request as tasks and subtasks (S3-04)."""

    version: A[Literal[1], line(13)]
    request_id: A[RequestId, line(21)]
    created_at: A[Moment, line(17)]
    created_by: A[Literal["planner"], line(20)]
    original_request: A[Text, line(22)]
    objective: A[Text, line(23)]
    tasks: A[tuple[PlannedTask, ...], line(24)]
    assumptions: A[tuple[Text, ...], line(32)]
    task_order: A[tuple[TaskId, ...], line(33)]


# -- of a task --------------------------------------------------------------------------------------------------------


class FileRef(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that a task is about; `status` is as of the task's beginning (S3-48 … S3-50)."""

    entity: A[Text, line(46)]
    path: A[FilePath, line(46)]
    status: A[FileStatus, line(47)]


class BriefSubtask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A subtask of a brief."""

    id: A[SubtaskId, line(42)]
    name: A[Text, line(42)]


class DesignBrief(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`design-brief.yaml`, by the orchestrator: a task, made from breakdown and exploration (S3-05, S3-38)."""

    version: A[Literal[1], line(13)]
    request_id: A[RequestId, line(14)]
    task_id: A[TaskId, line(15)]
    created_at: A[Moment, line(17)]
    created_by: A[Literal["orchestrator"], line(39)]
    task_name: A[Text, line(40)]
    objective: A[Text, line(41)]
    subtasks: A[tuple[BriefSubtask, ...], line(42)]
    completion_criteria: A[tuple[Text, ...], line(43)]
    scope_in: A[tuple[Text, ...], line(44)]
    scope_out: A[tuple[Text, ...], line(45)]
    file_refs: A[tuple[FileRef, ...], line(46)]
    subtask_order: A[tuple[SubtaskId, ...], line(51)]


class Invariant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule that must never be broken."""

    id: A[InvariantId, line(60)]
    rule: A[Text, line(61)]


class InputField(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A field of an interface's input."""

    name: A[Text, line(65)]
    type: A[Text, line(65)]


class InterfaceInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an interface takes."""

    type: A[Text, line(64)]
    fields: A[tuple[InputField, ...], line(65)]


class InterfaceOutput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an interface gives."""

    type: A[Text, line(66)]


class Interface(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A public interface and its contract."""

    name: A[Text, line(63)]
    input: A[InterfaceInput, line(64)]
    output: A[InterfaceOutput, line(66)]
    contract: A[str, line(67)]


class Boundary(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, rename={"from_": "from"}
):
    """A dependency that is allowed or forbidden."""

    from_: A[Text, line(69)]
    to: A[Text, line(69)]
    allowed: A[YesNo, line(70)]
    note: A[str, line(71)] = ""


class LayerAssignment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The layer of a component."""

    component: A[Text, line(72)]
    layer: A[Text, line(72)]


class DesignContract(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`design-contract.yaml`, by the architect for the QA engineer and the implementer (S3-06, S3-54)."""

    version: A[Literal[1], line(13)]
    request_id: A[RequestId, line(56)]
    task_id: A[TaskId, line(57)]
    created_at: A[Moment, line(17)]
    created_by: A[Literal["architect"], line(55)]
    task_name: A[Text, line(58)]
    invariants: A[tuple[Invariant, ...], line(59)]
    interfaces: A[tuple[Interface, ...], line(62)]
    boundaries: A[tuple[Boundary, ...], line(68)]
    layer_assignments: A[tuple[LayerAssignment, ...], line(72)] = ()
    file_refs: A[tuple[FileRef, ...], line(73)]


# -- of a subtask -----------------------------------------------------------------------------------------------------


class TestCase(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A test: what is given, what happens, what must follow."""

    id: A[CaseId, line(81)]
    name: A[Text, line(82)]
    target: A[Text, line(83)]
    given: A[str, line(84)]
    when: A[str, line(85)]
    then: A[str, line(86)]
    category: A[Category, line(88)]


class TestContract(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`test-contract.yaml`, by the QA engineer for the implementer (S3-07, S3-74)."""

    version: A[Literal[1], line(13)]
    request_id: A[RequestId, line(76)]
    task_id: A[TaskId, line(77)]
    subtask_id: A[SubtaskId, line(78)]
    created_at: A[Moment, line(17)]
    created_by: A[Literal["qa-engineer"], line(75)]
    subtask_name: A[Text, line(79)]
    test_cases: A[tuple[TestCase, ...], line(80)]
    coverage_targets: A[tuple[Text, ...], line(92)] = ()
    test_file_path: A[FilePath, line(93)]


class Execution(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The test command that was run, and how it ended."""

    command: A[Text, line(101)]
    timestamp: A[Moment, line(102)]
    result: A[Result, line(103)]


class Summary(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many tests there were."""

    total: A[Count, line(105)]
    passed: A[Count, line(106)]
    failed: A[Count, line(107)]
    skipped: A[Count, line(108)]


class FailedTest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A test that failed, and what kind of failure it is."""

    id: A[CaseId, line(111)]
    name: A[Text, line(112)]
    reason: A[str, line(113)]
    category: A[FailureClass, line(114)]


class Recommendation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What follows from the result."""

    action: A[Action, line(117)]
    reason: A[str, line(118)]


class TestResult(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`test-result.yaml`, by the QA engineer (verification) for the orchestrator (S3-08, S3-95)."""

    version: A[Literal[1], line(13)]
    request_id: A[RequestId, line(97)]
    task_id: A[TaskId, line(98)]
    subtask_id: A[SubtaskId, line(99)]
    created_at: A[Moment, line(17)]
    created_by: A[Literal["qa-engineer"], line(96)]
    execution: A[Execution, line(100)]
    summary: A[Summary, line(104)]
    failed_tests: A[tuple[FailedTest, ...], line(110)] = ()
    recommendation: A[Recommendation, line(116)]


Contract = Explored | TaskBreakdown | DesignBrief | DesignContract | TestContract | TestResult
