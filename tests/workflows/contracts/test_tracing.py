"""A request's state and evidence follow from executed tests and applied patches, both ways."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from orchestra.core.records import Event
from orchestra.workflows.contracts import records
from orchestra.workflows.contracts.documents import read
from orchestra.workflows.contracts.gates import Passing
from orchestra.workflows.contracts.hunks import TracedHunk, hunks_of
from orchestra.workflows.contracts.progress import Named, Planned, Verified
from orchestra.workflows.contracts.testreport import Case
from orchestra.workflows.contracts.testruns import TestRun, result_of
from orchestra.workflows.contracts.tracing import Change, Kind, Traced, left_of, target_of
from tests.workflows.contracts.samples import text, values

CONTRACT = read(text(values("test-contract") | {"subtask_id": "T1-S1"}), records.TestContract, "x")
FILE, TESTS = "src/a.py", "tests/test_a.py"


class Journal:
    """The events of a request with one subtask, as its flow records them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.add("RUN_CREATED", "", params={"request": "요청"})
        self.add("PHASE_COMPLETED", "TakeRequest", outcome={"request": "R1", "manifest": {}})
        self.settle(Planned(tasks=(Named("T1", "작업"),), order=("T1",)))
        self.settle(Planned(task="T1", order=("T1-S1",), subtasks=(Named("T1-S1", "하나"),)))

    def add(self, kind: Any, effect: str, **payload: Any) -> str:
        number = len(self.events) + 1
        moment = f"2026-01-01T00:00:{number:02}.000Z"
        labels = {"key": f"T1/T1-S1/step.{number}", "effect": effect, "target": "T1-S1", "round": 1}
        self.events.append(
            Event(f"{number:08}", "run", moment, kind, {**labels, **payload}, phase="execute", iteration=1)
        )
        return moment

    def settle(self, value: Any, native: str = "verify") -> None:
        outcome = {"value": msgspec.to_builtins(value)}
        self.add("PHASE_COMPLETED", "Settle", native=native, outcome=outcome)

    def tests(self, *cases: Case, code: int = 0, native: str = "verify", target: str = "T1-S1") -> TestRun:
        """A test run, read."""
        moment = f"2026-01-01T00:00:{len(self.events) + 1:02}.000Z"
        counts = {name: sum(case.status == name for case in cases) for name in ("passed", "failed", "skipped")}
        summary = records.Summary(total=len(cases), **counts) if cases else None
        run = TestRun("pytest", moment, code, code == 0, "sha256:" + "a" * 64, cases, summary)
        outcome = {"found": msgspec.to_builtins(run)}
        self.add("PHASE_COMPLETED", "ReadTests", native=native, target=target, outcome=outcome)
        return run

    def verified(self, run: TestRun) -> None:
        """The result of a run, and its gate."""
        result = result_of(run, CONTRACT, {}, run.at)
        self.settle(Verified(result, run))
        passed = result.recommendation.action == "complete"
        self.settle(Passing("GATE-2", "passed" if passed else "failed", ""), "gate")

    def traced(self, *changes: Change, now: dict[str, str] | None = None) -> Any:
        found = now if now is not None else {FILE: "1", TESTS: "t"}
        return Traced("run", self.events, {"T1-S1": CONTRACT}, changes, found.get).request()


def case(number: int, status: Any = "passed") -> Case:
    return Case(f"test_tc_{number}", status, "", "tests.AServiceTest")


def change(
    at: int, path: str = FILE, digest: str | None = "1", target: str = "T1-S1", kind: Kind = "implementation"
) -> Change:
    hunk = TracedHunk(path, 1, 3, 3, 0)
    hunks = () if kind == "taken back" else (hunk,)
    return Change("child", f"{at:08}", f"2026-01-01T00:00:{at:02}.000Z", target, kind, hunks, {path: digest})


@pytest.mark.spec("S3-131", "S3-132", "S3-133", "S3-124")
def test_a_request_is_done_when_the_tests_of_every_case_passed() -> None:
    journal = Journal()
    assert journal.traced().state == "pending"
    journal.tests(case(1, "failed"), code=1, native="red")
    journal.verified(journal.tests(case(1), case(2)))
    found = journal.traced(change(1))
    assert found.state == "done"
    (subtask,) = found.subtasks
    assert subtask.red is True
    assert [(one.id, one.evidence.status, one.evidence.exitCode) for one in subtask.cases] == [
        ("TC-1", "passed", 0),
        ("TC-2", "passed", 0),
    ]


def test_no_claim_makes_a_subtask_done_without_passed_tests() -> None:
    """GATE-2 is recorded as passed, and a result says complete: but the run does not show TC-2."""
    journal = Journal()
    journal.verified(journal.tests(case(1)))
    found = journal.traced()
    assert [one.evidence is None for one in next(found.subtasks).cases] == [False, True]
    assert found.state == "unproven"
    without_contract = Traced("run", journal.events, {}, (), lambda path: None).request()
    assert without_contract.state == "unproven"


