"""The places that a diff changes, as lines of the new files. Pure."""

from __future__ import annotations

from msgspec import Struct

from orchestra.core.work import Refusal
from orchestra.patch.diff import Hunk, parse_diff


class TracedHunk(Struct, frozen=True):
    """A place of a file that a patch changed: its lines afterwards."""

    path: str
    first: int
    last: int
    added: int
    removed: int


def hunks_of(diff: str) -> tuple[TracedHunk, ...]:
    """The hunks of a diff, with the changed lines that they have in the new files."""
    changes = parse_diff(diff) if diff.strip() else ()
    if isinstance(changes, Refusal):
        return ()
    found: list[TracedHunk] = []
    for change in changes:
        shift = 0
        for hunk in change.hunks:
            made = _hunk(change.path, hunk, shift)
            found.append(made)
            shift += made.added - made.removed
    return tuple(found)


def _hunk(path: str, hunk: Hunk, shift: int) -> TracedHunk:
    """A hunk whose lines are `shift` lines further down in the new file. Lines of context do not count."""
    line = (hunk.start or 0) + shift + (0 if any(one.op != "+" for one in hunk.lines) else 1)
    first = last = 0
    for one in hunk.lines:
        if one.op != " ":
            first = first or line
            last = max(last, line if one.op == "+" else line - 1, first)
        line += one.op != "-"
    added = sum(one.op == "+" for one in hunk.lines)
    removed = sum(one.op == "-" for one in hunk.lines)
    return TracedHunk(path, first, last, added, removed)
