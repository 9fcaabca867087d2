"""Which edition is the newest, what an edition or a changed file withdraws, and what a look does: pure decisions."""

from __future__ import annotations

from typing import Any

import pytest

from orchestra.core.looks import Act, Seen, judge
from orchestra.core.newest import Newest, edition_of, editions_above
from orchestra.core.records import Event, EventType
from orchestra.core.tables import Fold

OURS, OLD, EDIT, OTHER = "sha256:ours", "sha256:old", "sha256:edit", "sha256:other"


def seen(made: str, file: str) -> Seen:
    return Seen("a.md", "project", made, file, edited=file != made)


@pytest.mark.parametrize(
    ("last", "begun", "now", "act"),
    [
        (None, (), None, "write"),
        (None, (), OURS, "saw"),  # somebody wrote the same text
        (None, (OURS,), OURS, "write"),  # a killed process did: its record is still to be made
        (None, (), OTHER, "conflict"),  # the file was there before the run
        (None, (OLD,), OLD, "write"),  # a killed process wrote it, and the text is another one now
        (seen(OURS, OURS), (), OURS, "same"),
        (seen(OURS, OURS), (), None, "write"),
        (seen(OURS, OURS), (), EDIT, "saw"),
        (seen(OURS, EDIT), (), EDIT, "same"),
        (seen(OURS, EDIT), (), OTHER, "saw"),
        (seen(OURS, EDIT), (), OURS, "saw"),  # the edit was taken back
        (seen(OURS, EDIT), (), None, "restore"),
        (seen(OLD, OLD), (), OLD, "write"),  # our own old text
        (seen(OLD, OLD), (), OURS, "saw"),
        (seen(OLD, OLD), (), EDIT, "conflict"),
        (seen(OLD, OLD), (OTHER,), OTHER, "write"),
        (seen(OLD, EDIT), (), EDIT, "conflict"),
        (seen(OLD, EDIT), (), OLD, "write"),
        (seen(OLD, EDIT), (), None, "write"),
    ],
)
def test_what_a_look_does(last: Seen | None, begun: tuple[str, ...], now: str | None, act: Act) -> None:
    assert judge(last, frozenset(begun), now, OURS) == act


def event(number: int, type: EventType, **payload: Any) -> Event:
    return Event(f"{number:08}", "run", "2026-01-01T00:00:00.000Z", type, phase="execute", iteration=1, payload=payload)


def folded(*lines: tuple[EventType, dict[str, Any]]) -> Fold:
    return Fold.of(event(number, type, **payload) for number, (type, payload) in enumerate(lines, start=1))


OUTCOMES: tuple[Any, ...] = (None, [], {"inputs": 3}, {"inputs": {"a": 1, "b": {"path": 2}}})
CREATED: tuple[EventType, dict[str, Any]] = ("RUN_CREATED", {})


def edition(key: str, **inputs: dict[str, str]) -> tuple[EventType, dict[str, Any]]:
    return "PHASE_COMPLETED", {"key": f"{key}.1", "effect": "Edition", "outcome": {"inputs": inputs}}


def question(name: str, key: str) -> tuple[EventType, dict[str, Any]]:
    return "QUESTION_RAISED", {"key": key, "questionId": name}


def child(key: str) -> tuple[EventType, dict[str, Any]]:
    return "PHASE_STARTED", {"key": key, "workflow": "loop", "childRunId": f"child-{key}"}


def looked(file: str, **more: object) -> tuple[EventType, dict[str, Any]]:
    outcome = {"path": "a.md", "inside": "project", "made": OURS, "file": file, **more}
    return "PHASE_COMPLETED", {"key": f"a@{file[-1]}.1", "effect": "Look", "outcome": outcome}


def test_a_new_edition_withdraws_what_is_open_below_the_old_one_and_nothing_else() -> None:
    fold = folded(
        CREATED,
        edition("x/design@1"),
        question("q1", "x/design@1/left/q.1"),
        child("x/design@1/sub@3/c.1"),
        question("q2", "x/design@10/q.1"),
        question("q3", "design@1/q.1"),
        child("y/c.1"),
        edition("x/design@2"),
    )
    assert (list(fold.pending), list(fold.withdrawn)) == (["q2", "q3"], ["q1"])
    assert (list(fold.children), list(fold.replaced)) == (["y/c.1"], ["x/design@1/sub@3/c.1"])
    assert fold.state.status == "awaiting_input"


