"""The sums of an audit: what is known, what is not, and what may have been paid twice."""

from __future__ import annotations

import msgspec

from orchestra.cli.audit import notes, times_paid, total, usd
from orchestra.core.calls import PastCall

RAW = {"path": "artifacts/x.raw.txt", "bytes": 1, "sha256": "sha256:" + "0" * 64}


ONCE_MORE = "the claude CLI asks once more by itself after a status 400 or 404, which no service bills"


def call(**more: object) -> PastCall:
    return msgspec.convert({"key": "k", "role": "planner", "raw": RAW, **more}, PastCall)


USED = {"inputTokens": 10, "outputTokens": 4, "cacheReadTokens": 3, "cacheWriteTokens": 2}
PAID = call(usage=USED, costUsd=0.25, requests=2)
FREE = call(usage={"inputTokens": 1}, costUsd=0)
UNKNOWN = call(costUsd=None)
AGAIN = call(costUsd=0.5, asked=3, lostUsd=0.125)


def test_what_is_not_known_is_marked_and_not_summed_as_nothing() -> None:
    shown = [usd([]), usd([PAID, FREE]), usd([PAID, UNKNOWN]), usd([FREE, UNKNOWN]), usd([UNKNOWN])]
    assert shown == ["0.0000", "0.2500", "0.2500+?", "?", "?"]
    assert total([PAID, FREE]) == {
        "calls": 2,
        "requests": 3,
        "inputTokens": 11,
        "cacheReadTokens": 3,
        "cacheWriteTokens": 2,
        "outputTokens": 4,
        "costUsd": 0.25,
        "knownCostUsd": 0.25,
        "askedAgain": 0,
        "lostUsd": 0,
    }
    sums = total([PAID, UNKNOWN, AGAIN])
    assert (sums["costUsd"], sums["knownCostUsd"], sums["requests"]) == (None, 0.75, 6)
    assert (sums["askedAgain"], sums["lostUsd"]) == (1, 0.125)
    assert total([AGAIN, call(asked=2)])["lostUsd"] is None


FAILED = {"code": "TIMEOUT", "message": "m", "retriable": False}


def test_each_call_says_how_often_it_may_have_been_paid() -> None:
    calls = [PAID, call(raw=None), AGAIN, call(asked=2), call(kept=True, raw=None), call(error=FAILED)]
    words = ["once", "possibly once", "possibly 3 times", "possibly twice", "kept", "failed (TIMEOUT)"]
    assert [times_paid(one) for one in calls] == words


def test_the_marks_of_the_table_are_explained_where_they_stand() -> None:
    assert list(notes([PAID, FREE])) == ["k made 2 requests: " + ONCE_MORE]
    assert list(notes([FREE, call(kept=True, raw=None, costUsd=None, asked=2)])) == [
        "1 call kept from the run that this one was forked from, which paid: in no sum"
    ]
    said = list(notes([call(usage={"estimated": True}, costUsd=None, model="작은"), call(raw=None)]))
    assert [line[:20] for line in said] == ["~ estimated by orche", "? no price is known ", "? no reply is record"]
    assert "for 작은," in said[1] and "of 1 call:" in said[2]
    [again] = notes([AGAIN, call(asked=3, costUsd=0.5, lostUsd=0.5)])
    assert "2 calls may have been paid 3 times" in again and "cost $0.6250 at most" in again
    [unlike] = notes([AGAIN, call(asked=2, costUsd=0.5)])
    assert "more than once" in unlike and "Nobody knows" in unlike and "besides $0.1250 at most for some" in unlike
