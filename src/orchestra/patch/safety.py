"""The gate: which changes are never taken, and which a person must see by name (MS-6.8, MS-6.9).

Rules
1. `check` refuses changes by names, modes and sizes only, so it can run before any file is opened.
2. Every path a change touches is judged, the old name of a rename too.
3. A name is judged as the strictest file system would read it (core/names.py): `.GIT`, `git~1`, `.g<ZWNJ>it` and
   `.git::$INDEX_ALLOCATION` are all `.git`. The same holds for every closed folder.
4. `risks` never refuses. It lists reasons, each naming its file; policy `risk` asks when there is one (G1-2).
5. `guarded` lists what a person must see under every policy: changes to files that orchestra itself obeys or runs.

Symlinks on the way to a file, existing targets and texts that do not match are judged where files are known:
patch/gatekeeper.py, apply.read_images and locate.compute. Secrets in added lines are found by core/redact.py.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from orchestra.core.names import OWN, folded, has_unseen, is_name, met_folder
from orchestra.core.testfiles import is_test
from orchestra.core.work import Refusal
from orchestra.patch.diff import FileChange, Line
from orchestra.patch.sensitive import is_configuration, kind_of

MAX_FILES = 200
MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 1024
MAX_PARTS = 64
MANY_FILES, MANY_LINES = 20, 500  # G1-2
MODES = {"100644", "100755"}
CONFIGURATION = "orchestra's own configuration"

NOTHING: Mapping[str, str] = {}

_IMPORTABLE = (".py", ".pyc", ".so", ".pyd", ".pth", ".egg-link")
_METADATA = (".dist-info", ".egg-info")  # of packages: their entry points are loaded
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]")  # C0 but tab, line ends and form feed; DEL; C1
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d|conin\$|conout\$|clock\$) *(?:[.:].*)?")
_DONE = {"modify": "edits", "delete": "deletes", "rename": "renames"}


def check(changes: Sequence[FileChange], *, closed: Iterable[str] = OWN) -> Refusal | None:
    """The first reason not to take these changes at all, or None. `closed` are folders that no patch may write."""
    if not changes:
        return Refusal("invalid_patch", "the patch changes no file")
    if len(changes) > MAX_FILES:
        return Refusal("unsafe", f"the patch touches {len(changes)} files; at most {MAX_FILES} are taken at once")
    for change in changes:
        for path in change.paths:
            if wrong := wrong_path(path, closed) or _wrong_new_name(path, change):
                return Refusal("path_violation", f"{path!r}: {wrong}", path)  # S1-90
        if wrong := _wrong_content(change):
            return Refusal("unsafe", f"{change.path}: {wrong}", change.path)
        if not change.hunks and change.mode is None and change.kind == "modify":
            return Refusal(
                "invalid_patch", f"{change.path}: the diff names the file but has no hunk for it", change.path
            )
    return _overlap(changes)


def risks(
    changes: Sequence[FileChange], *, existing: Iterable[str] = (), made: Set[str] = frozenset()
) -> tuple[str, ...]:
    """Why a person should look at these changes, one sentence each.

    `existing` are paths in the folders where new files would be; `made` are the files that this run itself
    has added.
    """
    reasons: list[str] = []
    for change in changes:
        path = change.path
        tested = _edited_test(change, made)
        if change.kind == "delete" and not tested:
            reasons.append(f"deletes {path}")
        if change.mode == "100755":
            reasons.append(f"makes {path} executable")
        kinds = [(name, kind) for name in change.paths if (kind := kind_of(name))]
        reasons += [f"{name}: {kind.reason}" for name, kind in kinds]
        if shadowed := _shadowed(change):
            reasons.append(f"{path}: takes the place of Python's own module {shadowed}, for checks too")
        if tested and not any(kind.judges for _, kind in kinds):  # that reason is more precise
            reasons.append(f"{_DONE[change.kind]} {tested}, a test that was there before")
        reasons += [
            f"{name!r}: the name starts with '-'" for name in change.paths if any(p[:1] == "-" for p in name.split("/"))
        ]
        reasons += _odd_name(change)
        if any(_BIDI.search(line.text) for line in _added(change)):
            reasons.append(f"{path}: adds bidirectional control characters, so what is shown may not be what runs")
        if any(_CONTROL.search(line.text) for line in _added(change)):
            reasons.append(f"{path}: adds control characters, so what a terminal shows of it may not be what runs")
    reasons += _collisions(changes, existing)
    lines = sum(line.op != " " for change in changes for hunk in change.hunks for line in hunk.lines)
    if len(changes) >= MANY_FILES:
        reasons.append(f"changes {len(changes)} files (asked from {MANY_FILES})")
    if lines >= MANY_LINES:
        reasons.append(f"changes {lines} lines (asked from {MANY_LINES})")
    return tuple(reasons)


def guarded(
    changes: Sequence[FileChange], code: Mapping[str, str], folders: Mapping[str, str] = NOTHING
) -> tuple[str, ...]:
    """Why a person must agree under every approval mode (rule 5).

    `code` maps each project file that the configuration makes orchestra read or run to a description of it, `folders`
    each folder (`.`: the project) from which such code imports, also what is not there yet.
    """
    known = {folded(path): what for path, what in code.items()}
    reasons: list[str] = []
    for path in (path for change in changes for path in change.paths):
        what = CONFIGURATION if is_configuration(path) else known.get(folded(path)) or _imported(path, folders)
        later = "; it counts for later runs only" if what == CONFIGURATION else ""  # a run has its own copy
        reasons += [f"{path} is {what}: a person must agree under every approval mode{later}"] if what else []
    return tuple(reasons)


def _imported(path: str, folders: Mapping[str, str]) -> str:
    """What a path is that Python would import from one of these folders, or an empty string."""
    name = folded(path)
    if not name.endswith(_IMPORTABLE) and not any(part.endswith(_METADATA) for part in name.split("/")):
        return ""
    return next((what for folder, what in folders.items() if folder == "." or met_folder(path, (folder,))), "")


def judged_by(change: FileChange, made: Set[str] = frozenset()) -> bool:
    """Whether the change can alter the meaning of a check: an existing test, or a file that configures checks."""
    kinds = (kind_of(path) for path in change.paths)
    return bool(_edited_test(change, made) or _shadowed(change)) or any(kind.judges for kind in kinds if kind)


def _shadowed(change: FileChange) -> str:
    """The module of Python's own library whose place a new file at the project's top would take; else empty."""
    if change.kind != "create":
        return ""
    name = change.path.removesuffix("/__init__.py").removesuffix(".py")
    return name if name != change.path and name in sys.stdlib_module_names else ""


def _edited_test(change: FileChange, made: Set[str]) -> str:
    """The path of the test that existed before this run and is changed, or an empty string."""
    old = change.old or ""
    return old if change.kind != "create" and is_test(old) and old not in made else ""


def wrong_path(path: str, closed: Iterable[str] = ()) -> str:
    """What is wrong with a path in the project, or an empty string. `closed` are folders that no patch may write."""
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
    if len(parts) > MAX_PARTS:
        return f"the path has {len(parts)} parts; at most {MAX_PARTS}"
    for part in parts:
        if wrong := _wrong_part(part):
            return wrong
    if folder := met_folder(path, closed):
        return f"{folder}/ belongs to orchestra; no patch writes there"
    return ""


def _wrong_part(part: str) -> str:
    if part in ("", ".", ".."):
        return f"the path has an {'empty' if not part else repr(part)} part"
    if len(part.encode()) > MAX_NAME_BYTES:
        return f"a name in the path is longer than {MAX_NAME_BYTES} bytes"
    if part[-1] in ". \u00a0\u3000":
        return "a name in the path ends with a dot or a blank"
    if is_name(part, ".git"):
        return "the path leads into .git"
    return ""


def _wrong_new_name(path: str, change: FileChange) -> str:
    """Why no new file may get this name, or an empty string. An existing file of such a name may be changed."""
    if path == _new_name(change) and has_unseen(path):
        return "the name has invisible characters; choose another name"
    return ""


def _wrong_content(change: FileChange) -> str:
    if change.binary:
        return "binary patches are refused"  # S1-91
    for mode in change.modes:
        if mode not in MODES:
            what = {"120000": "a symbolic link", "160000": "a submodule"}.get(mode, "not a plain file")
            return f"mode {mode} is {what}; only 100644 and 100755 are taken"  # T-4
    return ""


def _overlap(changes: Sequence[FileChange]) -> Refusal | None:
    """The refusal of two changes for one path, or of a path that is also a folder of another."""
    seen: set[str] = set()
    for path in (path for change in changes for path in change.paths):
        if path in seen:
            return Refusal("invalid_patch", f"{path} is changed twice; put all its hunks under one header", path)
        seen.add(path)
    for path in sorted(seen):
        parts = path.split("/")
        for folder in ("/".join(parts[:count]) for count in range(1, len(parts))):
            if folder in seen:
                return Refusal("invalid_patch", f"{folder} is a file in this patch and a folder in {path}", path)
    return None


def _odd_name(change: FileChange) -> Iterator[str]:
    """Reasons: names that people may overlook, or that some system reads as something else."""
    yield from (f"{path!r}: the name has invisible characters" for path in change.paths if has_unseen(path))
    new = _new_name(change)
    if any(_DEVICE.fullmatch(folded(part)) for part in new.split("/")):
        yield f"{new}: the name of a device on Windows, where no such file can be"


def _new_name(change: FileChange) -> str:
    """The name that a file would have for the first time, or an empty string."""
    return change.new if change.new is not None and change.new != change.old else ""


def _collisions(changes: Sequence[FileChange], existing: Iterable[str]) -> list[str]:
    """Reasons: new names, of folders too, that some file systems do not distinguish from another name."""
    names = {folded(name): name for name in existing}
    reasons: list[str] = []
    for change in sorted(changes, key=lambda change: bool(_new_name(change))):  # existing names first
        parts = change.new.split("/") if change.new else []
        for name in ("/".join(parts[:depth]) for depth in range(1, len(parts) + 1)):
            other = names.setdefault(folded(name), name)
            if other != name and _new_name(change):
                reasons.append(f"{name} and {other} differ only in case or normal form")
                break
    return reasons


def _added(change: FileChange) -> Iterator[Line]:
    return (line for hunk in change.hunks for line in hunk.lines if line.op == "+")
