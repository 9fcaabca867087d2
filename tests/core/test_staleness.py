"""What is stale is told with the way to it, and what a new run keeps."""

from __future__ import annotations

from typing import Any

import pytest

from orchestra.core.records import Event, EventType
from orchestra.core.staleness import FinishedChild, Stale, finished_children, kept_beside
from orchestra.core.tables import Fold


def event(number: int, type: EventType, **payload: Any) -> Event:
    return Event(f"{number:08}", "run", "2026-01-01T00:00:00.000Z", type, phase="execute", iteration=1, payload=payload)


def test_what_is_stale_is_told_with_the_keys_that_lead_to_it() -> None:
    stale = Stale(("a.md was edited",), {"build.1": Stale((), {"part.1": Stale(("b.md is gone",))})})
    assert list(stale.lines()) == ["a.md was edited", "build.1: part.1: b.md is gone"]
    assert list(stale.paths()) == [("build.1",), ("build.1", "part.1")]
    assert stale and not Stale()


def test_only_child_runs_that_completed_are_looked_at() -> None:
    child = {"effect": "ChildRun", "intent": "sha256:1"}
    events = [
        event(1, "RUN_CREATED"),
        event(2, "PHASE_STARTED", key="done.1", workflow="loop", childRunId="c1", **child),
        event(3, "PHASE_COMPLETED", key="done.1", outcome={"status": "completed"}, **child),
        event(4, "PHASE_STARTED", key="failed.1", workflow="loop", childRunId="c2", **child),
        event(5, "PHASE_FAILED", key="failed.1", error={"code": "X", "message": "m"}, **child),
        event(6, "PHASE_STARTED", key="open.1", workflow="loop", childRunId="c3", **child),
    ]
    assert finished_children(events, Fold.of(events).newest) == [FinishedChild("done.1", "loop", "c1")]


@pytest.mark.parametrize(
    ("redone", "reached", "kept"),
    [
        ((), (), ["", "design@1.1", "design@1/a.1"]),
        (("b.1",), (), ["", "design@1.1", "design@1/a.1"]),  # nothing of the edition is done again
        (("design@1/b.1",), (), ["", "design@1.1"]),
        (("design@1/b.1",), ("last.1",), ["", "design@1.1", "last.1"]),
    ],
)
def test_steps_below_an_edition_are_kept_unless_it_is_done_again(
    redone: tuple[str, ...], reached: tuple[str, ...], kept: list[str]
) -> None:
    events = [
        event(1, "RUN_CREATED"),
        event(2, "PHASE_COMPLETED", key="design@1.1", effect="Edition", outcome={"inputs": {}}),
        event(3, "PHASE_COMPLETED", key="design@1/a.1", effect="Say", outcome={}),
        event(4, "PHASE_COMPLETED", key="last.1", effect="Say", outcome={}),
    ]
    found = kept_beside(events, redone, reached, Fold.of(events).newest)
    assert [one.payload.get("key", "") for one in found] == kept