def test_what_was_settled_is_not_withdrawn_and_the_state_shows_that_nothing_waits() -> None:
    fold = folded(
        CREATED,
        edition("design@1"),
        question("q1", "design@1/q.1"),
        ("QUESTION_ANSWERED", {"key": "design@1/q.1", "questionId": "q1"}),
        question("q2", "design@1/r.1"),
        edition("design@2"),
    )
    assert (fold.pending, list(fold.withdrawn), fold.state.status) == ({}, ["q2"], "running")
    assert fold.state.pendingQuestionId is not None


def test_an_id_that_is_used_again_elsewhere_is_not_withdrawn() -> None:
    fold = folded(CREATED, edition("a@1"), question("q", "a@1/q.1"), question("q", "b/q.1"), edition("a@2"))
    assert list(fold.pending) == ["q"]


@pytest.mark.parametrize(
    ("look", "withdrawn"),
    [
        (looked(EDIT), ["q"]),
        (looked(OURS), []),  # the text that the edition was made from
        (looked(OURS, conflict=True), ["q"]),
    ],
)
def test_a_file_that_changed_withdraws_the_requests_of_editions_made_from_it(
    look: tuple[EventType, dict[str, Any]], withdrawn: list[str]
) -> None:
    made = edition("design@1", brief={"path": "a.md", "digest": OURS})
    fold = folded(CREATED, made, question("q", "design@1/q.1"), child("design@1/c.1"), look)
    assert list(fold.withdrawn) == withdrawn
    assert list(fold.children) == ["design@1/c.1"]  # it is ended only when the edition is replaced


@pytest.mark.parametrize("key", ["", "x", "design@.1", "design@x.1", "@99999999999999999999.1", "a@1.2", "a@-1.1"])
def test_a_key_that_is_none_of_an_edition_is_passed_over(key: str) -> None:
    odd: list[tuple[EventType, dict[str, Any]]] = [
        ("PHASE_COMPLETED", {"key": key, "effect": "Edition", "outcome": outcome}) for outcome in OUTCOMES
    ]
    fold = folded(CREATED, question("q", "a@1/q.1"), *odd, ("PHASE_STARTED", {"effect": "WriteFile", "path": 3}))
    assert list(fold.pending) == ["q"]


def test_an_edition_that_comes_again_withdraws_nothing_below_itself() -> None:
    newest = Newest()
    assert newest.note(event(1, "PHASE_COMPLETED", key="plan/design@1.1", effect="Edition")) == []
    newest.opened("plan/design@1/ask.1", "q1")
    assert newest.note(event(2, "PHASE_COMPLETED", key="plan/design@1.1", effect="Edition")) == []
    assert newest.opened_below("plan/design@1/") == [("q1", "plan/design@1/ask.1")]
    found = newest.note(event(3, "PHASE_COMPLETED", key="plan/design@2.1", effect="Edition"))
    assert found == [("q1", "plan/design@1/ask.1")]


@pytest.mark.parametrize("outcome", [None, "text", 3])
def test_an_outcome_of_a_look_that_does_not_fit_is_passed_over(outcome: object) -> None:
    newest = Newest()
    newest.note(event(1, "PHASE_COMPLETED", key="look@1.1", effect="Look", outcome=outcome))
    assert (newest.files, newest.conflicts, newest.begun) == ({}, {}, {})


def test_only_a_text_of_the_runs_own_that_it_began_to_write_is_known_as_such() -> None:
    newest, file = Newest(), {"inside": "project", "path": "a.md"}
    newest.note(event(1, "PHASE_STARTED", key="look@1.1", effect="WriteFile", **file, file=OURS))
    newest.note(event(2, "PHASE_STARTED", key="look@2.1", effect="WriteFile", **file, file=EDIT, edited=True))
    assert newest.begun == {"project:a.md": {OURS}}
    done = event(3, "PHASE_COMPLETED", key="look@2.1", effect="WriteFile", outcome={**file, "file": EDIT})
    newest.note(done)
    assert (newest.begun, newest.files) == ({}, {"project:a.md": done})


def test_the_editions_above_a_key() -> None:
    assert list(editions_above("a@1/b/c.2@3/d.1")) == ["a@1/", "a@1/b/c.2@3/"]
    assert (edition_of("a@1/b/c@3/d.1"), edition_of("a/b.1"), edition_of("a@1.1")) == ("a@1/b/c@3", "", "")
