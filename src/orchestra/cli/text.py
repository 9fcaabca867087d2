"""Text for people: one line per event, coloured diffs, and control characters made harmless."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, assert_never

import click
import msgspec
from msgspec import UNSET

from orchestra.core.faces import Output, Token
from orchestra.core.records import Event
from orchestra.core.text import clean, escaped

if TYPE_CHECKING:
    from orchestra.workflows.description import ShownLine

_AT_ONCE = 1000
_PAINT = re.compile(r"(\x1b\[(?:[0-47]|3[0-79]|9[0-7])m)")  # the styles of `click.style` that are used here
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
    """Print one record as a line of JSON and flush. Control and invisible characters are escaped."""
    try:
        data = msgspec.json.encode(record)
    except UnicodeEncodeError:  # a file name that is not UTF-8
        import json

        data = json.dumps(msgspec.to_builtins(record)).encode()
    if not data.isascii() or b"\x7f" in data:
        data = escaped(data.decode()).encode()
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


def streamed(news: Token | Output) -> dict[str, Any]:
    """The record of `--json --stream` for a piece of a model's text or a line of a command's output."""
    if isinstance(news, Output):
        return {"type": "output", "runId": news.run_id, "key": news.key, "line": news.line}
    said = {"type": "token", "runId": news.run_id, "key": news.key, "agent": news.agent, "role": news.role}
    return {**said, "text": news.text, **({"restart": True} if news.restart else {})}


def echo_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Print lines in batches (every echo flushes), without holding all of them in memory."""
    left = iter(lines)
    while some := list(itertools.islice(left, _AT_ONCE)):
        click.echo("\n".join(some), err=err)


def safe(text: str) -> str:
    """Text of models and tools for printing: control, bidi and zero-width characters become visible escapes."""
    return clean(text)


def safe_painted(text: str) -> str:
    """A line that was painted here, made harmless: nothing but these colours reaches a terminal."""
    return "".join(part if at % 2 else safe(part) for at, part in enumerate(_PAINT.split(text)))


def step_line(event: Event, headline: Callable[[Event], str]) -> str:
    """The progress line of an event, made by its workflow's `headline`; empty if there is none."""
    text = headline(event)
    if not text or event.type == "RUN_CREATED":
        return ""
    iteration = f"{event.iteration}" if event.iteration is not UNSET else " "
    colour = "yellow" if event.type == "PHASE_FAILED" and _waits(event) else _COLOURS.get(event.type)
    mark = {"red": "✗", "green": "✓", "yellow": "•"}.get(colour or "", "·")
    return click.style(f"{mark} {iteration} {safe(text)}", fg=colour)


def _waits(event: Event) -> bool:
    from orchestra.workflows.headline import waits_for_a_grant

    return waits_for_a_grant(event)


def painted(line: ShownLine) -> str:
    """A workflow's line, coloured by its mark."""
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
    # Only at line ends: another character that Python takes for one would make a line that has no + before it.
    lines = diff.removesuffix("\n").split("\n") if diff else []
    return [_paint(line.removesuffix("\r")) for line in lines]


def _paint(line: str) -> str:
    if line.startswith(("diff ", "--- ", "+++ ", "index ", "new file", "deleted file", "rename ", "similarity ")):
        return click.style(safe(line), bold=True)
    colour = {"@@": "cyan", "+": "green", "-": "red"}
    return click.style(safe(line), fg=colour.get("@@" if line.startswith("@@") else line[:1]))
