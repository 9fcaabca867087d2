"""`orchestra context`: what a model would be shown of the project for a goal, and why. No model is called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from msgspec import UnsetType

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.text import print_json, safe
from orchestra.core.cells import table
from orchestra.core.errors import UsageError
from orchestra.core.shown import Receipt, Shown, ranges
from orchestra.core.text import some

_TERMS = 30


@click.command(short_help="What a model would be shown for a goal.")
@click.argument("goal")
@click.option(
    "--bytes",
    "most",
    type=click.IntRange(min=1),
    metavar="N",
    help="At most so many bytes of file contents (default: as in a model call, 200000 with the list of names).",
)
@click.option(
    "--context",
    multiple=True,
    metavar="FILE[:LINES]",
    help="Show this file, or its lines A-B, also if it is a secret by its name. Repeatable.",
)
@click.option("--no-context", "hidden", multiple=True, metavar="GLOB", help="Hide these files. Repeatable.")
@options.json_of("One object: files, bytes, notFound, method, and more.")
@options.project
def context(
    goal: str, most: int | None, context: tuple[str, ...], hidden: tuple[str, ...], as_json: bool, project: Path
) -> int:
    """What a model would be shown of the project for GOAL, and why. No model is called and no run is made.

    \b
    orchestra context "fix the rounding of totals"
    orchestra context "fix the rounding" --json | jq '.files[].path'
    orchestra context "fix the rounding" --context src/money.py:10-80 --no-context 'legacy/*'
    """
    goal = options.clean(goal).strip()
    if not goal:
        raise UsageError('the goal is empty; say what to reach: orchestra context "fix the failing test"')
    opened = App(project).project
    opened.refuse_home()
    opened.refuse_context()
    gathered = opened.shown(goal, most, context=tuple(map(options.clean, context)), hidden=hidden)
    if as_json:
        print_json(_record(gathered.receipt))
        return 0
    for line in (*_lines(gathered.receipt), *(safe(str(one)) for one in gathered.withheld)):
        click.echo(line)
    return 0


def _record(receipt: Receipt) -> dict[str, Any]:
    return {
        "files": [_file(one) for one in receipt.files],
        "bytes": receipt.bytes,
        "notFound": receipt.notFound,
        "method": receipt.method,
        "terms": receipt.terms,
        "leftOut": receipt.leftOut,
        "rules": receipt.rules,
        "durationMs": receipt.durationMs,
    }


def _file(one: Shown) -> dict[str, Any]:
    lines = {} if isinstance(one.lines, UnsetType) else {"lines": one.lines}
    return {"path": one.path, **lines, "bytes": one.bytes, "score": one.score, "reason": one.reason, "how": one.how}


def _lines(receipt: Receipt) -> Iterator[str]:
    if receipt.files:
        rows = [(safe(one.path), _range(one), f"{one.bytes:,}", safe(one.reason)) for one in receipt.files]
        yield from table(("file", "lines", "bytes", "why"), rows)
        yield ""
    if receipt.terms:
        found = [f"{safe(word)} ({files})" for word, files in receipt.terms.items()]
        yield f"words found, and in how many files: {some(found, _TERMS)}"
    else:
        yield "no word of the goal was found; a planner is asked for English search terms first"
    if receipt.notFound:
        yield f"words found nowhere: {some([safe(word) for word in receipt.notFound], _TERMS)}"
    if receipt.rules:
        yield f"rules of the project: {', '.join(map(safe, receipt.rules))}"
    yield safe(receipt.line)
    yield f"method: {receipt.method}, {receipt.durationMs} ms"


def _range(one: Shown) -> str:
    if isinstance(one.lines, UnsetType):
        return "all"
    return ranges(one.lines, 3) or "its definitions"
