"""Test runs: what a command said about each test, and the test result that follows from it. Pure.

Rules
1. Which test belongs to which test case is said by its name (testreport.py, rule 4).
2. `summary` and `failed_tests` come from the run (G3-8). A run without a readable report is judged by its exit code:
   its tests are then the contract's cases, all passed or all failed.
3. A failure that belongs to no case (a file that cannot be imported, a test of another subtask) is one of every case
   that no test was seen of; if there is none, of the first case.
4. A test that was red before the request began is named and not counted.
5. Complete needs no failure and at least one test that passed (G3-7).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchestra.core.command import CommandOutcome
from orchestra.core.errors import ContractError
from orchestra.core.text import brief
from orchestra.workflows.contracts.records import (
    Execution,
    FailedTest,
    FailureClass,
    Recommendation,
    Summary,
    TestContract,
    TestResult,
)
from orchestra.workflows.contracts.retrying import action_of
from orchestra.workflows.contracts.testcommand import Runner
from orchestra.workflows.contracts.testreport import Case, case_of, cases_in, has_number, tests_of

MOST_KEPT = 400  # tests of a run in an event; the failing ones first, then those of test cases
_REASON = 600  # characters of why a test failed


class TestRun(Struct, frozen=True, omit_defaults=True):
    """A run of the test command."""

    __test__ = False  # pytest would take it for tests
    command: str
    at: str
    exitCode: int | None
    passed: bool  # by its exit code
    tree: str = ""  # the digest of the files it ran on
    tests: tuple[Case, ...] = ()
    summary: Summary | None = None  # None: no report could be read (rule 2)
    output: str = ""  # the end of what it printed, of a failed run
    error: str = ""  # why it could not be run
    unread: str = ""  # why its report could not be read
    flaky: tuple[str, ...] = ()  # tests that failed and passed on the same files
    durationMs: int = 0

    @property
    def failing(self) -> tuple[Case, ...]:
        return tuple(one for one in self.tests if one.status == "failed")

    def without(self, known: Collection[str]) -> TestRun:
        """The run without tests that were red before the request began (rule 4)."""
        ignored = [one for one in self.failing if one.id in known]
        if not ignored or self.summary is None:
            return self
        left = self.summary.failed - len(ignored)
        summary = Summary(
            total=self.summary.total - len(ignored),
            passed=self.summary.passed,
            failed=left,
            skipped=self.summary.skipped,
        )
        tests = tuple(one for one in self.tests if one not in ignored)
        return replace(self, tests=tests, summary=summary, passed=left == 0 and summary.passed > 0)


def settled(first: TestRun, again: TestRun) -> TestRun:
    """What two runs on the same files show: a test that failed in one and passed in the other is flaky: it passed.

    Nothing passes without a run that passed.
    """
    if again.passed:
        return replace(again, flaky=tuple(sorted({one.name for one in first.failing})) or (first.command,))
    before, now = ({one.id: one.name for one in run.failing} for run in (first, again))
    flaky = before.keys() ^ now.keys()
    passed = {one.id for run in (first, again) for one in run.tests if one.status == "passed"}
    if again.summary is None or not before.keys() & now.keys() or not flaky or not flaky <= passed:
        return first
    tests = tuple(replace(one, status="passed", reason="") if one.id in flaky else one for one in again.tests)
    changed = sum(one.id in flaky for one in again.failing)
    summary = replace(again.summary, passed=again.summary.passed + changed, failed=again.summary.failed - changed)
    named = {name for key, name in {**before, **now}.items() if key in flaky}
    return replace(again, tests=tests, summary=summary, flaky=tuple(sorted(named)))


def run_of(outcome: CommandOutcome, runner: Runner, reports: Iterable[bytes], printed: str, at: str) -> TestRun:
    """A test run, from its outcome, the files its runner left and what it printed.

    A report that cannot be read counts as none.
    """
    run = TestRun(
        command=outcome.command,
        at=at,
        exitCode=outcome.exitCode,
        passed=outcome.status == "pass",
        tree=outcome.tree,
        output="" if outcome.status == "pass" else outcome.output[-4_000:],
        error=outcome.blocked or outcome.error,
        durationMs=outcome.durationMs,
    )
    try:
        tests = cases_in(runner, reports, printed)
    except ContractError as unreadable:
        return replace(run, unread=str(unreadable))
    if not tests:
        return run
    counted = {status: sum(one.status == status for one in tests) for status in ("passed", "failed", "skipped")}
    ordered = sorted(tests, key=lambda one: (one.status != "failed", not has_number(one)))[:MOST_KEPT]
    return replace(run, tests=tuple(ordered), summary=Summary(total=len(tests), **counted))


def failures_of(run: TestRun, contract: TestContract) -> dict[str, str]:
    """Why each failing case failed, by id (rules 2 and 3)."""
    if run.passed:
        return {}
    cases = contract.test_cases
    if run.summary is None:
        why = run.error or brief(run.output.strip()[-_REASON:], _REASON) or f"exit code {run.exitCode}"
        return {case.id: why for case in cases}
    found: dict[str, str] = {}
    astray: list[Case] = []
    own = tests_of(run.tests, contract.test_file_path)
    for one in run.failing:
        if one in own and (case := case_of(one.id, cases)):
            found.setdefault(case, one.reason)
        else:
            astray.append(one)
    if astray or not found:
        seen = {case_of(one.id, cases) for one in own}
        why = "; ".join(f"{one.id}: {one.reason}" for one in astray) or run.error or f"exit code {run.exitCode}"
        missing = [case.id for case in cases if case.id not in seen] or [cases[0].id]
        for case_id in missing:
            found.setdefault(case_id, brief(why, _REASON))
    return found


def unseen_cases(run: TestRun, contract: TestContract) -> tuple[str, ...]:
    """The cases that no test of the run belongs to."""
    if run.summary is None:
        return ()
    seen = {case_of(one.id, contract.test_cases) for one in tests_of(run.tests, contract.test_file_path)}
    return tuple(case.id for case in contract.test_cases if case.id not in seen)


def seen_red(run: TestRun, contract: TestContract, known: Collection[str] = ()) -> bool | None:
    """Whether the contract's tests failed in a run; None if it could not be run.

    Tests of other files, and those that were red before (`known`), do not make them fail.
    """
    if run.error:
        return None
    left = run.without(known)
    statuses = {one.status for one in tests_of(left.tests, contract.test_file_path)}
    return "failed" in statuses or ("passed" not in statuses and not left.passed)


def passed_cases(run: TestRun, contract: TestContract) -> tuple[str, ...]:
    """The cases whose tests all passed in a run that shows them."""
    statuses: dict[str, set[str]] = {}
    for one in tests_of(run.tests, contract.test_file_path):
        statuses.setdefault(case_of(one.id, contract.test_cases), set()).add(one.status)
    return tuple(case.id for case in contract.test_cases if statuses.get(case.id) == {"passed"})


class Class(Struct, frozen=True):
    """How the QA engineer classifies a failure."""

    category: FailureClass
    reason: str = ""


def result_of(run: TestRun, contract: TestContract, classes: Mapping[str, Class], at: str) -> TestResult:
    """The test result of a subtask: from the run; only class and reason of a failure are the QA engineer's."""
    failures = failures_of(run, contract)
    cases = {case.id: case for case in contract.test_cases}
    failed = tuple(
        FailedTest(
            id=case_id,
            name=cases[case_id].name,
            reason=(given.reason if (given := classes.get(case_id)) and given.reason else why) or "it failed",
            category=given.category if given else "implementation_error",
        )
        for case_id, why in failures.items()
    )
    summary = run.summary or _by_exit_code(run, len(cases))
    passed = run.passed and summary.passed > 0
    if passed:
        failed = ()
    return TestResult(
        version=1,
        request_id=contract.request_id,
        task_id=contract.task_id,
        subtask_id=contract.subtask_id,
        created_at=at,
        created_by="qa-engineer",
        execution=Execution(command=run.command, timestamp=run.at, result="pass" if passed else "fail"),
        summary=summary,
        failed_tests=failed,
        recommendation=Recommendation(
            action=action_of(failed, passed=passed), reason=_why(run, failed, summary, contract)
        ),
    )


def _by_exit_code(run: TestRun, cases: int) -> Summary:
    return Summary(total=cases, passed=cases if run.passed else 0, failed=0 if run.passed else cases, skipped=0)


def _why(run: TestRun, failed: Sequence[FailedTest], summary: Summary, contract: TestContract) -> str:
    if not failed and run.passed and summary.passed:
        skipped = [one.name for one in run.tests if one.status == "skipped"]
        unseen = unseen_cases(run, contract)
        parts = [
            f"{summary.passed} of {summary.total} tests passed",
            f"skipped: {', '.join(skipped)}" if skipped else "",
            f"no test was seen of {', '.join(unseen)}" if unseen else "",
            f"flaky: {', '.join(run.flaky)}" if run.flaky else "",
        ]
        return "; ".join(filter(None, parts))
    if not failed:
        return "no test passed"
    parts = [f"{one.id}: {one.category}" for one in failed]
    return "; ".join((*parts, f"flaky: {', '.join(run.flaky)}") if run.flaky else parts)
