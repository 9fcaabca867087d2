"""`orchestra audit`: the model calls of a tree of runs; and each one's prompt, for `orchestra show RUN --prompt KEY`.

Rules
1. A call of a child run is named by the keys that lead to it: `implement.1/plan.1`.
2. Calls that a fork or a retry kept were paid by another run. They are listed, and are in no total.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from msgspec import UnsetType

from orchestra.app import App
from orchestra.cli import options, which
from orchestra.cli.receipt import conversation_lines, receipt_lines
from orchestra.cli.text import echo_lines, print_json, safe
from orchestra.core.calls import PastCall, past_calls
from orchestra.core.cells import Rows, aligned, table
from orchestra.core.errors import UsageError
from orchestra.core.files import MIB
from orchestra.core.model import ProviderRequest
from orchestra.core.reading import StepEvent, key_of
from orchestra.core.run import RunFolder
from orchestra.core.sent import prompt_of, recorded_for
from orchestra.core.text import count, some
from orchestra.providers.prompting import token_counts
from orchestra.runs.find import Member
from orchestra.workflows.bill import often

_MOST_PROMPT = 32 * MIB
_HEADER = ("key", "role", "provider", "in", "cached", "out", "USD", "paid")


class _Call(NamedTuple):
    """A call of a tree: of which run, and under which name."""

    run_id: str
    name: str
    call: PastCall


@click.command()
@options.run_or_default
@options.own
@options.as_json
@options.project
def audit(run: str | None, own: bool, as_json: bool, project: Path) -> int:
    """Every model call of RUN and its child runs: key, role, tokens, cost, billed twice or not; totals."""
    app = App(project)
    made = [
        _Call(member.folder.id, "/".join((*member.path, call.key)), call)
        for member in app.trees.members(which.to_look_at(app, run), own=own)
        for call in app.trees.calls(member)
    ]
    paid = [one.call for one in made if not one.call.kept]
    roles = {role: [call for call in paid if call.role == role] for role in dict.fromkeys(call.role for call in paid)}
    if as_json:
        for one in made:
            print_json(
                {"type": "call", "runId": one.run_id, **msgspec.to_builtins(one.call), "paid": times_paid(one.call)}
            )
        for role, theirs in roles.items():
            print_json({"type": "role", "role": role, **total(theirs)})
        print_json({"type": "total", **total(paid)})
        return 0
    echo_lines(aligned(_HEADER, Rows(partial(_rows, made, paid, roles))))
    echo_lines(notes(paid))
    if kept := [one for one in made if one.call.kept]:
        click.echo(f"{count(len(kept), 'call')} kept of an earlier run: paid there, and in no total here")
    return 0


def _rows(made: list[_Call], paid: list[PastCall], roles: dict[str, list[PastCall]]) -> Iterator[tuple[str, ...]]:
    yield from (_row(one.name, one.call.role, _provider(one.call), [one.call], times_paid(one.call)) for one in made)
    if len(roles) > 1:
        yield from (_row("", role, _calls(theirs), theirs) for role, theirs in roles.items())
    yield _row("total", "", _calls(paid), paid)


def notes(calls: list[PastCall]) -> Iterable[str]:
    """What the marks in the table mean."""
    if kept := [call for call in calls if call.kept]:
        yield f"{_calls(kept)} kept from the run that this one was forked from, which paid: in no sum"
    calls = [call for call in calls if not call.kept]
    if any(call.usage.estimated for call in calls):
        yield "~ estimated by orchestra: the provider did not report it"
    if unknown := dict.fromkeys(call.model or _provider(call) for call in calls if call.raw and call.costUsd is None):
        yield f"? no price is known for {safe(', '.join(unknown))}, so the sum is incomplete (add budget.prices)"
    if open_calls := [call for call in calls if call.raw is None]:
        yield f"? no reply is recorded of {_calls(open_calls)}: the cost is not known, so the sum is incomplete"
    if again := [call for call in calls if call.asked > 1]:
        times = often(again[0].asked) if len({call.asked for call in again}) == 1 else "more than once"
        why = "orchestra was killed or stopped while the reply was on its way, and asked again"
        yield f"{_calls(again)} may have been paid {times}: {why}. {_lost(again)}"
    if several := [call for call in calls if call.requests > 1]:
        made = ", ".join(f"{safe(call.key)} made {call.requests} requests" for call in several)
        yield f"{made}: the claude CLI asks once more by itself after a status 400 or 404, which no service bills"


def _lost(again: list[PastCall]) -> str:
    """The cost of replies that never arrived, as text."""
    known = sum(call.lostUsd or 0.0 for call in again)
    if any(call.lostUsd is None for call in again):
        more = f", besides ${known:.4f} at most for some" if known else ""
        return f"Nobody knows what the replies cost that never arrived{more}."
    return f"The replies that never arrived cost ${known:.4f} at most, which is not in the sum; a budget counts it."


def reply_lines(app: App, folder: RunFolder, key: str) -> Iterable[str]:
    """The reply of one call of a tree, as it came; secrets are masked."""
    member, call = _call(app, folder, key)
    if call.raw is None:
        raise UsageError(f"{key} got no reply ({call.status}); why: orchestra logs {folder.id}")
    text = member.folder.recorded(call.raw, _MOST_PROMPT).decode("utf-8", "replace")
    return safe(app.project.redactor.text(text)).splitlines()


def _call(app: App, folder: RunFolder, key: str) -> tuple[Member, PastCall]:
    """A call of a tree by its key; UsageError, with the keys, if there is none of this key."""
    calls = {
        "/".join((*member.path, call.key)): (member, call)
        for member in app.runs.members(folder)
        for call in past_calls(member.summary.events)
    }
    if key not in calls:
        known = some(list(calls)) if calls else "none"
        raise UsageError(f"run {folder.id} has no model call {key!r}; its calls: {known}")
    return calls[key]


def prompt_lines(app: App, folder: RunFolder, key: str) -> Iterable[str]:
    """The exact prompt of one call of a tree, and the artifacts in it with their tokens."""
    member, call = _call(app, folder, key)
    folder = member.folder
    name = str(prompt_of(folder, call).relative_to(folder.path))
    try:
        request = msgspec.json.decode(folder.read(name, _MOST_PROMPT), type=ProviderRequest)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"the prompt of {key} cannot be read from {folder.path / name}: {error}") from error
    yield f"{safe(key)}: {request.role} ({request.phase}, iteration {request.iteration}), {_provider(call)}"
    parts = token_counts(request)
    rows = [(safe(name), str(tokens), str(size)) for name, tokens, size in parts]
    rows.append(("total", str(sum(tokens for _, tokens, _ in parts)), str(sum(size for _, _, size in parts))))
    yield from table(("what went in", "tokens (about)", "characters"), rows)
    sent = recorded_for(folder.path / name, call.key)
    if sent is not None and sent.receipt is not None:
        yield from ("", "# context", "", *receipt_lines(sent.receipt))
    begun = [event for event in member.summary.events if event.type == "PHASE_STARTED" and key_of(event) == call.key]
    if begun and (told := StepEvent.of(begun[-1]).conversation):
        yield from ("", "# conversation", "", *conversation_lines(told))
    yield from ("", "# system", "", *safe(request.prompt.system).splitlines())
    for number, message in enumerate(request.history, start=1):
        yield from ("", f"# message {number} ({message.role})", "", *safe(message.content).splitlines())
    for artifact in request.contextArtifacts:
        yield from ("", f"# {safe(artifact.name)}", "", *safe(artifact.content).splitlines())
    yield from ("", "# user", "", *safe(request.prompt.user).splitlines())


def _row(key: str, role: str, provider: str, calls: list[PastCall], paid: str = "") -> tuple[str, ...]:
    sums = total(calls)
    mark = "~" if any(call.usage.estimated for call in calls) else ""
    return (
        safe(key),
        safe(role),
        provider,
        f"{mark}{sums['inputTokens']}",
        str(sums["cacheReadTokens"] or "-"),
        f"{mark}{sums['outputTokens']}",
        usd(calls),
        paid,
    )


def usd(calls: list[PastCall]) -> str:
    """The known cost of the calls, as text."""
    known = [call.costUsd for call in calls if call.costUsd is not None]
    if len(known) == len(calls):
        return f"{sum(known):.4f}"
    return f"{sum(known):.4f}+?" if any(known) else "?"


def _provider(call: PastCall) -> str:
    return safe(f"{call.provider.partition(':')[0]} {call.model}".strip()) or "-"


def _calls(calls: list[PastCall]) -> str:
    return count(len(calls), "call")


def times_paid(call: PastCall) -> str:
    """How often a call may have been paid, or how it failed."""
    if call.kept:
        return "kept"
    if call.raw is None or call.asked > 1:
        return f"possibly {often(call.asked)}"
    return "once" if call.error is None else f"failed ({call.error.code})"


def total(calls: list[PastCall]) -> dict[str, Any]:
    """The sums of all calls. `costUsd` is null if the cost of a call is unknown; `knownCostUsd` sums the known costs.

    `lostUsd` is the most that replies which never arrived cost in addition; null if that is unknown for one of them.
    """
    known = [call.costUsd for call in calls if call.costUsd is not None]
    lost = [call.lostUsd for call in calls if call.asked > 1]
    return {
        "calls": len(calls),
        "requests": sum(call.requests + call.asked - 1 for call in calls),
        "inputTokens": sum(_tokens(c.usage.inputTokens) for c in calls),
        "cacheReadTokens": sum(_tokens(c.usage.cacheReadTokens) for c in calls),
        "cacheWriteTokens": sum(_tokens(c.usage.cacheWriteTokens) for c in calls),
        "outputTokens": sum(_tokens(c.usage.outputTokens) for c in calls),
        "costUsd": sum(known) if len(known) == len(calls) else None,
        "knownCostUsd": sum(known),
        "askedAgain": len(lost),
        "lostUsd": None if None in lost else sum(usd or 0.0 for usd in lost),
    }


def _tokens(value: int | UnsetType) -> int:
    return 0 if isinstance(value, UnsetType) else value
