"""The bounds of a journal's lines, to the last byte: what is read, kept in memory, cut for views or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestra.core.errors import JournalCorrupt
from orchestra.core.lines import (
    MOST_COST,
    MOST_EVENTS,
    MOST_FOREIGN,
    MOST_HELD,
    MOST_LINE,
    VIEWED,
    Allowance,
    lines,
    objects,
    too_long,
    viewed,
    weight,
)
from orchestra.core.records import Event, EventType

PART = 16_384  # bytes of a value that a view has whole


def event(type: EventType, **payload: Any) -> Event:
    return Event("1", "r", "2026-01-01T00:00:00Z", type, payload)


def weighing(cost: int) -> bytes:
    """A line of this weight."""
    each = weight(b"{" * 100_000) // 100_000
    line = b"{" * (cost // each) + b"x" * (cost % each)
    assert weight(line) == cost
    return line


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"x" * 65_536, ""),
        (b"x" * MOST_LINE, ""),
        (b"x" * (MOST_LINE + 1), "it has 28 MiB, and no line has more than 28 MiB"),
        (weighing(MOST_COST), ""),
        (weighing(MOST_COST + 1), "it would take 144 MiB to read, and none takes more than 144 MiB"),
    ],
    ids=["short", "long", "too long", "heavy", "too heavy"],
)
def test_a_line_may_be_so_long_and_so_heavy(line: bytes, why: str) -> None:
    assert too_long(line) == why


def test_a_longer_line_is_not_read_and_a_journal_has_only_so_many(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    path.write_bytes(b"x" * (MOST_LINE - 1) + b"\n" + b"y" * MOST_LINE + b"\n")
    with path.open("rb") as file:
        read = lines(file.fileno(), str(path), number=MOST_EVENTS - 2)
        assert len(next(read)) == MOST_LINE
        with pytest.raises(JournalCorrupt, match="more than 28 MiB"):
            next(read)
    path.write_bytes(b"a\nb\nc")
    with path.open("rb") as file:
        read = lines(file.fileno(), str(path), number=MOST_EVENTS - 2)
        assert [next(read), next(read)] == [b"a\n", b"b\n"]
        with pytest.raises(JournalCorrupt, match="has more than 150,000 lines"):
            next(read)


@pytest.mark.parametrize(
    ("kind", "payload", "most", "why"),
    [
        ("PHASE_COMPLETED", {}, MOST_FOREIGN, "with it the journal would take more than 1 GiB to read"),
        ("QUESTION_RAISED", {}, MOST_HELD, "with it the run would wait for more people and child runs"),
        ("PHASE_STARTED", {"childRunId": "c"}, MOST_HELD, "with it the run would wait for more people and child runs"),
    ],
)
def test_foreign_lines_may_take_so_much_memory_together(
    kind: EventType, payload: dict[str, Any], most: int, why: str
) -> None:
    allowance, heavy = Allowance(), weighing(VIEWED)
    for _ in range(most // VIEWED - 1):
        assert allowance.spend(heavy, event(kind, **payload)) == ""
    assert allowance.spend(weighing(VIEWED + most % VIEWED), event(kind, **payload)) == ""  # now it is used up
    assert allowance.spend(b"", event("PHASE_COMPLETED")) == ""
    assert allowance.spend(b"x", event(kind, **payload)).startswith(why)


@pytest.mark.parametrize(("length", "whole"), [(PART, True), (PART + 1, False)])
def test_a_view_has_a_value_whole_up_to_so_many_bytes(length: int, whole: bool) -> None:
    goal = "x" * (length - 2)  # in quotes
    record = {
        "id": "1",
        "runId": "r",
        "ts": "2026-01-01T00:00:00Z",
        "type": "RUN_CREATED",
        "payload": {"workflow": "loop", "goal": goal, "more": "{" * (VIEWED // objects(b"{") + 1)},
    }
    shown = viewed(json.dumps(record).encode() + b"\n", "events.ndjson", 1).payload
    assert shown["abridged"] is True and (shown["goal"] == goal) is whole
    assert whole or (shown["goal"].startswith("x" * 3_900) and shown["goal"].endswith("… (16 KiB in all)"))
