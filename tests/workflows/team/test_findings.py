"""Findings: read from reviews, merged over rounds, closed, in conflict; and decisions.json."""

from __future__ import annotations

import json

import pytest

from orchestra.core.errors import ContractError
from orchestra.workflows.team.decisions import (
    Choice,
    Decision,
    decided,
    decisions_text,
    option,
    read_choices,
    read_decisions,
    without_losers,
)
from orchestra.workflows.team.definitions import Review
from orchestra.workflows.team.findings import Closing, ReviewFinding, conflicts, listed, merged, read_review

BY_R = Review("research", "tech-architect", "artifacts/tech.md", "reviews/phase2-research-reviews-tech.md")
BY_T = Review("tech-architect", "research", "artifacts/market.md", "reviews/phase2-tech-architect-reviews-market.md")
REVIEW = """Some words.

- [R1] high: 비용이 빠졌다 evidence: "월 10달러"
* [R2] Medium: no cache conflicts: [T1] evidence: “direct
  calls”
- [R3] low: wording
"""


def test_items_of_a_review_are_findings() -> None:
    first, second, third = read_review(REVIEW, BY_R, 1)
    assert first == ReviewFinding("R1", "high", "비용이 빠졌다", "research", "artifacts/tech.md", "월 10달러")
    assert isinstance(second, ReviewFinding) and second.conflicts == ("T1",) and second.evidence == "direct calls"
    assert isinstance(third, ReviewFinding) and third.is_advisory


def test_a_finding_without_evidence_is_no_reason_for_another_round() -> None:
    [advice] = read_review("- [R1] high: better words", BY_R, 1)
    assert isinstance(advice, ReviewFinding) and advice.is_open and not advice.blocks
    [proven] = read_review('- [R1] high: better words evidence: "x"', BY_R, 1)
    assert isinstance(proven, ReviewFinding) and proven.blocks
    [small] = read_review('- [R1] low: better words evidence: "x"', BY_R, 1)
    assert isinstance(small, ReviewFinding) and not small.blocks


def test_a_review_without_items_is_one_open_finding_of_medium_severity() -> None:
    [whole] = read_review("전체적으로 좋지만 비용이 없다.", BY_R, 1)
    assert isinstance(whole, ReviewFinding) and whole.severity == "medium" and whole.blocks


@pytest.mark.parametrize("text", ["No changes", "변경 사항 없음"])
def test_a_review_may_find_nothing(text: str) -> None:
    assert read_review(text, BY_R, 1) == ()


def test_a_reviewer_that_finds_nothing_more_closes_its_review_without_items_and_no_other() -> None:
    known = merged((), (*read_review("비용이 없다.", BY_R, 1), *read_review(REVIEW, BY_R, 1)), BY_R)
    assert merged(known, read_review("변경 사항 없음", BY_T, 2), BY_T) == known
    later = merged(known, read_review("변경 사항 없음", BY_R, 2), BY_R)
    assert [one.is_open for one in later] == [False, True, True, True]


@pytest.mark.parametrize("item", ["- **[R1]** high: x", "1. [R1] **High**: x", "* [R1] HIGH x", "2) **[R1] high:** x"])
def test_an_item_may_be_bold_or_numbered(item: str) -> None:
    [found] = read_review(f'{item} evidence: "y"', BY_R, 1)
    assert isinstance(found, ReviewFinding)
    assert (found.id, found.severity, found.text, found.evidence) == ("R1", "high", "x", "y")


def test_a_later_review_closes_or_repeats_a_finding() -> None:
    known = merged((), read_review(REVIEW, BY_R, 1), BY_R)
    again = merged(known, read_review('- [R1] closed: 이제 있다\n- [R2] high: still evidence: "y"', BY_R, 2), BY_R)
    assert [one.is_open for one in again] == [False, True, True]
    assert again[0].closed == "이제 있다"
    assert (again[1].severity, again[1].round) == ("high", 1)


def test_another_reviewer_closes_a_finding_about_the_same_target_only() -> None:
    known = merged((), read_review(REVIEW, BY_R, 1), BY_R)
    assert merged(known, (Closing("R1", "x"),), BY_T) == known
    other = Review("planner", "tech-architect", BY_R.target, "")
    assert not merged(known, (Closing("R1", "x"),), other)[0].is_open


