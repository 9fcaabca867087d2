"""The gate: which changes are never taken, and which a person must see by name (sandbox.md §6).

Rules
1. `check` refuses; it looks at names, modes and sizes only, so it can run before any file is opened.
2. Every path a change touches is judged, the old name of a rename too.
3. A name is judged as the strictest file system would read it: folded case, without ignorable code points, without
   NTFS streams. `.GIT`, `git~1`, `.g<ZWNJ>it` and `.git::$INDEX_ALLOCATION` are all `.git`.
4. `risks` never refuses. It lists reasons, each naming its file; policy `risk` asks when there is one (G1-2).

Symlinks on the way to a file, existing targets and texts that do not match are judged where files are known:
apply.read_images and locate.compute. Secrets in added lines are core's redaction's business.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from orchestra.patch.diff import FileChange, Line, Refused
from orchestra.patch.sensitive import reason_to_ask

MAX_FILES = 200
MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 1024
MANY_FILES, MANY_LINES = 20, 500  # G1-2
MODES = {"100644", "100755"}
OUR_FOLDERS = {".runs", ".orchestra"}  # journals, sessions: a patch must not write its own evidence

_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def check(changes: Sequence[FileChange]) -> Refused | None:
    """The first reason not to take these changes at all, or None."""
    if not changes:
        return Refused("invalid_patch", "", "the patch changes no file")
    if len(changes) > MAX_FILES:
        return Refused("unsafe", "", f"the patch touches {len(changes)} files; at most {MAX_FILES} are taken at once")
    for change in changes:
        for path in change.paths:
            if wrong := _wrong_path(path):
                return Refused("path_violation", path, f"{path!r}: {wrong}")  # S1-90
        if wrong := _wrong_content(change):
            return Refused("unsafe", change.path, f"{change.path}: {wrong}")
        if not change.hunks and change.mode is None and change.kind == "modify":
            return Refused(
                "invalid_patch", change.path, f"{change.path}: the diff names the file but has no hunk for it"
            )
    return _overlap(changes)


def risks(changes: Sequence[FileChange], *, existing: Iterable[str] = ()) -> tuple[str, ...]:
    """Why a person should look at these changes, one sentence each. `existing` are paths in the workspace, if known."""
    reasons: list[str] = []
    for change in changes:
        path = change.path
        if change.kind == "delete":
            reasons.append(f"deletes {path}")
        if change.mode == "100755":
            reasons.append(f"makes {path} executable")
        reasons += [f"{name}: {why}" for name in change.paths if (why := reason_to_ask(name))]
        reasons += [
            f"{name!r}: the name starts with '-'" for name in change.paths if any(p[:1] == "-" for p in name.split("/"))
        ]
        if _BIDI.search(path) or any(_BIDI.search(line.text) for line in _added(change)):
            reasons.append(f"{path}: adds bidirectional control characters, so what is shown may not be what runs")
    reasons += _collisions(changes, existing)
    lines = sum(line.op != " " for change in changes for hunk in change.hunks for line in hunk.lines)
    if len(changes) >= MANY_FILES:
        reasons.append(f"changes {len(changes)} files (asked from {MANY_FILES})")
    if lines >= MANY_LINES:
        reasons.append(f"changes {lines} lines (asked from {MANY_LINES})")
    return tuple(reasons)


def _wrong_path(path: str) -> str:
    """What is wrong with a path, or an empty string."""
    if not path:
        return "the path is empty"
    if path.startswith("/") or re.match(r"[A-Za-z]:", path):
        return "the path is absolute; paths are relative to the project folder"
    if "\\" in path:
        return "the path has a backslash"
    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in path):
        return "the path has control characters"
    if len(path.encode()) > MAX_PATH_BYTES:
        return f"the path is longer than {MAX_PATH_BYTES} bytes"
    parts = path.split("/")
    for part in parts:
        if wrong := _wrong_part(part):
            return wrong
    if _folded(parts[0]) in OUR_FOLDERS:
        return f"{parts[0]}/ belongs to orchestra"
    return ""


def _wrong_part(part: str) -> str:
    if part in ("", ".", ".."):
        return f"the path has an {'empty' if not part else repr(part)} part"
    if len(part.encode()) > MAX_NAME_BYTES:
        return f"a name in the path is longer than {MAX_NAME_BYTES} bytes"
    if part[-1] in ". \u00a0\u3000":
        return "a name in the path ends with a dot or a blank"
    bare = (
        _folded(part).split(":", 1)[0].rstrip(". ")
    )  # NTFS: a stream name, and dots and blanks before it, do not count
    if bare == ".git" or re.fullmatch(r"git~\d+", bare):
        return "the path leads into .git"
    return ""


def _wrong_content(change: FileChange) -> str:
    if change.binary:
        return "binary patches are refused"  # S1-91
    for mode in change.modes:
        if mode not in MODES:
            what = {"120000": "a symbolic link", "160000": "a submodule"}.get(mode, "not a plain file")
            return f"mode {mode} is {what}; only 100644 and 100755 are taken"  # T-4
    return ""


def _overlap(changes: Sequence[FileChange]) -> Refused | None:
    """Two changes for one path, or a path that is also a folder of another."""
    seen: set[str] = set()
    for path in (path for change in changes for path in change.paths):
        if path in seen:
            return Refused("invalid_patch", path, f"{path} is changed twice; put all its hunks under one header")
        seen.add(path)
    for path in sorted(seen):
        parts = path.split("/")
        for folder in ("/".join(parts[:count]) for count in range(1, len(parts))):
            if folder in seen:
                return Refused("invalid_patch", path, f"{folder} is a file in this patch and a folder in {path}")
    return None


def _collisions(changes: Sequence[FileChange], existing: Iterable[str]) -> list[str]:
    """New names that some file systems cannot tell from another name."""
    names: dict[str, str] = {}
    for name in existing:
        names.setdefault(_folded(name), name)
    reasons: list[str] = []
    for name in (change.new for change in changes if change.new is not None):
        other = names.setdefault(_folded(name), name)
        if other != name:
            reasons.append(f"{name} and {other} differ only in case or normal form")
    return reasons


def _added(change: FileChange) -> Iterator[Line]:
    return (line for hunk in change.hunks for line in hunk.lines if line.op == "+")


def _folded(name: str) -> str:
    """The name as the most forgetful file system reads it (rule 3)."""
    visible = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", _IGNORABLE.sub("", visible)).casefold())
