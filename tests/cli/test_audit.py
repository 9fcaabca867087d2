"""The sums of an audit: what is known, what is not, and what may have been paid twice."""

from __future__ import annotations

import msgspec

from orchestra.cli.audit import total, usd
from orchestra.core.calls import PastCall

RAW = {"path": "artifacts/x.raw.txt", "bytes": 1, "sha256": "sha256:" + "0" * 64}


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
