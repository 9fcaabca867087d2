"""What a loop's models are sent, by the edition of the prompts that its run began with, and how its turns follow."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET

from orchestra.core.work import Note
from orchestra.workflows.loop.flow import fixes_used_up
from orchestra.workflows.loop.shapes import Job, Turn, as_changed, prompt


def job(edition: int) -> Job:
    return Job(goal="목표", edition=edition)


@pytest.mark.parametrize(("edition", "told"), [(1, False), (2, True), (4, True)])
def test_a_planner_is_told_how_to_ask_from_edition_2_on(edition: int, told: bool) -> None:
    assert ("NEED" in prompt("planner", job(edition), task="t").system) is told


@pytest.mark.parametrize(("edition", "named"), [(3, False), (4, True), (5, True)])
def test_a_call_names_the_form_of_its_reply_from_edition_4_on(edition: int, named: bool) -> None:
    assert job(edition).constraints("result").form == ("result" if named else UNSET)
    assert job(edition).constraints("result").patchFirst and not job(edition).constraints("plan").patchFirst


def test_a_rejection_is_no_fix_and_from_edition_3_on_its_reason_stays() -> None:
    turn = Turn("fix", 2, traces=("red",), fixes=1)
    old, new = (turn.rejecting(Note("why", "too long"), "sha256:1", edition) for edition in (2, 3))
    assert old == Turn("fix", 3, notes=(Note("why", "too long"),), fixes=1)
    said = Note("a person rejected iteration 2", "too long")
    assert new == Turn("fix", 3, notes=(said,), traces=("red",), fixes=1, rejected=("sha256:1",))
    assert old.fixing().notes == () and new.fixing().notes == (said,)


@pytest.mark.parametrize(("fixes", "used_up"), [(2, False), (3, True), (4, True)])
def test_the_third_fix_is_allowed_and_the_fourth_is_not(fixes: int, used_up: bool) -> None:
    turn = Turn("fix", fixes + 1, fixes=fixes)
    assert fixes_used_up(msgspec.structs.replace(job(4), maxFixIterations=3), turn) is used_up


def test_the_limit_of_fixes_is_only_ever_raised() -> None:
    three = msgspec.structs.replace(job(4), maxFixIterations=3)
    assert as_changed(three, {}) is three
    assert [as_changed(three, {"maxFixIterations": limit}).maxFixIterations for limit in (2, 5)] == [3, 5]
