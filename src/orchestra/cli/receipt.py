"""A receipt as lines for people: what a call was shown of the workspace, why, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UnsetType

from orchestra.cli.text import safe
from orchestra.core.cells import table
from orchestra.core.shown import LeftOut, Receipt, Shown, ranges, spoken
from orchestra.core.text import count

_HEADER = ("how", "tokens (about)", "score", "file", "lines", "why")
_ALL = 1_000_000  # a receipt is read to see everything
_HOW = {"opened": "opened", "asked": "asked for", "named": "named", "found": "found"}


def receipt_lines(receipt: Receipt) -> Iterator[str]:
    """The whole receipt, one fact a line."""
    yield safe(receipt.line)
    if receipt.files:
        yield from table(_HEADER, [_row(file) for file in receipt.files], whole=True)
    if receipt.terms:
        yield safe("terms found: " + ", ".join(f"{term} ({count(n, 'file')})" for term, n in receipt.terms.items()))
    if receipt.notFound:
        yield safe("terms found nowhere: " + ", ".join(receipt.notFound))
    yield from (safe(f"did not fit: {_left(file)}") for file in receipt.leftOut)
    yield from (safe(f"refused: {what}") for what in receipt.refused)
    if receipt.rules:
        yield safe(f"rules of the project: {', '.join(receipt.rules)}")
    yield safe(f"method: {receipt.method}, {receipt.durationMs} ms")


def _row(file: Shown) -> tuple[str, ...]:
    lines = "all" if isinstance(file.lines, UnsetType) else ranges(file.lines, _ALL) or "none"
    score = f"{file.score:.2f}" if file.score else "-"
    return (_HOW[file.how], str(file.tokens), score, safe(file.path), lines, safe(file.reason))


def _left(file: LeftOut) -> str:
    return f"{file.path}{spoken(file.lines)} ({file.why})"
