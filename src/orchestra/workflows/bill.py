"""The cost of model calls, as lines of a report: one table for every workflow. Pure.

Rules
1. An unknown cost is shown as `?`, and a sum with an unknown part is marked as incomplete.
2. A call that may have been paid more than once, or that made more than one request, is marked (D-05).
3. The total of a run is that of its whole tree. What child runs cost is in the outcomes of their steps. Calls that a
   fork kept were paid by the run it was forked from: they are marked, and in no sum.
4. Names come from outside, also from servers: Markdown in them is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UnsetType

from orchestra.core.accounts import Account, BegunChild, of_calls
from orchestra.core.calls import PastCall
from orchestra.core.text import cell, count


def headline(calls: Iterable[PastCall], below: Iterable[BegunChild] = ()) -> str:
    """The total cost of a run with the child runs `below` it, in one line."""
    own, children = of_calls(calls), list(below)
    sums = sum((told.account for told in children), own)
    least = "at least " if sums.uncounted else ""
    there = f" ({sums.calls - own.calls} in child runs)" if sums.calls > own.calls else ""
    said = f"{count(sums.calls, 'model call')}{there}, {least}{sums.tokens.input + sums.tokens.output} tokens"
    missing = sum(not told.summed and not told.kept for told in children)
    open_ones = f", without {count(missing, 'child run')} whose sums are not recorded" if missing else ""
    return f"{said}, {_total(sums)}{open_ones}"


def table(calls: list[PastCall]) -> list[str]:
    """The cost of each call, as a Markdown table."""
    return [
        "| step | who | provider | tokens in/out | cost | status |",
        "|---|---|---|---|---|---|",
        *(
            f"| {cell(call.key)} | {cell(call.agent or call.role)} "
            f"| {cell(call.provider.partition(':')[0] + ' ' + call.model)} "
            f"| {_number(call.usage.inputTokens)}/{_number(call.usage.outputTokens)} "
            f"| {_usd(call.costUsd)} | {call.status}{_possibly(call)} |"
            for call in calls
        ),
    ]


def of_child(told: BegunChild) -> str:
    """What one child run, with those below it, cost; empty if that is not recorded."""
    return f"{count(told.account.calls, 'call')}, {_total(told.account)}" if told.summed else ""


def often(times: int) -> str:
    """A number of times, in words."""
    return {1: "once", 2: "twice"}.get(times, f"{times} times")


def _possibly(call: PastCall) -> str:
    if call.kept:
        return " (kept)"
    if call.raw is None or call.asked > 1:
        return f" (possibly paid {often(call.asked)})"
    return f" ({call.requests} requests)" if call.requests > 1 else ""


def _total(sums: Account) -> str:
    more = [
        f"{count(sums.unpriced, 'call')} at an unknown price" if sums.unpriced else "",
        f"{count(sums.unanswered, 'call')} without a reply" if sums.unanswered else "",
        f"${sums.lostUsd:.4f} at most for replies that never arrived" if sums.lostUsd else "",
    ]
    return " and ".join([f"${sums.costUsd:.4f}", *filter(None, more)])


def _usd(cost: float | None) -> str:
    return "?" if cost is None else f"${cost:.4f}"


def _number(value: int | UnsetType) -> str:
    return "?" if isinstance(value, UnsetType) else str(value)
