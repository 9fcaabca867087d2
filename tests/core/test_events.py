"""The events of a journal as views read them: the same whether in memory or in the file, and within bounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestra.core.errors import JournalCorrupt
from orchestra.core.events import Collector, Events
from orchestra.core.journal import FileFollower, read_events, read_first, read_journal
from orchestra.core.lines import MOST_LINE, VIEWED, viewed, weight
from orchestra.core.records import Event
from tests.support.hostile import REPLY, created, line, written

COUNT = 3_000  # more than between two offsets that are kept


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    steps = (line(number, "PHASE_STARTED", {"key": f"단계.{number}"}) for number in range(2, COUNT + 1))
    return written(tmp_path_factory.mktemp("run") / "events.ndjson", created(), *steps)


@pytest.fixture(params=["kept", "read again", "whole"])
def events(request: pytest.FixtureRequest, many: Path) -> Events:
    found = read_journal(many, keep=request.param == "kept").events
    return found.whole() if request.param == "whole" else found


def test_a_sequence_is_the_same_in_memory_and_from_the_file(events: Events, many: Path) -> None:
    listed = read_events(many)
    assert len(events) == COUNT
    assert list(events) == listed
    assert list(events) == listed  # a second time too
    places = (0, 1, 1023, 1024, 1025, 2048, COUNT - 1, -1, -COUNT)
    assert [events[place] for place in places] == [listed[place] for place in places]
    for part in (
        slice(5),
        slice(1020, 1030),
        slice(None, None, 700),
        slice(-3, None),
        slice(9, 3),
        slice(None, None, -1),
    ):
        assert events[part] == listed[part]
    for beyond in (COUNT, -COUNT - 1):
        with pytest.raises(IndexError):
            events[beyond]


def test_what_is_appended_later_is_not_among_them(tmp_path: Path) -> None:
    path = written(tmp_path / "events.ndjson", created(), line(2, "PHASE_STARTED", {}))
    events = read_journal(path, keep=False).events
    with path.open("ab") as file:
        file.write(json.dumps(line(3, "PHASE_STARTED", {})).encode() + b"\n")
    assert [event.id for event in events] == ["00000001", "00000002"]
    assert events[-1].id == "00000002"


def test_each_is_told_every_event_on_the_way_and_until_ends_it(many: Path) -> None:
    told: list[Event] = []
    events = read_journal(many, until="00001500", each=told.append, keep=False).events
    assert len(told) == len(events) == 1500
    assert events[-1] == told[-1]


def test_a_long_text_is_cut_for_views_and_whole_for_who_needs_it(tmp_path: Path) -> None:
    goal = "가나다 \\ \U0001f600" * 600_000
    path = written(tmp_path / "events.ndjson", created(goal=goal))
    assert weight(path.read_bytes()) > VIEWED
    [shown] = read_journal(path).events
    assert shown.payload["goal"].startswith("가나다 \\ \U0001f600가나다")
    assert shown.payload["goal"].endswith("MiB in all)")
    assert len(shown.payload["goal"]) < 5_000
    assert shown.payload["abridged"] and shown.payload["workflow"] == "loop"
    assert read_first(path) == shown == next(FileFollower(path).new())
    assert read_journal(path).events.whole()[0].payload["goal"] == read_events(path)[0].payload["goal"] == goal


@pytest.mark.parametrize("shift", range(14))
def test_a_text_is_not_cut_within_a_character(tmp_path: Path, shift: int) -> None:
    heavy = "{" * 150_000  # not shown by any view, and weighed as if it were objects
    for sign in ("\U0001f600", "\\", '"', "한"):
        goal = "x" * shift + sign * 10_000
        path = tmp_path / "events.ndjson"
        path.write_bytes(json.dumps(created(goal=goal, more=heavy)).encode() + b"\n")
        [event] = read_journal(path).events
        text, _, rest = event.payload["goal"].rpartition("… (")
        assert goal.startswith(text) and len(text) > 300
        assert rest.endswith("KiB in all)")


def test_a_long_error_and_a_long_result_do_not_make_a_run_unreadable(tmp_path: Path) -> None:
    error = {"code": "X", "message": "짧다", "stack": "깊다 " * 10_000}
    end = line(
        2, "RUN_FAILED", {"error": error, "result": {"more": ["x"] * 10_000}, "exitCode": 1, "more": "{" * 150_000}
    )
    shown = read_journal(written(tmp_path / "events.ndjson", created(), end)).events[1].payload
    assert shown["error"]["message"] == "짧다" and shown["error"]["stack"].startswith("깊다 깊다")
    assert (shown["result"], shown["exitCode"]) == ({}, 1)


def test_what_came_of_a_step_is_left_out_before_it_takes_too_much(tmp_path: Path) -> None:
    outcome = {**REPLY, "text": "답", "plan": {"tasks": [{}] * 200_000}}
    event = line(
        2, "PHASE_COMPLETED", {"key": "k", "effect": "AdoptPlan", "outcome": outcome}, phase="plan", iteration=1
    )
    shown = read_journal(written(tmp_path / "events.ndjson", created(), event)).events[1]
    assert shown.payload["outcome"]["text"] == "답"
    assert shown.payload["outcome"]["plan"] == {}
    assert (shown.phase, shown.iteration, shown.payload["key"]) == ("plan", 1, "k")


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (
            b'"params":{"policy":{"reads":[' + b'"",' * 700_000 + b'""]}}',
            "its policy has",
        ),  # it may not seem to ask for less
        (b'"models":{"roles":{' + b'"a":{},' * 200_000 + b'"b":0}}', "its models has"),
        (b'"goal":' + b"[" * 700_000, ""),
    ],
)
def test_of_what_a_run_asked_for_nothing_but_text_is_cut(tmp_path: Path, payload: bytes, why: str) -> None:
    path = tmp_path / "events.ndjson"
    head = b'{"id":"1","runId":"r","ts":"2026-01-01T00:00:00Z","type":"RUN_CREATED","payload":{"workflow":"loop",'
    path.write_bytes(head + payload + b"}}\n")
    for read in (read_journal, read_first):
        with pytest.raises(JournalCorrupt, match=f"line 1 is damaged .*{why}"):
            read(path)


def test_a_line_that_never_ends_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = written(tmp_path / "events.ndjson", created())
    with path.open("r+b") as file:
        file.truncate(MOST_LINE * 4)
    for read in (read_journal, read_events):
        with pytest.raises(JournalCorrupt, match=r"line 2 is damaged \(it has more than 28 MiB"):
            read(path)


def test_an_event_that_is_small_as_text_and_huge_as_objects_is_refused_even_whole(tmp_path: Path) -> None:
    path = written(tmp_path / "events.ndjson", created())
    with path.open("ab") as file:
        file.write(b'{"payload":[' + b"{}," * 4_000_000 + b"{}]}\n")
    with pytest.raises(JournalCorrupt, match=r"line 2 is damaged \(it would take .* to read"):
        read_events(path)


def filled(size: int) -> bytes:
    """A line that takes so many bytes in memory, most of them of the text of its goal."""
    braces = size // 300  # weighed as if they were objects
    room = size - weight(json.dumps(created(goal="{" * braces)).encode() + b"\n")
    each = weight(b"{" * 100_000) // 100_000
    return json.dumps(created(goal="{" * (braces + room // each) + "x" * (room % each))).encode() + b"\n"


def test_the_longest_line_that_a_view_has_whole_and_the_most_that_is_kept_in_memory(tmp_path: Path) -> None:
    fits, long = filled(VIEWED), filled(VIEWED + 1)
    assert (weight(fits), weight(long)) == (VIEWED, VIEWED + 1)
    shown = viewed(fits, "events.ndjson", 1)
    assert "abridged" not in shown.payload and viewed(long, "events.ndjson", 1).payload["abridged"] is True
    kept, gone = (Collector(tmp_path / "is not read", keep=True) for _ in range(2))
    kept.take(fits, shown)
    gone.take(long, shown)
    assert list(kept.events) == [shown] == list(kept.events.whole())
    with pytest.raises(FileNotFoundError):
        list(gone.events)


@pytest.mark.parametrize(
    ("text", "each"),
    [("x", 1), ("\\n", 1), ("가", 2), ("\\uac00", 2), ("\\ud83d", 4), ("\\uD83D", 4), ("\U0001f600", 4)],
)
def test_a_long_line_weighs_as_much_as_its_widest_character(text: str, each: int) -> None:
    line = b"x" * 65_536 + text.encode()
    assert weight(line) == each * len(line)
    assert weight(line[-65_536:]) == 2 * 65_536  # a short one is not looked at so closely
    assert weight(b'{"a":[1,2],"b":{}}') == 2 * 18 + 2 * 240 + 90 + 2 * 60
