"""The cost of model calls, as lines of a report: one table for every workflow. Pure.

Rules
1. An unknown cost is shown as `?`, and a sum with an unknown part is marked as incomplete.
2. A call that may have been paid more than once, or that made more than one request, is marked (D-05).
3. Names come from outside, also from servers: Markdown in them is escaped.
"""

from __future__ import annotations

from msgspec import UnsetType

from orchestra.core.calls import PastCall
from orchestra.core.text import cell, count


def headline(calls: list[PastCall]) -> str:
    """The total cost, in one line."""
    used = [number for call in calls for number in (call.usage.inputTokens, call.usage.outputTokens)]
    known = [number for number in used if not isinstance(number, UnsetType)]
    least = "at least " if len(known) < len(used) else ""
    return f"{count(len(calls), 'model call')}, {least}{sum(known)} tokens, {_total(calls)}"


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


def often(times: int) -> str:
    """A number of times, in words."""
    return {1: "once", 2: "twice"}.get(times, f"{times} times")


def _possibly(call: PastCall) -> str:
    if call.raw is None or call.asked > 1:
        return f" (possibly paid {often(call.asked)})"
    return f" ({call.requests} requests)" if call.requests > 1 else ""


def _total(calls: list[PastCall]) -> str:
    unknown = sum(call.raw is not None and call.costUsd is None for call in calls)
    without = sum(call.raw is None for call in calls)
    lost = sum(call.lostUsd or 0.0 for call in calls)
    more = [
        f"{count(unknown, 'call')} at an unknown price" if unknown else "",
        f"{count(without, 'call')} without a reply" if without else "",
        f"${lost:.4f} at most for replies that never arrived" if lost else "",
    ]
    return " and ".join([f"${sum(call.costUsd or 0.0 for call in calls):.4f}", *filter(None, more)])


def _usd(cost: float | None) -> str:
    return "?" if cost is None else f"${cost:.4f}"


def _number(value: int | UnsetType) -> str:
    return "?" if isinstance(value, UnsetType) else str(value)
