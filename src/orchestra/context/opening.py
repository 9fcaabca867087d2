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

from orchestra.context.reading import lines_of, text_of, why_unreadable
from orchestra.core.errors import UsageError
from orchestra.core.records import utf8
from orchestra.core.shown import Lines, Opened

_LINES = re.compile(r"(?P<file>.+):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?", re.DOTALL)


def opened_file(root: Path, typed: str, most: int) -> Opened:
    """The file, and its lines, that a person typed; UsageError if they cannot be shown in `most` bytes."""
    found = None if os.path.lexists(os.path.join(root, typed)) else _LINES.fullmatch(typed)  # rule 1
    if found is None:
        path = _in_project(root, typed, typed)
        if (size := (root / path).stat().st_size) > most:
            what = f"{size} bytes are more than a prompt may hold ({most})"
            raise UsageError(f"--context {typed}: {what}; give some lines of it: FILE:A-B")
        return Opened(path)
    first, last = int(found["first"]), int(found["last"] or found["first"])
    if first < 1 or last < first:
        raise UsageError(f"--context {typed}: there are no lines {first}-{last}; write FILE:A-B, counted from 1")
    path = _in_project(root, found["file"], typed)
    size = _size(root, path, (first, last), typed)
    if size > most:
        raise UsageError(f"--context {typed}: {size} bytes are more than a prompt may hold ({most}); give fewer lines")
    return Opened(path, (first, last))


def written(opened: Opened) -> str:
    """The form that a run records (rule 2)."""
    return opened.path + (f":{opened.lines[0]}-{opened.lines[1]}" if opened.lines else "")


def recorded(root: Path, text: str) -> Opened:
    """An opened file of a run. The file may have changed since; it is checked when it is shown."""
    found = _LINES.fullmatch(text)
    if found is None or not found["last"] or os.path.lexists(os.path.join(root, text)):
        return Opened(text)
    return Opened(found["file"], (int(found["first"]), int(found["last"])))


def _in_project(root: Path, file: str, typed: str) -> str:
    """The path, from the project, of a file that a person named; UsageError if it is no text file of the project."""
    folder, name = os.path.split(file)
    whole = os.path.join(os.path.realpath(folder), name) if os.path.isabs(file) else os.path.join(root, file)
    path = os.path.relpath(whole, root)
    if path.startswith("../") or path in ("..", "."):
        raise UsageError(f"--context {typed}: it is not in the project {root}; copy what is needed into it")
    if why := why_unreadable(root, path):
        raise UsageError(f"--context {typed}: {why}")
    if text_of(root, path) is None:
        raise UsageError(f"--context {typed}: it is no text (UTF-8), so no model can read it")
    return path


def _size(root: Path, path: str, lines: Lines, typed: str) -> int:
    """The bytes of these lines; UsageError if the file has not so many."""
    text = text_of(root, path)
    every = lines_of(text.text) if text else []
    if lines[1] > len(every):
        more = "" if text is None or text.whole else " that orchestra reads"
        raise UsageError(f"--context {typed}: {path} has only {len(every)} lines{more}")
    return sum(len(utf8(line)) for line in every[lines[0] - 1 : lines[1]])