def test_two_reviewers_may_use_the_same_id() -> None:
    known = merged((), read_review('- [A] high: one evidence: "x"', BY_R, 1), BY_R)
    both = merged(known, read_review('- [A] low: two evidence: "x"', BY_T, 1), BY_T)
    assert [one.name for one in both] == ["research/A", "tech-architect/A"]


@pytest.mark.spec("S4-79", "S4-80")
def test_a_conflict_has_both_sides_and_the_finding_that_lost_is_closed() -> None:
    known = merged((), read_review('- [R1] high: use a queue evidence: "one server"', BY_R, 1), BY_R)
    known = merged(known, read_review('- [T1] high: no queue evidence: "many" conflicts: [R1]', BY_T, 1), BY_T)
    [conflict] = conflicts(known)
    assert [side.name for side in conflict.sides] == ["tech-architect/T1", "research/R1"]
    choice = read_choices("- [C1] chosen: [R1] rationale: 나중에 필요하다", [conflict])["C1"]
    decision = decided(2, conflict, choice)
    assert decision.chosen == option(known[0]) and decision.rationale == "나중에 필요하다"
    assert decision.conflict is not None and not isinstance(decision.conflict, str)
    assert {side.evidence for side in decision.conflict.sides} == {"one server", "many"}
    left = without_losers(known, conflict, choice)
    assert [one.is_open for one in left] == [True, False]
    assert conflicts(left, [conflict]) == ()


def test_a_conflict_that_two_findings_name_is_one() -> None:
    known = merged((), read_review('- [R1] high: a evidence: "x" conflicts: [T1]', BY_R, 1), BY_R)
    known = merged(known, read_review('- [T1] high: b evidence: "y" conflicts: [R1] [nobody]', BY_T, 1), BY_T)
    assert len(conflicts(known)) == 1


@pytest.mark.parametrize("text", ["", "I cannot decide", "- [C1] chosen: X9 rationale: x", "- [C1] chosen: R1"])
def test_a_choice_without_a_known_side_or_a_reason_is_none(text: str) -> None:
    known = merged((), read_review('- [R1] high: a evidence: "x"', BY_R, 1), BY_R)
    known = merged(known, read_review('- [T1] high: b evidence: "y" conflicts: [R1]', BY_T, 1), BY_T)
    assert read_choices(text, conflicts(known)) == {}


def test_findings_are_listed_in_the_form_they_are_read_in() -> None:
    known = merged((), read_review(REVIEW, BY_R, 1), BY_R)
    assert [one.id for one in read_review(listed(known), BY_R, 1)] == ["R1", "R2", "R3"]


def test_decisions_json_has_the_agents_the_conflicts_and_what_stayed_open() -> None:
    conflict = {"research": "빠르다", "tech-architect": "싸다"}
    written = {"id": "D1", "title": "스택", "options": ["a"], "chosen": "a", "conflict": conflict, "decidedBy": "나"}
    own = json.dumps({"decisions": [written], "version": 2})
    [open_one] = read_review('- [R1] high: 비용 evidence: "x"', BY_R, 1)
    assert isinstance(open_one, ReviewFinding)
    text = decisions_text(own, [Decision("phase2-C1", "t")], [open_one])
    entries = json.loads(text)["decisions"]
    assert [one["id"] for one in entries] == ["D1", "phase2-C1", "open-research-R1-tech.md"]
    assert entries[0] == {**written, "rationale": ""} and json.loads(text)["version"] == 2
    assert set(entries[1]) == {"id", "title", "options", "chosen", "rationale", "conflict"}


def test_without_anything_to_decide_there_is_no_file() -> None:
    [advice] = read_review("- [R1] high: x", BY_R, 1)
    assert isinstance(advice, ReviewFinding) and decisions_text("", [], [advice]) == ""


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"decisions": [{"title": "x"}]}'])
def test_decisions_json_in_another_form_is_refused(text: str) -> None:
    with pytest.raises(ContractError, match="not of the form"):
        read_decisions(text)


def test_a_choice_names_the_finding_by_reviewer_or_by_id() -> None:
    known = merged((), read_review('- [R1] high: a evidence: "x"', BY_R, 1), BY_R)
    known = merged(known, read_review('- [T1] high: b evidence: "y" conflicts: [R1]', BY_T, 1), BY_T)
    found = read_choices("- [c1] chosen: research/R1 rationale: why", conflicts(known))
    assert found == {"C1": Choice("research/R1", "why")}
