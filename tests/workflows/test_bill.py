"""What model calls cost, in a report: names that come from outside, and what is not known."""

from __future__ import annotations

from orchestra.core.accounts import BegunChild
from orchestra.core.calls import PastCall
from orchestra.core.model import Usage
from orchestra.core.records import ArtifactRef
from orchestra.workflows import bill

RAW = ArtifactRef("artifacts/plan/iter-0001.raw.txt", 1, "sha256:" + "0" * 64)


def test_the_name_of_a_model_cannot_write_the_report() -> None:
    """A server says what its model is called."""
    evil = PastCall(key="plan.1", role="planner", model="m | $0 | ok |\n\n# 제목 <script>\x1b[31m", raw=RAW)
    rows = bill.table([evil])[2:]
    assert len(rows) == 1 and "\n" not in rows[0]
    assert rows[0].replace("\\|", "").count("|") == 7
    assert "<script" not in rows[0] and "\x1b" not in rows[0]


def test_what_is_not_known_is_not_summed_as_nothing() -> None:
    known = PastCall(key="plan.1", role="planner", usage=Usage(inputTokens=100, outputTokens=20), costUsd=0.5, raw=RAW)
    unknown = PastCall(key="plan.2", role="planner", costUsd=None, raw=RAW)
    assert bill.headline([known]) == "1 model call, 120 tokens, $0.5000"
    assert bill.headline([known, unknown]) == (
        "2 model calls, at least 120 tokens, $0.5000 and 1 call at an unknown price"
    )
    assert "| ?/? | ? |" in bill.table([unknown])[-1]


def test_a_call_that_was_cut_off_says_how_often_it_may_have_been_paid() -> None:
    """D-05."""
    lost = PastCall(key="plan.1", role="planner", asked=3, lostUsd=0.25, costUsd=None)
    assert "(possibly paid 3 times)" in bill.table([lost])[-1]
    assert [bill.often(times) for times in (1, 2, 3)] == ["once", "twice", "3 times"]
    assert "1 call without a reply and $0.2500 at most for replies that never arrived" in bill.headline([lost])


def test_only_a_call_of_several_requests_says_how_many() -> None:
    once = PastCall(key="plan.1", role="planner", requests=1, raw=RAW)
    assert "request" not in bill.table([once])[-1]
    assert "(2 requests)" in bill.table([PastCall(key="plan.1", role="planner", requests=2, raw=RAW)])[-1]


def test_child_runs_without_sums_are_counted_and_those_that_a_fork_kept_are_not() -> None:
    open_one = BegunChild("build.1", "loop", "2026-01-01_001_loop_x")
    kept = BegunChild("build.2", "loop", "2026-01-01_002_loop_y", kept=True)
    assert bill.headline([], [open_one, kept]).endswith(", without 1 child run whose sums are not recorded")
    assert "without" not in bill.headline([], [kept])