def test_evidence_is_stale_when_a_covered_file_changed_later() -> None:
    journal = Journal()
    journal.verified(journal.tests(case(1), case(2)))
    assert journal.traced(change(1)).state == "done"
    edited = journal.traced(change(1), now={FILE: "2"})
    assert edited.state == "stale"
    assert {one.evidence.stale for one in next(edited.subtasks).cases} == {"src/a.py was edited since"}
    later = journal.traced(change(1), change(50, digest="3", target="T2-S1"), now={FILE: "3"})
    assert {one.evidence.stale for one in next(later.subtasks).cases} == {"src/a.py was changed later, for T2-S1"}
    gone = journal.traced(change(1), now={})
    assert gone.state == "stale"
    apart = journal.traced(change(1), change(50, path="src/b.py", target="T2-S1"))
    assert apart.state == "done"
    undone = journal.traced(change(1), change(50, digest=None, kind="taken back"), now={})
    assert {one.evidence.stale for one in next(undone.subtasks).cases} == {"src/a.py was changed later, for T1-S1"}


def test_a_later_run_of_the_same_tests_is_the_evidence() -> None:
    journal = Journal()
    journal.verified(journal.tests(case(1), case(2)))
    change_later = change(len(journal.events) + 1, digest="2", target="T2-S1")
    journal.add("PHASE_STARTED", "")
    journal.tests(case(1), case(2), Case("test_other", "passed"), target="T2-S1")
    assert journal.traced(change(1), change_later, now={FILE: "2"}).state == "done"
    journal.tests(case(1, "failed"), case(2), code=1, target="T2-S1")
    broken = journal.traced(change(1), change_later, now={FILE: "2"})
    assert [one.evidence.status for one in next(broken.subtasks).cases] == ["failed", "passed"]
    assert broken.state == "failed"


def test_tests_of_another_subtask_show_nothing_of_this_one() -> None:
    """A whole suite has a TC-1 of every subtask."""
    journal = Journal()
    own = "tests.AServiceTest"
    other = Case("test_tc_2", "passed", "", "tests.test_other")
    journal.verified(journal.tests(Case("test_tc_1", "passed", "", own), other))
    (subtask,) = journal.traced(change(1)).subtasks
    assert [one.evidence.tests if one.evidence else None for one in subtask.cases] == [(f"{own}::test_tc_1",), None]


def test_a_runner_that_names_no_tests_counts_by_its_exit_code() -> None:
    journal = Journal()
    journal.verified(journal.tests())
    assert journal.traced(change(1)).state == "done"
    journal.verified(journal.tests(code=1))
    assert journal.traced(change(1)).state != "done"


def test_what_was_taken_back_is_left_out() -> None:
    first, second = change(1), change(2, path=TESTS, kind="tests")
    taken = change(3, digest=None, target="T1", kind="taken back")
    again = change(4)
    assert left_of([first, second, taken]) == (second,)
    assert left_of([first, second, taken, again]) == (second, again)
    other = change(1, target="T2-S1")
    assert left_of([other, taken]) == (other,)


DIFF = """diff --git a/src/a.py b/src/a.py
--- a/src/a.py
+++ b/src/a.py
@@ -1,4 +1,5 @@
 one
+new
 two
-three
+drei
 four
@@ -10,3 +11,2 @@
 ten
-eleven
 twelve
diff --git a/새.py b/새.py
new file mode 100644
--- /dev/null
+++ b/새.py
@@ -0,0 +1,2 @@
+가
+나
"""


def test_hunks_have_the_changed_lines_of_the_new_file() -> None:
    assert hunks_of(DIFF) == (
        TracedHunk("src/a.py", 2, 4, 2, 1),
        TracedHunk("src/a.py", 12, 12, 0, 1),
        TracedHunk("새.py", 1, 2, 2, 0),
    )
    assert hunks_of("") == ()
    assert hunks_of("no diff at all") == ()


def test_the_lines_of_a_hunk_are_those_it_has_now() -> None:
    def made(number: int, *hunks: TracedHunk) -> Change:
        return Change("run", f"{number:08}", f"{number}", "T1-S1", "implementation", hunks, {FILE: None})

    first = made(1, TracedHunk(FILE, 10, 12, 3, 0))
    above = made(2, TracedHunk(FILE, 2, 3, 2, 0))
    inside = made(3, TracedHunk(FILE, 13, 14, 2, 1))
    below = made(4, TracedHunk(FILE, 40, 41, 2, 0))
    assert left_of([first, above, inside, below])[0].hunks == (TracedHunk(FILE, 12, 15, 3, 0),)
    last = made(2, TracedHunk(FILE, 12, 14, 3, 1))  # instead of its last line
    assert left_of([first, last])[0].hunks == (TracedHunk(FILE, 10, 14, 3, 0),)


@pytest.mark.parametrize(
    ("keys", "target"),
    [
        (("T1/T1-S2/work@1/implement.2", "apply"), "T1-S2"),
        (("T2/design@2",), "T2"),
        (("T1/T1-S1/work@2",), "T1-S1"),
        (("merge@1",), ""),
        (("Tests/T1x",), ""),
    ],
)
def test_the_subtask_of_a_step_is_in_its_key(keys: tuple[str, ...], target: str) -> None:
    assert target_of(keys) == target
