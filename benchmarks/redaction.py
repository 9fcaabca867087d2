"""11. Redaction of a stream: 64 KiB pieces of a test log, clean and with a secret in every twentieth line."""

from __future__ import annotations

import time

from measure import Row, Timed, interleaved

from orchestra.core.redact import Redactor

ROUNDS, PIECES, LEAST_MB_S = 7, 128, 20
_LOG = (
    b"2026-01-01T00:00:00Z INFO  src/total.py:42 computed 17 totals in 3.4 ms (cache hit)\n"
    b"tests/test_total.py::test_discount FAILED   [ 42%]\n"
    b"E       assert total(cart, discount=0.1) == Decimal('90.00')\n"
    b"config: {'host': 'localhost', 'port': 5432, 'user': 'app', 'token_limit': 4096}\n"
)
_LEAKY = _LOG * 5 + b"DEBUG headers: {'Authorization': 'Bearer %s'}\n" % (b"abcdefgh12345678" * 3)


def bench() -> list[Row]:
    clean, leaky = _piece(_LOG), _piece(_LEAKY)
    times = interleaved(ROUNDS, _masked(clean), _masked(leaky), _copied(clean))
    rates = [PIECES * len(clean) / 1e6 / times.median(side) for side in range(3)]
    least = f"{LEAST_MB_S} MB/s"
    return [
        Row("redaction, stream of a test log", _rate(rates[0]), least, rates[0] / LEAST_MB_S, 1.0, "at least"),
        Row("redaction, a secret in every 20th line", _rate(rates[1]), least, rates[1] / LEAST_MB_S, 1.0, "at least"),
        Row("  the first against copying", _rate(rates[0]), f"{_rate(rates[2])} copy", times.ratio(0, 2)),
    ]


def _piece(text: bytes) -> bytes:
    return (text * (65536 // len(text) + 1))[:65536]


def _rate(rate: float) -> str:
    return f"{rate:,.0f} MB/s"


def _masked(piece: bytes) -> Timed:
    redactor = Redactor(["a-known-value-of-this-process"])

    def once() -> float:
        stream = redactor.stream()
        start = time.perf_counter()
        for _ in range(PIECES):
            stream.feed(piece)
        stream.close()
        return time.perf_counter() - start

    return once


def _copied(piece: bytes) -> Timed:
    def once() -> float:
        start = time.perf_counter()
        for _ in range(PIECES):
            bytearray(piece)
        return time.perf_counter() - start

    return once
