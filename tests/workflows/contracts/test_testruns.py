"""Test results from test runs, gates, and what a failure leads to. Pure."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from orchestra.core.command import CommandOutcome
from orchestra.core.work import PatchFile
from orchestra.workflows.contracts import records
from orchestra.workflows.contracts.gates import gate_1, gate_2, gate_3, implementer_scope, qa_scope, wrong_test_path
from orchestra.workflows.contracts.records import Category, DesignContract, FailedTest, FailureClass, FileRef, Summary
from orchestra.workflows.contracts.retrying import action_of, route_of
from orchestra.workflows.contracts.rules import broken
from orchestra.workflows.contracts.testruns import (
    Class,
    TestRun,
    passed_cases,
    result_of,
    run_of,
    seen_red,
    settled,
    unseen_cases,
)

AT = "2026-01-01T00:00:00Z"
JUNIT = """<testsuites><testsuite>
<testcase classname="tests.test_a" name="test_tc_1_works"/>
<testcase classname="tests.test_a" name="test_tc_2_fails"><failure message="AError 가 아니다"/></testcase>
<testcase classname="tests.test_a" name="test_later"><skipped message="not yet"/></testcase>
</testsuite></testsuites>"""


def case(number: int, category: Category = "happy_path") -> records.TestCase:
    name = f"경우_{number}"
    return records.TestCase(id=f"TC-{number}", name=name, target="f", given="", when="", then="", category=category)


def contract(cases: int = 2, path: str = "tests/test_a.py") -> records.TestContract:
    return records.TestContract(
        version=1,
        request_id="R1",
        task_id="T1",
        subtask_id="T1-S1",
        created_at=AT,
        created_by="qa-engineer",
        subtask_name="하위",
        test_cases=tuple(case(number) for number in range(1, cases + 1)),
        test_file_path=path,
    )


def design(*paths: str) -> DesignContract:
    return DesignContract(
        version=1,
        request_id="R1",
        task_id="T1",
        created_at=AT,
        created_by="architect",
        task_name="작업",
        invariants=(),
        interfaces=(),
        boundaries=(),
        file_refs=tuple(FileRef(entity="e", path=path, status="to_create") for path in paths),
    )


def run(report: str = JUNIT, *, passed: bool = False) -> TestRun:
    outcome = CommandOutcome("pytest -q", 0 if passed else 1, "pass" if passed else "fail", 1, False, "the output")
    return run_of(outcome, "pytest", [report.encode()] if report else [], "", AT)


@pytest.mark.spec("S3-105", "S3-106", "S3-107", "S3-108", "S3-109", "S3-111", "S3-112")
def test_summary_and_failures_come_from_the_run_and_only_their_class_from_the_model() -> None:
    classes = {"TC-2": Class("design_violation", "모델의 이유"), "TC-1": Class("test_error", "통과했으므로 무시")}
    result = result_of(run(), contract(), classes, AT)
    assert (result.summary.total, result.summary.passed, result.summary.failed, result.summary.skipped) == (3, 1, 1, 1)
    assert [(one.id, one.name, one.reason, one.category) for one in result.failed_tests] == [
        ("TC-2", "경우_2", "모델의 이유", "design_violation")
    ]
    assert result.recommendation.action == "retry_design" and list(broken(result)) == []


def test_without_a_report_the_exit_code_counts_for_every_case() -> None:
    failed, passed = (result_of(run("", passed=passed), contract(), {}, AT) for passed in (False, True))
    assert [one.id for one in failed.failed_tests] == ["TC-1", "TC-2"] and failed.summary.failed == 2
    assert passed.recommendation.action == "complete" and passed.summary.passed == 2
    assert list(broken(failed)) == list(broken(passed)) == []


def test_a_report_that_cannot_be_read_counts_as_none() -> None:
    found = run("<!DOCTYPE bomb [<!ENTITY a 'b'>]><testsuites/>")
    assert found.summary is None and "document type" in found.unread


def test_a_failure_of_no_case_is_one_of_the_cases_that_were_not_seen() -> None:
    broke = '<testsuites><testcase name="tests.test_a"><error message="ImportError: calc"/></testcase></testsuites>'
    result = result_of(run(broke), contract(), {}, AT)
    assert [one.id for one in result.failed_tests] == ["TC-1", "TC-2"]
    assert all("ImportError" in one.reason for one in result.failed_tests)


SUITES = {  # TC-1 of tests/test_a.py passes; another subtask's test of that number fails
    "pytest": '<testcase file="tests/test_a.py" classname="tests.test_a" name="test_tc_1"/>'
    '<testcase file="tests/test_b.py" classname="tests.test_b" name="test_tc_1"><failure message="옛것"/></testcase>',
    "no files": '<testcase classname="test_a.Case" name="test_tc_1"/>'
    '<testcase classname="test_b.Case" name="test_tc_1"><failure message="옛것"/></testcase>',
    "folders": '<testcase classname="tests/test_a.py" name="test_tc_1"/>'
    '<testcase classname="tests/test_b.py" name="test_tc_1"><failure message="옛것"/></testcase>',
}


@pytest.mark.spec("S3-111")
@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
def test_a_test_of_another_subtask_is_none_of_this_ones_cases(suite: str) -> None:
    whole = run(f"<testsuites>{suite}</testsuites>")
    result = result_of(whole, contract(), {}, AT)
    assert [(one.id, "test_tc_1: 옛것" in one.reason) for one in result.failed_tests] == [("TC-2", True)]
    assert unseen_cases(whole, contract()) == ("TC-2",)


OTHERS = {  # the contract's file did not run; another file's TC-1 passed
    "pytest": ("tests/test_a.py", '<testcase file="tests/test_b.py" classname="tests.test_b" name="test_tc_1"/>'),
    "a function like the file": (
        "tests/test_a.py",
        '<testcase file="tests/test_b.py" classname="tests.tc_1.test_b" name="test_a"/>',
    ),
    "no files": ("tests/test_a.py", '<testcase classname="test_b.Case" name="test_tc_1"/>'),
    "folders": ("tests/a.test.js", '<testcase classname="tests/b.test.js" name="tc_1"/>'),
    "java": ("src/test/java/ATest.java", '<testcase classname="com.BTest" name="tc_1"/>'),
}


@pytest.mark.parametrize(("path", "test"), OTHERS.values(), ids=OTHERS)
def test_where_the_own_file_did_not_run_no_other_test_proves_a_case(path: str, test: str) -> None:
    own = msgspec.structs.replace(contract(), test_file_path=path)
    found = run(f"<testsuites>{test}</testsuites>", passed=True)
    assert (unseen_cases(found, own), passed_cases(found, own)) == (("TC-1", "TC-2"), ())


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("adder/adder_test.go", '<testcase classname="example.com/adder" name="TestAdd/tc_1"/>'),
        ("src/test/java/ATest.java", '<testcase classname="com.ATest$Nested" name="tc_1"/>'),
        ("tests/test_a.py", '<testcase file="tests/base.py" classname="tests.test_a.TestA" name="test_tc_1"/>'),
    ],
    ids=["go shows no files", "a class in the class", "a test of a base class"],
)
def test_the_own_tests_are_known_by_file_class_or_module(path: str, test: str) -> None:
    own = msgspec.structs.replace(contract(), test_file_path=path)
    others = '<testcase file="tests/test_b.py" classname="tests.test_b" name="test_tc_2"/>' if path[0] == "t" else ""
    found = run(f"<testsuites>{test}{others}</testsuites>", passed=True)
    assert passed_cases(found, own) == ("TC-1",)


@pytest.mark.parametrize(
    ("suite", "known", "red", "passed"),
    [
        (SUITES["pytest"], [], False, ("TC-1",)),  # only another file's test failed
        (JUNIT, [], True, ("TC-1",)),
        (JUNIT, ["tests.test_a::test_tc_2_fails"], False, ("TC-1",)),  # that one was red before the request
        ('<testcase name="tests.test_a"><error message="ImportError"/></testcase>', [], True, ()),
        ("", [], True, ()),
    ],
)
def test_red_are_the_tests_of_the_subtask_itself(suite: str, known: list[str], red: bool, passed: Any) -> None:
    found = run(suite if suite == JUNIT or not suite else f"<testsuites>{suite}</testsuites>")
    assert (seen_red(found, contract(), known), passed_cases(found, contract())) == (red, passed)
    assert "TC-1 passed already" in gate_1(contract(), ("tests/test_a.py",), True, ("TC-1",)).why
    assert seen_red(msgspec.structs.replace(found, error="no runner"), contract()) is None


def test_of_a_huge_suite_the_tests_of_cases_are_kept() -> None:
    many = "".join(f'<testcase classname="tests.test_z" name="test_{number}"/>' for number in range(500))
    found = run(f'<testsuites>{many}<testcase classname="tests.test_a" name="test_tc_1"/></testsuites>', passed=True)
    assert found.summary is not None and found.summary.total == 501
    assert unseen_cases(found, contract(1)) == ()


def ran(*failing: int, code: int = 1) -> TestRun:
    """A run of three tests."""
    wrong = {number: "<failure message='x'/>" if number in failing else "" for number in (1, 2, 3)}
    cases = "".join(f'<testcase classname="test_a" name="test_tc_{n}">{why}</testcase>' for n, why in wrong.items())
    return run(f"<testsuites>{cases}</testsuites>", passed=code == 0)


def test_only_a_test_that_fails_each_time_is_a_failure() -> None:
    both = settled(ran(1, 2), ran(1, 3))
    assert ([one.name for one in both.failing], both.flaky) == (["test_tc_1"], ("test_tc_2", "test_tc_3"))
    assert both.summary == Summary(total=3, passed=2, failed=1, skipped=0) and not both.passed
    assert result_of(both, contract(), {}, AT).recommendation.reason.endswith("; flaky: test_tc_2, test_tc_3")
    assert settled(ran(1, 2), ran(1, 2)) == ran(1, 2)
    assert settled(ran(1), ran(2)) == ran(1)  # no run passed
    unrun = run('<testcase classname="test_a" name="test_tc_1"><failure message="x"/></testcase>')
    assert settled(ran(1, 2), unrun) == ran(1, 2)  # test_tc_2 did not pass: it was not run again
    assert settled(ran(2), ran(code=0)).flaky == ("test_tc_2",) and settled(ran(2), ran(code=0)).passed


@pytest.mark.spec("S3-119")
def test_skipped_tests_are_named_and_nothing_passed_is_not_complete() -> None:
    skipped = '<testsuites><testcase classname="t" name="test_tc_1"><skipped/></testcase></testsuites>'
    assert result_of(run(skipped, passed=True), contract(1), {}, AT).recommendation.action != "complete"
    both = skipped.replace("</testsuites>", '<testcase classname="t" name="test_tc_2"/></testsuites>')
    result = result_of(run(both, passed=True), contract(), {}, AT)
    assert result.recommendation.action == "complete" and "skipped: test_tc_1" in result.recommendation.reason


def test_a_test_that_was_red_before_is_not_counted() -> None:
    left = run().without(["tests.test_a::test_tc_2_fails"])
    assert left.passed and left.summary is not None and left.summary.failed == 0
    assert run().without([]) == run()


@pytest.mark.parametrize(
    ("classes", "route", "action"),
    [
        ((), "complete", "complete"),
        (("implementation_error",), "implementation", "retry_implementation"),
        (("test_error", "implementation_error"), "tests", "retry_implementation"),
        (("test_error", "design_violation"), "design", "retry_design"),
    ],
)
@pytest.mark.spec("S3-117", "S3-120", "S3-121")
def test_where_failures_lead(classes: tuple[FailureClass, ...], route: str, action: str) -> None:
    failed = [FailedTest(id=f"TC-{n}", name="n", reason="", category=one) for n, one in enumerate(classes, 1)]
    passed = not failed
    assert (route_of(failed, passed=passed), action_of(failed, passed=passed)) == (route, action)


def test_gates_are_mechanical() -> None:
    assert gate_1(contract(), ("tests/test_a.py",), True).status == "passed"
    assert "prove nothing" in gate_1(contract(), ("tests/test_a.py",), False).why
    assert gate_1(contract(), (), True).status == gate_1(contract(0), ("tests/test_a.py",), True).status == "failed"
    assert gate_2(None).status == gate_2(result_of(run(), contract(), {}, AT)).status == "failed"
    assert gate_3(design("a.py"), ["a.py"], ["tests/test_a.py"]).why == "within the design"
    assert "a person allowed" in gate_3(design("a.py"), ["b.py"], []).why
    assert gate_3(design("a.py"), ["tests/x.py"], []).status == "failed"


@pytest.mark.parametrize("path", ["tests/data/a.json", "src/test/java/ATest.java", "calc/test_a.py", "web/a.spec.ts"])
def test_what_is_the_qa_engineers_is_not_the_implementers(path: str) -> None:
    file = PatchFile(path, "create", None, None, 1, 0)
    assert qa_scope(contract()).refusal([file]) is None
    assert implementer_scope(design(), ()).refusal([file]) is not None


@pytest.mark.parametrize("path", ["calc/latest.py", "src/contest.py", "README.md", "calc/attestation.ts"])
def test_what_is_the_implementers_is_not_the_qa_engineers(path: str) -> None:
    file = PatchFile(path, "create", None, None, 1, 0)
    assert qa_scope(contract()).refusal([file]) is not None
    assert implementer_scope(design(), ()).refusal([file]) is None


@pytest.mark.parametrize("path", ["calc/a.py", "-p/tests/test_a.py", "--tests/test_x.py"])
def test_a_test_contract_names_a_test_and_no_option(path: str) -> None:
    assert wrong_test_path(contract(path=path)) != ""
