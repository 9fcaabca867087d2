"""The gates of a subtask (section 5/S3): what must hold before it goes on. GATE-1 to GATE-3 are mechanical. Pure.

    GATE-1  before the implementation: a test contract with cases, its test code written, and seen to fail
    GATE-3  after it: no path outside the design's file_refs, no test
    GATE-4  after it: invariants, interfaces and boundaries are kept; judged by the architect or a project's command
    GATE-2  before completion: a test result that passed

Rules
1. The QA engineer may change tests only, the implementer everything else (`qa_scope`, `implementer_scope`). The scopes
   are kept where a patch is applied; the gates record that they were.
2. Tests that pass without an implementation prove nothing. That is reported, and does not stop the subtask.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from orchestra.core.names import CONTRACTS
from orchestra.core.scope import Scope
from orchestra.core.testfiles import is_test
from orchestra.workflows.contracts.records import DesignContract, TestContract, TestResult
from orchestra.workflows.contracts.storage import Gate, GateStatus

# Tests by their names, as globs. Upper case in a name would be lost: a scope's `never` ignores it (core/scope.py).
_TESTS = (
    *("tests/", "test/", "__tests__/", "testdata/", "spec/", "specs/", "androidTest/"),
    *("test_*", "conftest.py", "*_test.*", "*_tests.*", "*_spec.*", "*.test.*", "*.spec.*", "*-test.*"),
    *("*Test.java", "*Tests.java", "*Test.kt", "*Tests.kt", "*Test.scala", "*Tests.cs", "*Test.cs", "*Tests.swift"),
)


class Passing(Struct, frozen=True, tag_field="kind", tag=True):
    """How a gate was judged, and why."""

    gate: Gate
    status: GateStatus
    why: str


def qa_scope(contract: TestContract) -> Scope:
    """What the QA engineer may change: tests (rule 1)."""
    return Scope(only=(f"/{contract.test_file_path}", *_TESTS), never=(f"{CONTRACTS}/",))


def implementer_scope(design: DesignContract, test_files: Iterable[str]) -> Scope:
    """What the implementer may change: no test. Files that the design does not name need a person."""
    never = dict.fromkeys((*(f"/{path}" for path in test_files), *_TESTS, f"{CONTRACTS}/"))
    named = tuple(f"/{ref.path}" for ref in design.file_refs)
    return Scope(never=tuple(never), expected=named or (f"/{CONTRACTS}/",))  # no file is named: each needs a person


def wrong_test_path(contract: TestContract) -> str:
    """Why the path of a test contract cannot be a test's; empty if it can."""
    if contract.test_file_path.startswith("-"):  # it becomes a word of the test command
        return f"test_file_path: {contract.test_file_path} begins like an option; write it as tests/test_NAME.py"
    if is_test(contract.test_file_path):
        return ""
    return f"test_file_path: {contract.test_file_path} is no test by its name or folder; write it as tests/test_NAME.py"


def gate_1(contract: TestContract, written: Sequence[str], red: bool | None, idle: Sequence[str] = ()) -> Passing:
    """Before the implementation.

    `written` are the test files of the contract that exist, `red` whether they failed, `idle` the cases that passed.
    """
    if not contract.test_cases:
        return Passing("GATE-1", "failed", "the test contract has no test case")
    if contract.test_file_path not in written:
        return Passing("GATE-1", "failed", f"{contract.test_file_path} was not written")
    if red is None:
        return Passing("GATE-1", "passed", "the tests could not be run")
    if not red:
        return Passing("GATE-1", "passed", "the tests pass without it: they prove nothing")
    nothing = f"; {', '.join(idle)} passed already: no proof of an implementation" if idle else ""
    return Passing("GATE-1", "passed", f"the tests were seen to fail{nothing}")


def gate_2(result: TestResult | None) -> Passing:
    """Before completion."""
    if result is None:
        return Passing("GATE-2", "failed", "there is no test result")
    passed: Literal["passed", "failed"] = "passed" if result.recommendation.action == "complete" else "failed"
    return Passing("GATE-2", passed, result.recommendation.reason)


def gate_3(design: DesignContract, changed: Sequence[str], test_files: Iterable[str]) -> Passing:
    """After the implementation: what it changed, against the design's files."""
    files = {ref.path for ref in design.file_refs}
    tests = [path for path in changed if path in set(test_files) or is_test(path)]
    if tests:
        return Passing("GATE-3", "failed", f"the implementation changed tests: {', '.join(tests)}")
    beyond = [path for path in changed if path not in files]
    why = f"a person allowed what the design does not name: {', '.join(beyond)}" if beyond else "within the design"
    return Passing("GATE-3", "passed", why)
