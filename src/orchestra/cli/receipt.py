"""Receipts as lines for people: what a call was shown of the workspace and of its conversation, and what not."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UnsetType

from orchestra.cli.text import safe
from orchestra.core.cells import table
from orchestra.core.shown import Conversation, LeftOut, Omitted, Piece, Receipt, Shown, ranges, spoken
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


# -- conversations ----------------------------------------------------------------------------------------------------


def conversation_lines(told: Conversation) -> Iterator[str]:
    """What a call was told of its conversation, a line for each message and piece of evidence; what was left out."""
    said, found = count(len(told.messages), "message"), count(len(told.evidence), "piece")
    yield f"conversation: {said}, {found} of evidence, about {told.tokens} tokens in all"
    rows = [(f"message {number}", *_sizes(one)) for number, one in enumerate(told.messages, start=1)]
    rows += [(f"evidence, step {one.step}", *_sizes(one)) for one in told.evidence]
    if rows:
        yield from table(("what", "tokens (about)", "characters", "name"), rows, whole=True)
    yield from (safe(f"left out: {_omitted(one)}") for one in told.leftOut)


def _sizes(piece: Piece) -> tuple[str, str, str]:
    size = str(piece.total) if piece.shown == piece.total else f"{piece.shown} of {piece.total}"
    return str(piece.tokens), size, safe(piece.name)


def _omitted(one: Omitted) -> str:
    name = f"evidence of step {one.step}, {one.name}" if one.step else one.name
    times = f", {count(one.count, 'message')}" if one.count and not one.step else ""
    return f"{name}{times}, about {one.tokens} tokens ({one.why})"
