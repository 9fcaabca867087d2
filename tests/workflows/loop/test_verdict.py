"""What a verdict says of each check: red before and green after, or green before already (G1-16)."""

from __future__ import annotations

import msgspec
import pytest

from orchestra.core.command import CommandOutcome
from orchestra.workflows.loop.checks import (
    FAILURE_CHARS,
    Baseline,
    check_results,
    describe_checks,
    missing_outside,
    prove_nothing,
)
from orchestra.workflows.loop.effects import Result
from orchestra.workflows.loop.shapes import EDITION, Job
from orchestra.workflows.loop.verdict import decide
from orchestra.workflows.replies import Opinion

JOB = Job(goal="g", checks=(("pytest", "-q"),), edition=EDITION)
TWO = msgspec.structs.replace(JOB, checks=(("pytest", "-q"), ("ruff", "check")))


def done(status: Result, **more: str) -> CommandOutcome:
    code = {"pass": 0, "fail": 1, "not_run": None}[status]
    outcome = CommandOutcome("c", code, status, 1, False, "out")
    return msgspec.structs.replace(outcome, **more) if more else outcome


def before(*statuses: Result) -> Baseline:
    return Baseline(tuple(map(done, statuses)), known=True)


@pytest.mark.parametrize(
    ("was", "grounds"),
    [
        (before("fail"), "The check passes: red before, green after."),
        (before("not_run"), "The check passes: not run before, green after."),
        (before("pass"), "The check passes (green before: proves nothing)."),
        (Baseline(), "The check passes."),  # a run of before the baseline
    ],
)
def test_a_pass_says_what_it_proves(was: Baseline, grounds: str) -> None:
    assert decide((done("pass"),), None, JOB, was) == Opinion("pass", grounds)


def test_each_of_several_checks_is_told() -> None:
    verdict = decide((done("pass"), done("pass")), None, TWO, before("fail", "pass"))
    told = "`pytest -q`: red before, green after; `ruff check`: green before: proves nothing"
    assert verdict.grounds == f"All 2 checks pass: {told}."
    assert not prove_nothing(check_results(TWO, (done("pass"), done("pass")), before("fail", "pass")))


def test_an_evaluators_pass_is_told_with_it() -> None:
    verdict = decide((done("pass"),), Opinion("pass", "looks right"), JOB, before("pass"))
    assert "green before: proves nothing" in verdict.grounds and "looks right" in verdict.grounds


def test_a_check_that_the_change_broke_is_told() -> None:
    verdict = decide((done("fail"),), None, JOB, before("pass"))
    assert verdict == Opinion("fixable", "Failing: pytest -q (green before, red after).")


def test_exit_codes_outrank_an_opinion() -> None:
    verdict = decide((done("fail"),), Opinion("pass", "fine"), JOB, before("fail"))
    assert verdict.decision == "fixable" and "exit codes outrank it" in verdict.grounds


def test_what_is_missing_outside_the_project_is_told_apart() -> None:
    [missing] = missing_outside(JOB, (done("fail", blocked="there is no pytest", cure="pip install pytest"),))
    assert str(missing) == "`pytest -q` cannot do its work here: there is no pytest"
    assert missing.cure == "pip install pytest"
    [gone] = missing_outside(JOB, (done("not_run", error="pytest is not on PATH"),))
    assert "not on PATH" in str(gone)
    own = msgspec.structs.replace(JOB, checks=(("./run-tests.sh",),))
    assert missing_outside(own, (done("not_run", error="there is no program"),)) == ()  # the patch may make it
    assert decide((done("not_run"),), None, own, before("pass")).decision == "blocked"  # it removed its own check
    assert missing_outside(JOB, (done("fail"),)) == ()


def test_rows_of_an_older_run_have_no_before() -> None:
    old = msgspec.structs.replace(JOB, edition=1)
    [row] = check_results(old, (done("pass"),), Baseline())
    assert msgspec.to_builtins(row) == {"command": "pytest -q", "status": "pass", "exitCode": 0}
    [skipped] = check_results(JOB, (done("pass"),), Baseline(known=True))
    assert msgspec.to_builtins(skipped)["before"] == "not_run"  # --no-baseline


def test_a_check_that_turned_green_although_nothing_was_changed_proves_nothing() -> None:
    verdict = decide((done("pass"),), None, JOB, before("fail"), untouched=True)
    assert verdict.decision == "pass"
    assert verdict.grounds.startswith("The check passes, which proves nothing: this run changed no file")
    assert prove_nothing(check_results(JOB, (done("pass"),), before("fail")), untouched=True)
    green = decide((done("pass"),), None, JOB, before("pass"), untouched=True)
    assert green == decide((done("pass"),), None, JOB, before("pass"))


@pytest.mark.parametrize(("edition", "asked"), [(1, False), (2, True)])
def test_what_is_missing_outside_is_asked_for_from_edition_2_on(edition: int, asked: bool) -> None:
    job = msgspec.structs.replace(JOB, edition=edition)
    assert bool(missing_outside(job, (done("not_run", blocked="no network", cure="allow it"),))) is asked


@pytest.mark.parametrize(("size", "left_out"), [(FAILURE_CHARS, 0), (FAILURE_CHARS + 1, 1), (FAILURE_CHARS + 100, 100)])
def test_of_a_long_output_of_a_failed_check_the_middle_is_left_out(size: int, left_out: int) -> None:
    text = "가" * (size - 1) + "끝"
    half = FAILURE_CHARS // 2
    shown = f"{text[:half]}\n… {left_out} characters left out …\n{text[-half:]}" if left_out else text
    said = describe_checks(JOB, (done("fail", output=text),))
    assert said == f"$ pytest -q\n[fail: exit code 1]\n{shown}\n"
    assert describe_checks(JOB, (done("pass", output=text),)) == "$ pytest -q\n[pass: exit code 0]\n"
    assert describe_checks(JOB, ()) == "No checks are configured.\n"


def test_a_check_that_a_person_added_later_was_not_run_before() -> None:
    baseline = before("fail")
    changed = (*JOB.checks, ("ruff", "check"))
    assert [one.status for one in baseline.of(JOB.checks, changed).outcomes] == ["fail", "not_run"]
    assert baseline.of(JOB.checks, JOB.checks) is baseline
    assert Baseline((), known=True).of(JOB.checks, changed).outcomes == ()
