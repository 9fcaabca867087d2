"""The workspace as a model sees it: which files there are, and which of them are worth showing within a budget.

Rules
1. Reads only, and only regular text files inside the workspace; links are not followed, so nothing outside is shown.
2. `.git`, run folders, what `.gitignore` names, and well-known build and cache folders are left out. git itself is
   never run on a workspace: its own configuration could execute code (sandbox.md §7).
3. Files a hint mentions by path or name come first, then small ones; a hard cap in bytes bounds what goes into any
   prompt.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pathspec

from orchestra.core.model import ContextArtifact

TOTAL_BYTES = 200_000
FILE_BYTES = 40_000
LISTED = 2_000
_SKIP_FOLDERS = {
    ".git",
    ".hg",
    ".svn",
    ".runs",
    "runs",
    ".orchestra",
    "node_modules",
    "__pycache__",
    ".venv",
    "venv",
    ".tox",
}
_SKIP_FOLDERS |= {
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    "dist",
    "build",
    "target",
    ".idea",
    ".vscode",
}
_SECRET_NAMES = (".env", "id_rsa", "id_ed25519", ".netrc", ".npmrc", ".pypirc")


def gather(root: Path, hints: Iterable[str], *, total: int = TOTAL_BYTES) -> tuple[ContextArtifact, ...]:
    """The listing of the workspace and the contents of its most relevant files, as context artifacts."""
    files = list(_walk(root))
    mentions = "\n".join(hints)
    files.sort(key=lambda entry: (not _mentioned(entry[0], mentions), entry[1], entry[0]))
    chosen: list[ContextArtifact] = []
    left = total
    for path, size in files:
        if size > min(left, FILE_BYTES) or path.rsplit("/", 1)[-1].startswith(_SECRET_NAMES):
            continue
        text = _read_text(root / path)
        if text is not None:
            chosen.append(ContextArtifact(name=path, path=path, content=text))
            left -= size
    chosen.sort(key=lambda artifact: artifact.path)
    listing = sorted(path for path, _ in files)
    rest = f"… and {len(listing) - LISTED} more\n" if len(listing) > LISTED else ""
    tree = "".join(f"{path}\n" for path in listing[:LISTED]) + rest
    return (ContextArtifact(name="files of the workspace", path=".", content=tree), *chosen)


def _mentioned(path: str, text: str) -> bool:
    return path in text or path.rsplit("/", 1)[-1] in text


def _walk(
    root: Path, prefix: str = "", rules: tuple[tuple[str, pathspec.GitIgnoreSpec], ...] = ()
) -> Iterator[tuple[str, int]]:
    folder = root / prefix
    ignore = folder / ".gitignore"
    if ignore.is_file() and not ignore.is_symlink():
        lines = ignore.read_text(encoding="utf-8", errors="replace").splitlines()
        rules = (*rules, (prefix, pathspec.GitIgnoreSpec.from_lines(lines)))
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except PermissionError:
        return
    for entry in entries:
        path = prefix + entry.name
        if entry.is_symlink():
            continue
        if entry.is_dir():
            if entry.name not in _SKIP_FOLDERS and not _ignored(path + "/", rules):
                yield from _walk(root, path + "/", rules)
        elif entry.is_file() and not _ignored(path, rules):
            yield path, entry.stat().st_size


def _ignored(path: str, rules: tuple[tuple[str, pathspec.GitIgnoreSpec], ...]) -> bool:
    return any(spec.match_file(path[len(base) :]) for base, spec in rules)


def _read_text(path: Path) -> str | None:
    try:
        data = path.read_bytes()
        return None if b"\0" in data else data.decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
