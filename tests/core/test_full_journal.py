"""A journal as long as one may be: nothing more is begun, nothing is lost, it is read as ever, and the run can end."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestra.core.context import Context, Verdict
from orchestra.core.disk import Disk
from orchestra.core.errors import JournalCorrupt, JournalFull
from orchestra.core.files import MIB
from orchestra.core.journal import read_events, read_first, read_journal
from orchestra.core.ledger import Ledger
from orchestra.core.lines import MOST_BYTES, MOST_EVENTS, MOST_LINE
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from tests.core.test_engine import NOTHING, Order, asks, cancel, engine
from tests.support.core import KEY, OPEN_TABLE, SEAL, Doer, Say, new_ledger, open_ledger
from tests.support.hostile import RUN, created, line, written
from tests.support.inside import said

LONG = "x" * (4 * MIB)


class LazyDisk(Disk):
    """Never syncs: a journal is to be filled."""

    def sync(self, fd: int) -> None:
        pass


def begin(ledger: Ledger, text: str = LONG) -> Event:
    return ledger.record("PHASE_STARTED", {"key": f"step.{len(ledger.events)}", "text": text}, "plan", 1)


def begin_exactly(ledger: Ledger, size: int) -> Event:
    """Begin two more steps, so that the journal has exactly so many bytes; with one byte more it would be full."""
    before = ledger.folder.events.stat().st_size
    begin(ledger, "")
    room = size - ledger.folder.events.stat().st_size
    frame = size - room - before
    with pytest.raises(JournalFull):
        begin(ledger, "x" * (room - frame + 1))
    last = begin(ledger, "x" * (room - frame))
    assert ledger.folder.events.stat().st_size == size
    return last


def fill(ledger: Ledger, text: str = LONG) -> JournalFull:
    """Begin step after step until nothing more may be begun."""
    while True:
        try:
            begin(ledger, text)
        except JournalFull as full:
            return full


@pytest.mark.parametrize("text", [LONG, ""], ids=["bytes", "events"])
def test_nothing_more_is_begun_and_what_was_begun_and_the_run_can_still_end(tmp_path: Path, text: str) -> None:
    ledger = open_ledger(tmp_path / RUN, disk=LazyDisk())
    full = fill(ledger, text)
    last = ledger.events[-1]
    path = ledger.folder.events
    assert str(path) in str(full) and "128 MiB and 150,000 events are the most" in str(full)
    assert f"orchestra report {RUN}" in str(full) and f"orchestra fork {RUN} --at EVENT" in str(full)
    if text:
        last = begin_exactly(ledger, MOST_BYTES - 10 * MIB)
    else:
        assert len(ledger.events) == MOST_EVENTS - 1000
    assert read_journal(path, SEAL, keep=False).events[-1].id == last.id  # what fitted is there, what did not is not
    ledger.record("PHASE_COMPLETED", {"key": last.payload["key"], "outcome": {}}, "plan", 1)
    ledger.close()

    ledger = open_ledger(tmp_path / RUN, disk=LazyDisk())  # another life: the same
    assert fill(ledger, text) is not None
    ledger.record("RUN_CANCELED", {"exitCode": 1})
    ledger.close()
    reading = read_journal(path, SEAL, keep=False)
    assert (reading.chain.foreign, reading.events[-1].type) == (0, "RUN_CANCELED")
    assert len(reading.events) == len(ledger.events) == len(read_events(path))


def test_however_much_comes_of_what_was_begun_the_run_can_end(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / RUN, disk=LazyDisk())
    fill(ledger)
    with pytest.raises(JournalFull):
        for number in itertools.count():
            ledger.record("PHASE_COMPLETED", {"key": f"step.{number}", "outcome": {"text": LONG}}, "plan", 1)
    assert ledger.folder.events.stat().st_size > MOST_BYTES - 2 * MIB - len(LONG) - 1000
    ledger.record("RUN_FAILED", {"exitCode": 1, "error": {"code": "X", "message": "x" * MIB}})
    ledger.close()
    assert ledger.folder.events.stat().st_size <= MOST_BYTES
    assert read_journal(ledger.folder.events, SEAL).events[-1].type == "RUN_FAILED"


@pytest.mark.parametrize(
    ("payload", "why"),
    [({"text": "x" * MOST_LINE}, "no line has more than 28 MiB"), ({"more": [[]] * MIB}, "to read, and none takes")],
    ids=["long", "heavy"],
)
def test_an_event_that_could_not_be_read_again_is_not_written(
    tmp_path: Path, payload: dict[str, object], why: str
) -> None:
    ledger = open_ledger(tmp_path / RUN)
    with pytest.raises(JournalFull, match=why):
        ledger.record("PHASE_STARTED", payload, "plan", 1)
    begin(ledger, "")
    ledger.close()
    assert [event.type for event in read_events(ledger.folder.events)] == ["RUN_CREATED", "PHASE_STARTED"]


def test_a_run_that_reaches_the_limit_fails_with_one_sentence_and_all_it_did_is_recorded(tmp_path: Path) -> None:
    doer = Doer()

    async def goes_on(ctx: Context, order: Order) -> Verdict:
        for number in itertools.count():
            await ctx.perform("say", Say(f"{number}{LONG}"))
        raise AssertionError

    one = engine(tmp_path, disk=LazyDisk(), handlers={Say: doer}, open=goes_on)
    folder = one.start("open", "가득", NOTHING)
    end = asyncio.run(one.drive(folder))
    assert (end.status, end.exit_code) == ("failed", 1)
    *_, before, last = read_events(folder.events)
    assert last.payload["error"]["code"] == "JOURNAL_FULL"
    assert "nothing more is begun" in last.payload["error"]["message"]
    assert before.payload["key"] == doer.done[-1] and "outcome" in before.payload
    assert len([e for e in read_journal(folder.events).events if "outcome" in e.payload]) == len(doer.done)


def test_a_run_at_its_limit_that_nobody_drives_can_be_canceled(tmp_path: Path) -> None:
    one = engine(tmp_path, asks=asks)
    folder = one.start("asks", "이름", NOTHING)
    assert asyncio.run(one.drive(folder)).exit_code == 3
    ledger = new_ledger(folder, OPEN_TABLE, disk=LazyDisk())
    ledger.open()
    fill(ledger)
    ledger.close()
    cancel(folder)
    end = asyncio.run(one.cancel(folder))
    assert end is not None and end.status == "canceled"
    assert read_events(folder.events)[-1].type == "RUN_CANCELED"


def test_every_view_shows_a_run_at_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTRA_KEY", KEY)
    folder = tmp_path / ".runs" / "workflows" / RUN
    folder.mkdir(parents=True)
    ledger = new_ledger(RunFolder(folder), OPEN_TABLE, disk=LazyDisk())
    ledger.open()
    ledger.record("RUN_CREATED", created()["payload"])
    fill(ledger)
    ledger.close()
    assert "stopped" in said(tmp_path, "runs").out
    for view in ("show", "logs", "verify"):
        done = said(tmp_path, view, RUN)
        assert done.code in (0, 1) and "damaged" not in done.out + done.err, (view, done)
        assert "foreign" not in done.out, (view, done)


@pytest.mark.parametrize("read", [read_journal, read_events])
def test_a_journal_of_more_lines_than_any_has_is_not_read_to_its_end(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    path = written(tmp_path / "events.ndjson", created())
    with path.open("ab") as file:
        file.write(
            b'{"id":"2","runId":"r","ts":"2026-01-01T00:00:00Z","type":"PHASE_STARTED","payload":{}}\n' * MOST_EVENTS
        )
    with pytest.raises(JournalCorrupt, match=r"events.ndjson has more than 150,000 lines"):
        read(path)
    first = read_first(path)
    assert first is not None and first.type == "RUN_CREATED"


def test_lines_that_are_small_as_text_and_together_huge_as_objects_are_not_read_to_their_end(tmp_path: Path) -> None:
    path = written(tmp_path / "events.ndjson", created())
    heavy = written(tmp_path / "heavy", line(2, "PHASE_STARTED", {"more": [{}] * 10_000}))
    with path.open("ab") as file:
        file.write(heavy.read_bytes() * 1_000)
    with pytest.raises(JournalCorrupt, match="with it the journal would take more than 1 GiB to read"):
        read_journal(path, SEAL, keep=False)


def test_an_event_without_an_id_hides_nothing_after_it(tmp_path: Path) -> None:
    bare = {**line(2, "PHASE_STARTED", {}), "id": ""}
    path = written(tmp_path / "events.ndjson", created(), bare, line(3, "PHASE_STARTED", {}))
    assert len(read_journal(path).events) == len(read_events(path)) == 3


@pytest.mark.parametrize("time", ["yesterday", "2026-01-01 00:00:00", "2026-01-01T00:00:00Z\n"])
def test_a_time_that_is_none_is_damage_in_a_line_of_anybody_s(tmp_path: Path, time: str) -> None:
    path = written(tmp_path / "events.ndjson", created(), {**line(2, "PHASE_STARTED", {}), "ts": time})
    for read in (read_journal, read_events, lambda path: read_journal(path, SEAL)):
        with pytest.raises(JournalCorrupt, match="line 2 is damaged"):
            read(path)
