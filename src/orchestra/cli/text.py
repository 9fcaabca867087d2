"""Text for people: one line per event, painted diffs, and nothing that could play tricks on a terminal."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable
from typing import assert_never

import click
import msgspec
from msgspec import UNSET

from orchestra.core.records import Event
from orchestra.core.text import clean, escaped
from orchestra.workflows.description import ShownLine

_AT_ONCE = 1000
_COLOURS = {
    "PHASE_FAILED": "red",
    "PATCH_APPLY_FAILED": "red",
    "RUN_FAILED": "red",
    "RUN_CANCELED": "red",
    "APPROVAL_REJECTED": "yellow",
    "APPROVAL_REQUESTED": "yellow",
    "QUESTION_RAISED": "yellow",
    "EVALUATION_FAILED_FIXABLE": "yellow",
    "EVALUATION_FAILED_BLOCKED": "yellow",
    "EVALUATION_PASSED": "green",
    "RUN_COMPLETED": "green",
}


def print_json(record: object) -> None:
    """One record as a line of JSON on stdout, at once. What a terminal would obey, or hide, is escaped."""
    try:
        data = msgspec.json.encode(record)
    except UnicodeEncodeError:  # the name of a file that is no UTF-8
        import json

        data = json.dumps(msgspec.to_builtins(record)).encode()
    if not data.isascii() or b"\x7f" in data:
        data = escaped(data.decode()).encode()
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


def echo_lines(lines: Iterable[str]) -> None:
    """Print lines, many at once (echo flushes), but never all of them in memory."""
    left = iter(lines)
    while some := list(itertools.islice(left, _AT_ONCE)):
        click.echo("\n".join(some))


def safe(text: str) -> str:
    """Model and tool text as one may print it: control, bidi and zero-width characters are shown, not obeyed."""
    return clean(text)


def step_line(event: Event, headline: Callable[[Event], str]) -> str:
    """An event as a line of progress, by its workflow's `headline`; empty if it is not worth one."""
    text = headline(event)
    if not text or event.type == "RUN_CREATED":
        return ""
    iteration = f"{event.iteration}" if event.iteration is not UNSET else " "
    mark = {"red": "✗", "green": "✓", "yellow": "•"}.get(_COLOURS.get(event.type, ""), "·")
    return click.style(f"{mark} {iteration} {safe(text)}", fg=_COLOURS.get(event.type))


def painted(line: ShownLine) -> str:
    """A line of a workflow's own, as its mark says."""
    match line.mark:
        case "dim":
            return click.style(line.text, dim=True)
        case "bold":
            return click.style(line.text, bold=True)
        case "warning":
            return click.style(line.text, fg="yellow")
        case "":
            return line.text
        case unreachable:
            assert_never(unreachable)


def paint_diff(diff: str) -> list[str]:
    """A unified diff in colour, line by line."""
    return [_paint(line) for line in diff.splitlines()]


def _paint(line: str) -> str:
    if line.startswith(("diff ", "--- ", "+++ ", "index ", "new file", "deleted file", "rename ", "similarity ")):
        return click.style(safe(line), bold=True)
    colour = {"@@": "cyan", "+": "green", "-": "red"}
    return click.style(safe(line), fg=colour.get("@@" if line.startswith("@@") else line[:1]))
