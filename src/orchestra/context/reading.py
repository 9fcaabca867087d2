"""Reads files of a workspace for a model: text only, bounded, and nothing outside. Also what a person may open.

Rules
1. Only regular files inside the workspace are read. No link is followed, not even on the way to a file.
2. Of a file over its bound only the beginning is read, up to the end of a line; `whole` is then false.
3. A file with a NUL byte, or that is not UTF-8, is no text.
4. A private key is covered before a file is cut into parts: a part without its BEGIN line would not be recognised as
   one. Its lines stay, so that line numbers hold.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from orchestra.core.errors import OddFile, UsageError
from orchestra.core.files import MIB, open_below
from orchestra.core.redact import MASK
from orchestra.core.secrets import PEM, PEM_BEGINS
from orchestra.core.shown import Lines, Opened

MOST_READ = 8 * MIB  # of one file, when parts of it are shown
_LINES = re.compile(r"(.+):([1-9][0-9]{0,8})(?:-([1-9][0-9]{0,8}))?", re.DOTALL)
Mask = Callable[[str], str]


class Text(NamedTuple):
    """The text of a file; `whole` unless only its beginning was read (rule 2)."""

    text: str
    whole: bool


def text_of(root: Path, path: str, most: int = MOST_READ) -> Text | None:
    """The text of a file in the workspace; None if it cannot be read or is no text."""
    try:
        fd = open_below(root, path, 1 << 62)
    except (OSError, OddFile, ValueError):
        return None
    try:
        with open(fd, "rb", buffering=0) as file:
            data = file.read(most + 1) or b""
    except OSError:
        return None
    whole = len(data) <= most
    if not whole:
        data = data[: data.rfind(b"\n", 0, most) + 1]
    if b"\0" in data:
        return None
    try:
        return Text(data.decode("utf-8"), whole)
    except UnicodeDecodeError:
        return None


def lines_of(text: str) -> list[str]:
    """The lines of a text, with their newlines. Only a newline ends a line, as in editors and diffs."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def covered(text: str, mask: Mask) -> str:
    """The text with the bodies of private keys masked, line by line (rule 4)."""
    if not any(begin.decode() in text for begin in PEM_BEGINS):
        return text
    data = text.encode()
    out: list[bytes] = []
    at = 0
    for found in re.compile(b"(?:" + b"|".join(PEM_BEGINS) + b")" + PEM).finditer(data):
        block = found[0].decode("utf-8", "replace")
        if mask(block) != block:
            out += (data[at : found.start()], MASK.encode() + b"\n" * found[0].count(b"\n"))
            at = found.end()
    return b"".join((*out, data[at:])).decode()


def why_unreadable(root: Path, path: str) -> str:
    """Why this path of the workspace is no file that may be read; empty if it is one (rule 1)."""
    if os.path.isabs(path):
        return "it is not in the project"
    whole = os.path.join(root, path)
    try:
        found = os.lstat(whole)
    except (OSError, ValueError):
        return "there is no such file"
    if not stat.S_ISREG(found.st_mode):
        return "it is no regular file"
    inside = os.path.realpath(whole) == os.path.join(os.path.realpath(root), os.path.normpath(path))
    return "" if inside else "a link leads there; links are not followed"


def openable(root: Path, file: str, most: int) -> Opened:
    """The file, or the lines `FILE:A-B` of it, that a person wants a model to see; UsageError if it cannot be shown."""
    opened = _opened(root, file)
    path, lines = opened.path, opened.lines
    if path.startswith("../") or path in ("..", "."):
        raise UsageError(f"--context {file}: it is not in the project {root}; copy what is needed into it")
    if why := why_unreadable(root, path):
        raise UsageError(f"--context {file}: {why}")
    text = text_of(root, path, MOST_READ)
    if text is None:
        raise UsageError(f"--context {file}: it is no text (UTF-8), so no model can read it")
    if lines is not None:
        all_lines = lines_of(text.text)
        if lines[0] > len(all_lines):
            more = "" if text.whole else " that orchestra reads"
            raise UsageError(f"--context {file}: the file has {len(all_lines)} lines{more}")
        part = "".join(all_lines[lines[0] - 1 : lines[1]])
    size = (root / path).stat().st_size if lines is None else len(part.encode())
    if size > most:
        cure = "give some lines of it: FILE:A-B" if lines is None else "give fewer lines"
        raise UsageError(f"--context {file}: {size} bytes are more than a prompt may hold ({most}); {cure}")
    return opened


def recorded(opened: Opened) -> str:
    """An opened file as a run records it: `path` or `path:A-B`."""
    return opened.path + (f":{opened.lines[0]}-{opened.lines[1]}" if opened.lines else "")


def from_record(root: Path, text: str) -> Opened:
    """An opened file as `recorded` wrote it. A file that is really named `x:1-2` is meant by that name."""
    if os.path.lexists(os.path.join(root, text)):
        return Opened(text)
    path, lines = _split(text)
    return Opened(path, lines)


def _opened(root: Path, file: str) -> Opened:
    """The path in the project, and the lines, that a person wrote; a file that is really named `x:1-2` is meant."""
    named, lines = (file, None) if os.path.lexists(os.path.join(root, file)) else _split(file)
    if lines is not None and lines[0] > lines[1]:
        raise UsageError(f"--context {file}: lines {lines[0]}-{lines[1]} are none; write FILE:A-B with A up to B")
    folder, name = os.path.split(named)
    whole = os.path.join(os.path.realpath(folder), name) if os.path.isabs(named) else os.path.join(root, named)
    return Opened(os.path.relpath(whole, root), lines)


def _split(text: str) -> tuple[str, Lines | None]:
    found = _LINES.fullmatch(text)
    if found is None:
        return text, None
    first = int(found[2])
    return found[1], (first, int(found[3] or first))
