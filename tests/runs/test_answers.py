"""What a person says to a waiting run: for whom it is meant, by whom it was said, and what is refused."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import Any

import pytest

from orchestra.core.errors import UsageError
from orchestra.core.inbox import CANCEL
from orchestra.runs.answers import who
from tests.runs.test_tree import Place, Told, asks, began, final

ONE, TWO = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"


def approves(name: str, digest: str, **more: Any) -> Told:
    said = {"effect": "Approve", "approvalId": name, "digest": digest, "subject": "command", **more}
    return ("APPROVAL_REQUESTED", f"{name}.1", "10:00:02", said)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.spec("D-11")
def test_a_grant_is_for_the_digest_that_waits_and_says_who_gave_it(place: Place) -> None:
    root = place.write("root", approves("patch", ONE))
    with pytest.raises(UsageError, match=f"what waits now is {ONE}, not {TWO}"):
        place.answers.approve(root, digest=TWO)
    assert place.store.mail(root, "patch") is None
    assert place.answers.approve(root, by="김").id == "patch"
    said = place.store.mail(root, "patch")
    assert said is not None and (said.kind, said.digest, said.by) == ("approve", ONE, "김")


@pytest.mark.spec("D-11")
def test_a_rejection_needs_a_reason_and_keeps_it(place: Place) -> None:
    root = place.write("root", approves("patch", ONE))
    with pytest.raises(UsageError, match="the reason is empty"):
        place.answers.reject(root, reason="  ")
    assert place.store.mail(root, "patch") is None
    place.answers.reject(root, reason="틀렸다", end=True, by="김")
    said = place.store.mail(root, "patch")
    assert said is not None
    assert (said.kind, said.text, said.digest, said.by, said.end) == ("reject", "틀렸다", ONE, "김", True)


def test_of_two_changes_the_one_that_is_named_is_meant(place: Place) -> None:
    root = place.write("root", began("a", "a.1"), approves("one", ONE))
    child = place.write("a", approves("two", TWO), parent="root", key="a.1")
    with pytest.raises(UsageError, match="waits with 2 requests; say which"):  # they are commands
        place.answers.approve(root)
    patches = place.write("patches", approves("one", ONE, subject="patch"), approves("two", TWO, subject="patch"))
    with pytest.raises(UsageError, match="waits with 2 changes; say which"):
        place.answers.approve(patches)
    assert place.answers.approve(root, digest=TWO).path == ("a.1",)
    assert place.store.mail(child, "two") is not None and place.store.mail(root, "one") is None
    assert place.answers.approve(root).id == "one"  # the only one that is left


def test_of_two_questions_the_one_that_is_named_is_answered(place: Place) -> None:
    root = place.write("root", asks("one", "one.1"), asks("two", "two.1"))
    with pytest.raises(UsageError, match="it waits with 2 questions; say which"):
        place.answers.answer(root, "x")
    with pytest.raises(UsageError, match="the answer is empty"):
        place.answers.answer(root, " ", question="two")
    place.answers.answer(root, "둘", question="two", by="김")
    said = place.store.mail(root, "two")
    assert said is not None and (said.kind, said.text, said.by) == ("answer", "둘", "김")
    assert place.answers.answer(root, "하나").id == "one"


def test_a_part_is_chosen_of_a_patch_only(place: Place) -> None:
    root = place.write("root", approves("one", ONE))
    with pytest.raises(UsageError, match="waits with a command, which is approved as a whole"):
        place.answers.approve(root, only=("a.py",))


def test_a_run_that_is_over_is_not_canceled_and_the_first_reason_stays(place: Place) -> None:
    root = place.write("root", asks("one", "one.1"))
    place.answers.ask_to_cancel(root, reason="처음", by="김")
    place.answers.ask_to_cancel(root, reason="again", by="박")
    said = place.store.mail(root, CANCEL)
    assert said is not None and (said.text, said.by) == ("처음", "김")
    with pytest.raises(UsageError, match="is already completed"):
        place.answers.ask_to_cancel(place.write("done", final("10:00:03")))


def test_a_decision_names_the_user_and_the_number_of_one_who_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "민수")
    assert who() == "민수"

    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert who() == f"uid {os.getuid()}"
