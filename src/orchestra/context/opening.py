"""Files that a person opened for models: `--context FILE[:LINES]` as typed, as recorded, and as read again later.

Rules
1. LINES is `A-B`, or `A` for one line. A file whose name is really `FILE:LINES` wins.
2. A run records `path` or `path:A-B`, relative to the project. Runs of older versions recorded `path` only.
3. What a person typed must be right: a missing file, or a line that is not in it, is refused with one message.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from orchestra.context.workspace import openable
from orchestra.core.errors import UsageError
from orchestra.core.files import read_bounded
from orchestra.core.shown import Opened

_LINES = re.compile(r"(?P<file>.+):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?")
_ANY_SIZE = 1 << 62  # of a file of which only some lines are shown


def opened_file(root: Path, typed: str, most: int) -> Opened:
    """The file, and its lines, that a person typed; UsageError if they cannot be shown in `most` bytes."""
    found = _LINES.fullmatch(typed)
    if found is None or os.path.lexists(root / typed):  # rule 1
        return Opened(openable(root, typed, most))
    first, last = int(found["first"]), int(found["last"] or found["first"])
    if first < 1 or last < first:
        raise UsageError(f"--context {typed}: there are no lines {first}-{last}; write FILE:A-B, counted from 1")
    path = openable(root, found["file"], _ANY_SIZE)
    lines = read_bounded(root / path, _ANY_SIZE).split(b"\n")
    count = len(lines) - (not lines[-1])  # the last line may end without a newline
    if last > count:
        raise UsageError(f"--context {typed}: {path} has only {count} lines")
    size = sum(len(line) + 1 for line in lines[first - 1 : last])
    if size > most:
        raise UsageError(f"--context {typed}: {size} bytes are more than a prompt may hold ({most}); give fewer lines")
    return Opened(path, (first, last))


def written(opened: Opened) -> str:
    """The form that a run records (rule 2)."""
    return opened.path + (f":{opened.lines[0]}-{opened.lines[1]}" if opened.lines else "")


def recorded(root: Path, text: str) -> Opened:
    """An opened file of a run. The file may have changed since; it is checked when it is shown."""
    found = _LINES.fullmatch(text)
    if found is None or not found["last"] or os.path.lexists(root / text):
        return Opened(text)
    return Opened(found["file"], (int(found["first"]), int(found["last"])))
