"""The workspace as a model sees it: which files there are, and which of them are worth showing within a budget.

Rules
1. Reads only, and only regular text files inside the workspace; links are not followed, so nothing outside is shown.
2. `.git`, run folders, what `.gitignore` names, and well-known build and cache folders are left out. git itself is
   never run on a workspace: its own configuration could execute code (MS-7).
3. Files a hint mentions by path or name come first, then their neighbours, then small ones; caps in number and bytes
   bound what goes into any prompt.
4. A file that is a secret by its name (core/secretfiles.py) is listed and never shown, even if a hint names it. Only a
   person opens such a file, by `--context FILE`; opened files are shown whole and before everything else.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pathspec
from msgspec import UNSET

from orchestra.context.globs import Globs
from orchestra.core.errors import OddFile, UsageError
from orchestra.core.files import MIB, read_bounded
from orchestra.core.model import ContextArtifact, Gathered, Withheld
from orchestra.core.names import OWN, RUNS
from orchestra.core.secretfiles import secret_by_name
from orchestra.core.shown import How, Lines, Opened, Receipt, Search, Shown

FILE_BYTES = 40_000
_MOST_RULES, _MOST_LINES, _MOST_LINE = MIB // 4, 5_000, 500  # of one .gitignore
_MOST_STARS = 3  # in a pattern: each more multiplies the ways a name can be matched by its length
FILES = 100
LISTED = 2_000
_REPOSITORIES = {".git", ".hg", ".svn"}
_RUNS = {*OWN, RUNS}
_INSTALLED = {"node_modules", ".venv", "venv", ".tox"}
_REMEMBERED = {"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
_CACHES = _INSTALLED | _REMEMBERED
_BUILDS = {"dist", "build", "target"}  # unless the project itself has such a folder
_SKIP_FOLDERS = _REPOSITORIES | _RUNS | _CACHES | _BUILDS | {".idea", ".vscode"}
_MENTIONED = re.compile(r"[\w./~+@-]{0,200}[A-Za-z0-9_]")  # a word that may be a path; Korean particles stay behind


def gather(
    root: Path,
    search: Search,
    total: int,
    *,
    opened: tuple[Opened, ...] = (),
    hidden: tuple[str, ...] = (),
    memory: Path | None = None,
    mask: Callable[[str], str] = str,
) -> Gathered:
    """The listing of the workspace and the contents of its most relevant files, `total` bytes at most.

    `opened` are the files a person opened (`openable`), `hidden` globs of files that are not shown.
    """
    hidden_by_glob = Globs(hidden)
    by_path: dict[str, tuple[Lines, ...]] = {}
    for one in opened:
        by_path[one.path] = (*by_path.get(one.path, ()), *filter(None, (one.lines,)))
    hints = search.hints
    files = [file for file in _walk(root) if not hidden_by_glob(file[0])]
    tree = _listing(sorted(path for path, _ in files), total // 4)
    mentions = "\n".join(hints)
    left = total - len(tree.encode())
    chosen, withheld = _opened(root, by_path, left)
    left -= sum(len(artifact.content.encode()) for artifact in chosen)
    named = {path for path, _ in files if path in mentions or _name(path) in mentions}
    near = {path.rpartition("/")[0] for path in named}
    files.sort(key=lambda file: (file[0] not in named, file[0].rpartition("/")[0] not in near, file[1], file[0]))
    for path, size in files:
        if len(chosen) == FILES or size > min(left, FILE_BYTES) or path in by_path or secret_by_name(path):
            continue
        text = _read_text(root / path)
        if text is not None:
            chosen.append(ContextArtifact(name=path, path=path, content=text))
            left -= size
    chosen.sort(key=lambda artifact: artifact.path)
    withheld += _secrets(root, named, mentions, tuple(by_path))
    listing = ContextArtifact(name="files of the workspace", path=".", content=tree)
    shown = tuple(_shown(artifact, by_path.get(artifact.path), named) for artifact in chosen)
    receipt = Receipt("files by size", shown, sum(one.bytes for one in shown))
    return Gathered((listing, *chosen), tuple(withheld), receipt)


def _shown(artifact: ContextArtifact, opened: tuple[Lines, ...] | None, named: set[str]) -> Shown:
    how: How = "named" if artifact.path in named else "found"
    how = how if opened is None else "opened"
    size = len(artifact.content.encode())
    return Shown(artifact.path, how, how, size, -(-size // 4), lines=opened or UNSET)


def _opened(root: Path, files: dict[str, tuple[Lines, ...]], left: int) -> tuple[list[ContextArtifact], list[Withheld]]:
    """The files a person opened, whole or their lines; and the reason for each that cannot be shown now."""
    shown: list[ContextArtifact] = []
    withheld: list[Withheld] = []
    for path, lines in files.items():
        if why := _no_file(root, path):
            withheld.append(Withheld(path, why))
        elif (size := os.lstat(root / path).st_size) > left:  # it may have grown since it was opened
            withheld.append(Withheld(path, f"its {size} bytes do not fit into what this model can read"))
        elif (text := _read_text(root / path)) is None:
            withheld.append(Withheld(path, "it is no text"))
        else:
            if lines:
                whole = text.split("\n")
                text = "".join(f"{line}\n" for first, last in lines for line in whole[first - 1 : last])
            shown.append(ContextArtifact(name=path, path=path, content=text))
            left -= size
    return shown, withheld


def _secrets(root: Path, named: set[str], mentions: str, opened: tuple[str, ...]) -> Iterator[Withheld]:
    """The files that a hint mentions and that are secrets by their name, also those that `.gitignore` hides."""
    words = {word.removeprefix("./") for word in _MENTIONED.findall(mentions)}
    hidden = {word for word in words if not _no_file(root, word) and secret_by_name(word)}
    meant = {path for path in named if path in words or _name(path) in words}
    for path in sorted((hidden | meant).difference(opened)):
        if why := secret_by_name(path):
            yield Withheld(path, f"a secret by its name: {why}", f"to show it: --context {shlex.quote(path)}")


def openable(root: Path, file: str, most: int) -> str:
    """The path in the workspace of a file that a person wants a model to see; UsageError if it cannot be shown."""
    folder, name = os.path.split(file)
    whole = os.path.join(os.path.realpath(folder), name) if os.path.isabs(file) else os.path.join(root, file)
    path = os.path.relpath(whole, root)
    if path.startswith("../") or path in ("..", "."):
        raise UsageError(f"--context {file}: it is not in the project {root}; copy what is needed into it")
    if why := _no_file(root, path):
        raise UsageError(f"--context {file}: {why}")
    size = (root / path).stat().st_size
    if size > most:
        raise UsageError(f"--context {file}: {size} bytes are more than a prompt may hold ({most}); give a shorter one")
    if _read_text(root / path) is None:
        raise UsageError(f"--context {file}: it is no text (UTF-8), so no model can read it")
    return path


def _no_file(root: Path, path: str) -> str:
    """Why this path of the workspace is no file that may be read; empty if it is one (rule 1)."""
    whole = os.path.join(root, path)
    if os.path.isabs(path):
        return "it is not in the project"
    try:
        found = os.lstat(whole)
    except (OSError, ValueError):
        return "there is no such file"
    if not stat.S_ISREG(found.st_mode):
        return "it is no regular file"
    inside = os.path.realpath(whole) == os.path.join(os.path.realpath(root), os.path.normpath(path))
    return "" if inside else "a link leads there; links are not followed"


def _listing(paths: list[str], most: int) -> str:
    """As many names as there is room for."""
    lines: list[str] = []
    for path in paths[:LISTED]:
        most -= len(path.encode()) + 1
        if most < 0:
            break
        lines.append(f"{path}\n")
    rest = f"… and {len(paths) - len(lines)} more\n" if len(lines) < len(paths) else ""
    return "".join(lines) + rest


_Rules = tuple[tuple[str, pathspec.GitIgnoreSpec], ...]  # folder, its .gitignore


def _walk(root: Path) -> Iterator[tuple[str, int]]:
    """Every file worth listing, with its size. A folder that cannot be read is left out, not fatal."""
    queue: list[tuple[str, _Rules]] = [("", ())]
    while queue:
        prefix, rules = queue.pop()
        rules = (*rules, *_own_rules(root / prefix, prefix))
        try:
            entries = sorted(os.scandir(root / prefix), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            path = prefix + entry.name
            if entry.is_symlink() or not path.isprintable():  # odd names (bytes that are no text) could not be shown
                continue
            if entry.is_dir():
                if entry.name not in _SKIP_FOLDERS and not _ignored(path + "/", rules):
                    queue.append((path + "/", rules))
            elif entry.is_file() and not _ignored(path, rules):
                yield path, _size(entry)


def keepable(paths: Iterable[str], root: Path) -> tuple[str, ...]:
    """Of the leftovers of a command those that later commands may see: build output, and new files.

    Not files of a repository or a run. Nothing that replaces files of the workspace or is added to installed packages:
    its code would run in every later command, without a patch that shows it. No cache: tools trust a .pyc or a result
    of mypy without reading the source.
    """
    closed = _REPOSITORIES | _REMEMBERED
    open_ = (p for p in paths if p.split("/")[0] not in _RUNS and not closed & set(p.split("/")))
    return tuple(p for p in open_ if _name(p) in _BUILDS or not os.path.lexists(root / p))


def only_built(paths: Iterable[str], upper: Path) -> tuple[str, ...]:
    """Of these paths what a check leaves to the next check: folders of build output, and no single files."""
    return tuple(p for p in paths if _name(p) not in _INSTALLED and _is_folder(upper / p))


def missed(paths: Iterable[str], kept: tuple[str, ...], upper: Path) -> tuple[str, ...]:
    """Of the leftovers that are not kept those that a person may need: programs, installed packages."""
    gone = (p for p in paths if p not in kept and not (_REPOSITORIES | _REMEMBERED) & set(p.split("/")))
    return tuple(p for p in gone if _name(p) in _INSTALLED or _is_program(upper / p))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode)


def _is_program(path: Path) -> bool:
    mode = os.lstat(path).st_mode
    return stat.S_ISREG(mode) and bool(mode & stat.S_IXUSR)


def builds(paths: Iterable[str]) -> tuple[str, ...]:
    """Of the leftovers those that a person might have meant as a change."""
    return tuple(path for path in paths if _name(path) in _BUILDS)


class Leftovers:
    """What a command may leave in the workspace's copy without it being a change: build output and caches (C-14)."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._rules: dict[str, _Rules] = {}

    def __call__(self, path: str, is_folder: bool) -> bool:
        """Whether `.gitignore`, or the list of well-known folders, names this path or a folder above it."""
        parts = path.split("/")
        folders = parts if is_folder else parts[:-1]
        if folders[:1] and folders[0] in _RUNS:
            return True
        for depth, name in enumerate(folders, start=1):
            known = name in _REPOSITORIES or name in _CACHES
            if known or (name in _BUILDS and not (self._root / "/".join(folders[:depth])).exists()):
                return True
        folder = "".join(f"{part}/" for part in parts[:-1])
        return _ignored(path + "/" * is_folder, self._rules_of(folder))

    def _rules_of(self, folder: str) -> _Rules:
        if folder not in self._rules:
            above = self._rules_of(folder[:-1].rpartition("/")[0] + "/" if "/" in folder[:-1] else "") if folder else ()
            self._rules[folder] = (*above, *_own_rules(self._root / folder, folder))
        return self._rules[folder]


def _own_rules(folder: Path, prefix: str) -> _Rules:
    try:
        lines = read_bounded(folder / ".gitignore", _MOST_RULES).decode("utf-8", "replace").splitlines()
    except (OSError, OddFile):
        return ()
    patterns: list[str] = []
    for line in lines[:_MOST_LINES]:
        if len(line) > _MOST_LINE or line.replace("**", "").count("*") > _MOST_STARS:
            continue  # a clone's file: matching it could take forever
        try:
            pathspec.GitIgnoreSpec.from_lines([line])
            patterns.append(line)
        except (ValueError, re.error):
            continue  # git ignores a line it cannot read, and so do we
    return ((prefix, pathspec.GitIgnoreSpec.from_lines(patterns)),)


def _ignored(path: str, rules: _Rules) -> bool:
    """Whether .gitignore files name it; the one nearest to the file decides."""
    for base, spec in reversed(rules):
        verdict = spec.check_file(path[len(base) :]).include
        if verdict is not None:
            return verdict
    return False


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except OSError:
        return FILE_BYTES + 1  # gone meanwhile: listed, not read


def _read_text(path: Path) -> str | None:
    try:
        data = path.read_bytes()
        return None if b"\0" in data else data.decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
