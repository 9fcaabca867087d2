"""Sums of money, tokens and paths: over calls, over child runs, and what a fork copied is not summed again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orchestra.core.accounts import (
    Account,
    BegunChild,
    Spending,
    changed_paths,
    children,
    children_of,
    money,
    of_calls,
    of_ended,
    summed,
)
from orchestra.core.calls import PastCall
from orchestra.core.effects import ChildResult, Tokens
from orchestra.core.model import Usage
from orchestra.core.records import ArtifactRef, Event, EventType
from orchestra.core.run import RunFolder

RAW = ArtifactRef("artifacts/plan/iter-0001.raw.txt", 1, "sha256:" + "0" * 64)
COPIED = {"workflow": "loop", "forkedFrom": {"runId": "old", "at": "00000002", "origin": "old"}}
CHILD = ChildResult("c", "completed", None, costUsd=0.5, tokens=Tokens(7, 3), calls=2, paths=("가.py", "b.py"))


def event(number: int, type: EventType, **payload: object) -> Event:
    return Event(f"{number:08d}", "r", "2026-01-31T00:00:00.000Z", type, payload)


def call(**more: object) -> PastCall:
    return msgspec.convert({"key": "k", "role": "planner", **more}, PastCall)


def test_what_calls_took_is_summed_and_what_is_not_known_of_them_is_counted() -> None:
    paid = call(usage={"inputTokens": 10, "outputTokens": 4}, costUsd=0.25, raw=RAW)
    half = call(usage={"inputTokens": 1}, costUsd=None, lostUsd=0.125, raw=RAW)
    lost = call(usage={"inputTokens": 0, "outputTokens": 2}, costUsd=None, lostUsd=0.5)
    copied = call(usage={"inputTokens": 99, "outputTokens": 99}, costUsd=9, lostUsd=9, kept=True)
    assert of_calls([paid]) == of_calls([paid, copied]) == Account(1, 0.25, 0, Tokens(10, 4))
    assert of_calls([half]) == Account(1, 0, 0.125, Tokens(1, 0), unpriced=1, uncounted=True)
    assert of_calls([lost]) == Account(1, 0, 0.5, Tokens(0, 2), unanswered=1)
    both = Account(3, 0.25, 0.625, Tokens(11, 6), unpriced=1, unanswered=1, uncounted=True)
    assert of_calls([paid, half, lost]) == of_calls([paid]) + of_calls([half]) + of_calls([lost]) == both
    assert call().usage == Usage()


def test_what_was_reserved_for_a_call_that_a_kill_cut_off_is_lost_when_its_run_has_ended() -> None:
    cut_off = call(status="open", costUsd=None, mostUsd=0.25)
    twice = call(status="open", costUsd=None, mostUsd=0.25, lostUsd=0.5)
    paid = call(costUsd=0.125, mostUsd=0.25, raw=RAW)
    copied = call(status="open", costUsd=None, mostUsd=9, kept=True)
    assert of_ended([cut_off, paid, copied]) == Account(2, 0.125, 0.25, unanswered=1, uncounted=True)
    assert of_ended([cut_off, twice]).lostUsd == 1.0
    assert of_calls([cut_off, paid, copied]).lostUsd == 0.0  # it may be made again


@pytest.mark.parametrize(
    ("outcome", "usd", "unpriced"),
    [({"costUsd": 0.5}, 0.5, 0), ({"costUsd": 0}, 0, 0), ({"costUsd": None}, 0, 1), ({}, 0, 1), (None, 0, 0)]
    + [({"costUsd": wrong}, 0, 1) for wrong in (-1, float("inf"), float("nan"), "9")],
)
def test_spending_grows_with_each_call_that_ended_here(outcome: object, usd: float, unpriced: int) -> None:
    spent = Spending()
    spent.add(event(1, "RUN_CREATED", **COPIED))
    kinds: dict[int, EventType] = {2: "PHASE_COMPLETED", 3: "PHASE_STARTED", 4: "PHASE_COMPLETED"}
    for number, type in kinds.items():
        spent.add(event(number, type, key="k", effect="ModelCall", outcome=outcome))
    spent.add(event(5, "PHASE_COMPLETED", key="k", effect="RunCommand", outcome={"costUsd": 7}))
    for again in (4, 5):  # counted already
        spent.add(event(again, "PHASE_COMPLETED", key="k", effect="ModelCall", outcome=outcome))
    assert (spent.calls, spent.usd, spent.unpriced) == (1, usd, unpriced)


@pytest.mark.parametrize(
    ("usage", "tokens", "context"),
    [
        ({"inputTokens": 3, "outputTokens": 4}, 7, 3),
        ({"inputTokens": 3, "outputTokens": 4, "totalTokens": 9}, 9, 3),  # thoughts may not be told apart
        ({"totalTokens": 9}, 9, 1),
        ({"outputTokens": 4}, 4, 1),
        ({"inputTokens": -3, "outputTokens": "4"}, 0, 1),
        (None, 0, 1),
    ],
)
def test_the_tokens_of_a_call_are_those_that_its_provider_told(usage: object, tokens: int, context: int) -> None:
    spent = Spending()
    for number, told in enumerate(({"inputTokens": 1}, usage), start=1):
        spent.add(event(number, "PHASE_COMPLETED", key="k", effect="ModelCall", outcome={"usage": told}))
    assert (spent.tokens, spent.context) == (1 + tokens, context)


def begun(number: int, key: str, type: EventType = "PHASE_STARTED", **more: object) -> Event:
    return event(number, type, key=key, effect="ChildRun", workflow="loop", childRunId=f"run of {key}", **more)


def test_child_runs_are_told_with_what_came_of_them() -> None:
    done = msgspec.to_builtins(CHILD)
    told = children(
        [
            event(1, "RUN_CREATED", **COPIED),
            begun(2, "copied"),
            begun(2, "copied", "PHASE_COMPLETED", outcome=done),
            *(begun(3, "open"), begun(4, "refused"), begun(5, "refused", "PHASE_FAILED")),
            *(begun(6, "done"), begun(7, "done", "PHASE_COMPLETED", outcome=done)),
            begun(8, "unknown", "PHASE_COMPLETED", outcome=done),
            event(9, "PHASE_STARTED", key="other", effect="RunCommand"),
        ]
    )
    assert [(one.key, one.run_id, one.status, one.kept, one.summed) for one in told] == [
        ("copied", "run of copied", "completed", True, True),
        ("open", "run of open", "open", False, False),
        ("done", "run of done", "completed", False, True),
    ]
    assert [one.account for one in told] == [Account(), Account(), Account(2, 0.5, 0, Tokens(7, 3))]
    older = BegunChild("k", "loop", "c", msgspec.structs.replace(CHILD, costUsd=None))
    assert not older.summed and older.account == Account()


def test_only_a_step_that_began_a_child_run_names_one() -> None:
    other = event(2, "PHASE_STARTED", key="other", effect="RunCommand")
    ended = begun(4, "k", "PHASE_COMPLETED", outcome=msgspec.to_builtins(CHILD))
    assert list(children_of([other, begun(3, "k"), ended])) == [("k", "loop", "run of k")]


def test_a_child_hands_up_its_own_sums_and_those_below_it(tmp_path: Path) -> None:
    below = msgspec.structs.replace(CHILD, unpriced=1, unanswered=2, uncounted=True, lostUsd=0.25)
    events = [event(1, "RUN_CREATED", workflow="loop", folder="sub"), begun(2, "k")]
    events.append(begun(3, "k", "PHASE_COMPLETED", outcome=msgspec.to_builtins(below)))
    result = summed(ChildResult("me", "failed", {"답": 1}, error="e"), RunFolder(tmp_path), events, tree_ms=1_500)
    kept = msgspec.structs.replace(below, childRunId="me", status="failed", result={"답": 1}, error="e", treeMs=1_500)
    assert result == kept


def test_changed_files_are_named_as_in_the_project_and_those_of_a_copy_are_not() -> None:
    file = {"path": "가.py", "sha256": "sha256:" + "0" * 64}
    outcome = {"before": [], "after": [file], "digest": "sha256:" + "1" * 64}
    applied = event(2, "PATCH_APPLIED", key="a", effect="ApplyPatch", outcome=outcome)
    for created, names in (({}, ["가.py"]), ({"folder": "sub"}, ["sub/가.py"]), ({"copy": "c", "folder": "s"}, [])):
        assert list(changed_paths([event(1, "RUN_CREATED", workflow="loop", **created), applied])) == names


def test_an_amount_says_that_it_is_not_all() -> None:
    assert [money(1.23456), money(0, 1)] == ["$1.2346", "$0.0000+?"]
