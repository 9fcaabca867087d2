"""Compares file names as tolerant file systems do, and lists orchestra's own folders. Pure.

Rules
1. Two names that differ only in case, Unicode form or invisible characters are the same: `.GIT` and `.g<ZWNJ>it` are
   `.git`.
2. A protected folder is recognised under every name that some file system treats as its name: also `.git::$DATA`,
   `.git.` and NTFS's short form `git~1`.
3. A path meets a folder if it is the folder, is inside it, or is a file on the folder's own path.

OWN lists the folders that orchestra keeps in every project; a configuration adds others.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

CONTRACTS = ".claude/orchestrator"  # the state of contracts
OWN = (".runs", ".orchestra", CONTRACTS)  # runs, sessions, the state of contracts
RUNS = "runs"  # of task graphs, unless the configuration has another folder (S2-73)

# Unicode's default-ignorable code points, and the marks of annotations: zero-width, bidirectional, fillers, tags.
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_LONGEST = 100  # bytes: file systems take 255, with what is put before and behind it
_SHORT = re.compile(r"(.+)~(\d{1,6})")


def folded(name: str) -> str:
    """The name in the form for comparison (rule 1)."""
    if name.isascii():
        return name.lower()
    shown = unicodedata.normalize("NFKC", _UNSEEN.sub("", name))
    return unicodedata.normalize("NFKC", shown.casefold())


def has_unseen(name: str) -> bool:
    """Whether the name contains an invisible character."""
    return _UNSEEN.search(name) is not None


def shortened(name: str) -> str:
    """A name that every file system takes: a long one is its beginning, and a digest that tells it from others."""
    data = name.encode("utf-8", "surrogatepass")
    if len(data) <= _LONGEST:
        return name
    return f"{data[:_LONGEST].decode('utf-8', 'ignore')}%x{hashlib.sha256(data).hexdigest()[:16]}"


def is_name(part: str, name: str) -> bool:
    """Whether some file system treats this part of a path as that name (rule 2)."""
    bare, wanted = folded(part).partition(":")[0].rstrip(". "), folded(name)
    if bare == wanted:
        return True
    short = _SHORT.fullmatch(bare)
    letters = wanted.lstrip(".")
    if short is None or (letters == wanted and len(letters) <= 8):  # a short name is its own short form
        return False
    return short[1] == letters[: max(3, 7 - len(short[2]))]


def met_folder(path: str, folders: Iterable[str]) -> str:
    """The first of these folders that the path meets (rule 3), or an empty string."""
    parts = path.split("/")
    for folder in folders:
        if all(is_name(part, name) for part, name in zip(parts, folder.split("/"), strict=False)):
            return folder
    return ""
