"""`orchestra sent`: what a run and its child runs sent to models, to which server, in which call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from orchestra.app import App
from orchestra.cli import options, which
from orchestra.cli.text import print_json, safe
from orchestra.core.cells import table
from orchestra.core.model import Destination
from orchestra.core.sent import Dispatch, Part, dispatches, source_of
from orchestra.core.shown import ranges
from orchestra.core.text import count

_HEADER = ("  bytes", "of the file", "what")
_UNKNOWN = "?"


@click.command()
@options.run_or_default
@options.as_json
@options.project
def sent(run: str | None, as_json: bool, project: Path) -> int:
    """What RUN sent to models: every file with its bytes or lines, every note, to which server, in which call; totals.

    Requests that failed, were cut off or were made again are listed like the others, and so are those of child runs.
    Sizes are of what was sent, after secrets were masked; the marks that orchestra adds are not counted.
    """
    app = App(project)
    made: list[Dispatch] = []
    sources: list[str] = []
    for folder in app.runs.tree(which.to_look_at(app, run)):
        events = app.runs.summary(folder, keep=False).events
        made += dispatches(folder, events)
        sources += filter(None, [source_of(events)])
    if as_json:
        for record in _records(made):
            print_json(record)
        return 0
    for line in (*_lines(made), *(_fork_line(app, source) for source in sources)):
        click.echo(line)
    return 0


# -- for programs -----------------------------------------------------------------------------------------------------


def _records(made: list[Dispatch]) -> Iterator[dict[str, Any]]:
    """One record per call and part, then the sums."""
    for one in made:
        facts = {**_who(one), **_where(one.sent.to)}
        for part in one.sent.parts:
            what = {"kind": part.kind, "name": part.name, "start": part.start, "end": part.end, "bytes": part.bytes}
            lines = {"lines": part.lines} if part.lines else {}
            yield {"type": "part", **facts, **what, **lines}
        for withheld in one.sent.withheld:
            yield {"type": "withheld", **facts, "name": withheld.path, "why": withheld.why}
    for to, theirs in _by(made, lambda one: one.sent.to):
        yield {"type": "server", **_where(to), **_sums(theirs)}
    for name, parts in _by_file(made):
        servers = list(dict.fromkeys(one.sent.to.server for one, _ in parts))
        sizes = [part for _, part in parts]
        yield {"type": "file", "name": name, "requests": len(parts), "bytes": _size(sizes), "to": servers}
    yield {"type": "total", **_sums(made), "leaves": any(one.sent.to.leaves is not False for one in made)}


def _who(one: Dispatch) -> dict[str, Any]:
    call = one.call
    return {
        "runId": one.runId,
        "key": call.key,
        "request": one.number,
        "at": one.sent.at,
        "role": call.role,
        "agent": call.agent,
        "phase": call.phase,
        "status": call.status,
        "provider": one.sent.provider,
        "model": call.model or one.sent.model,
    }


def _where(to: Destination) -> dict[str, Any]:
    return {"server": to.server, "leaves": to.leaves}


def _sums(made: list[Dispatch]) -> dict[str, Any]:
    parts = [part for one in made for part in one.sent.parts]
    files = {part.name for part in parts if part.kind == "file"}
    return {"requests": len(made), "files": len(files), "bytes": _size(parts), "knownBytes": _known(parts)}


# -- for people -------------------------------------------------------------------------------------------------------


def _lines(made: list[Dispatch]) -> Iterator[str]:
    if not made:
        yield "no model was asked: nothing was sent"
        return
    parts = [part for one in made for part in one.sent.parts]
    header, *rows = table(_HEADER, [_row(part) for part in parts], whole=True)
    yield header
    left = iter(rows)
    for one in made:
        yield click.style(_heading(one, several=len({each.runId for each in made}) > 1), bold=True)
        yield from (next(left) for _ in one.sent.parts)
        if not one.sent.parts:
            yield "  ? what it held is not recorded"
    yield ""
    yield from _files(made)
    for to, theirs in _by(made, lambda one: one.sent.to):
        sums = _sums(theirs)
        files, requests = count(sums["files"], "file"), count(sums["requests"], "request")
        yield f"to {safe(to.server) or 'a server that was not recorded'}: {requests}, {files}, {_total(theirs)} bytes"
        yield f"  {_meaning(to)}"
    withheld = {str(one): None for sent in made for one in sent.sent.withheld}
    yield from (safe(line) for line in withheld)


def _heading(one: Dispatch, *, several: bool) -> str:
    """The heading of a request: its call, its run and its server."""
    call = one.call
    again = f", request {one.number}" if one.number > 1 else ""
    state = {"failed": ", failed", "open": ", no reply"}.get(call.status, "")
    role = call.role if call.agent in ("", call.role) else f"{call.role} ({call.agent})"
    target = f"{one.sent.to.server or one.sent.provider or _UNKNOWN} {call.model or one.sent.model}".rstrip()
    where = f"{one.runId} " if several else ""
    return safe(f"{where}{call.key}{again}{state}, {role}, to {target}")


def _row(part: Part) -> tuple[str, ...]:
    """One piece of a request."""
    span = "" if part.kind != "file" else _UNKNOWN if part.end is None else f"{part.start}-{part.end}"
    if part.lines:
        span = f"lines {ranges(part.lines)}"
    name = safe(part.name) if part.kind == "file" else f"({safe(part.name)})"
    return f"  {_number(part.bytes)}", span, name


def _files(made: list[Dispatch]) -> Iterator[str]:
    rows = [
        (str(len(parts)), _number(_size([part for _, part in parts])), safe(name)) for name, parts in _by_file(made)
    ]
    if rows:
        yield from table(("requests", "bytes in all", "file"), rows, whole=True)
        yield ""


def _meaning(to: Destination) -> str:
    if to.leaves is None:
        return "made before servers were recorded: the provider's configuration of that time says where it went"
    if not to.leaves and to.server.startswith("http"):
        return "a server on this machine; what it passes on, orchestra cannot see"
    return "it left this machine" if to.leaves else "nothing left this machine"


def _fork_line(app: App, source: str) -> str:
    return f"forked: the calls before were made by run {source} (orchestra sent {source})"


# -- sums -------------------------------------------------------------------------------------------------------------


def _by(made: Iterable[Dispatch], key: Callable[[Dispatch], Any]) -> Iterator[tuple[Any, list[Dispatch]]]:
    groups: dict[Any, list[Dispatch]] = {}
    for one in made:
        groups.setdefault(key(one), []).append(one)
    yield from groups.items()


def _by_file(made: Iterable[Dispatch]) -> Iterator[tuple[str, list[tuple[Dispatch, Part]]]]:
    files: dict[str, list[tuple[Dispatch, Part]]] = {}
    for one in made:
        for part in one.sent.parts:
            if part.kind == "file":
                files.setdefault(part.name, []).append((one, part))
    yield from sorted(files.items())


def _size(parts: Iterable[Part]) -> int | None:
    """The total size of the parts; None if the size of one is unknown."""
    sizes = [part.bytes for part in parts]
    return None if None in sizes else sum(size or 0 for size in sizes)


def _known(parts: Iterable[Part]) -> int:
    return sum(part.bytes or 0 for part in parts)


def _total(made: list[Dispatch]) -> str:
    parts = [part for one in made for part in one.sent.parts]
    return _number(_known(parts)) + ("" if _size(parts) is not None else " known")


def _number(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"
