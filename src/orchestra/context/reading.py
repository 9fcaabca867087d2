"""Reads files of a workspace for a model: text only, bounded, and nothing outside.

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

from orchestra.core.errors import OddFile
from orchestra.core.files import MIB, open_below
from orchestra.core.redact import MASK
from orchestra.core.secrets import PEM, PEM_BEGINS

MOST_READ = 8 * MIB  # of one file, when parts of it are shown
Mask = Callable[[str], str]


class Text(NamedTuple):
    """The text of a file; `whole` unless only its beginning was read (rule 2)."""

    text: str
    whole: bool


EMPTY = Text("", whole=True)  # of an empty file


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
