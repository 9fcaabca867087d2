"""Which changed lines of a patch its writer was not shown: a reason for a person to look. Pure.

Rules
1. Only existing files count, and only lines that the patch removes or changes, where they really are (locate.py): the
   numbers in the hunks' headers are ignored.
2. Added lines are fine between two lines that were shown, and at the beginning or the end of a file.
3. An empty file has nothing to show.
"""

from __future__ import annotations

from collections.abc import Iterator

from orchestra.core.shown import Lines, ShownLines, ranges
from orchestra.patch.prepared import Prepared, PreparedFile

_NAMED = 4  # line ranges of a file that a reason names


def unseen(prepared: Prepared, shown: ShownLines) -> tuple[str, ...]:
    """The reasons: one for each file with a changed line that was not shown."""
    return tuple(reason for file in prepared.files if (reason := _reason(file, shown)))


def _reason(part: PreparedFile, shown: ShownLines) -> str:
    path = part.file.oldPath or part.file.path
    if part.file.before is None or not part.replaced or not part.length or path in shown.whole:
        return ""
    if not shown.parts.get(path):
        return f"changes {path}, which the model was not shown"
    missing = tuple(
        gap for start, stop in part.replaced for gap in _missing(start, stop, part.length, shown.parts[path])
    )
    if not missing:
        return ""
    lines = "line" if len(missing) == 1 and missing[0][0] == missing[0][1] else "lines"
    return f"changes {lines} {ranges(missing, _NAMED)} of {path}, which the model was not shown"


def _missing(start: int, stop: int, length: int, shown: tuple[Lines, ...]) -> Iterator[Lines]:
    """The lines of a change that were not shown, as ranges counted from 1; for added lines, those beside them."""
    first, last = start + 1, stop
    if start == stop:  # rule 2: the line above and the line below
        first, last = max(start, 1), min(start + 1, length)
    for begin, end in sorted(shown):
        if first > last:
            return
        if begin > first:
            yield first, min(last, begin - 1)
        first = max(first, end + 1)
    if first <= last:
        yield first, last
