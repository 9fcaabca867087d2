"""`.gitignore` files of a workspace, read without git: git's own configuration could execute code (MS-7).

Rules
1. The `.gitignore` nearest to a file decides, and in it the last pattern that matches.
2. A clone's `.gitignore` may be hostile: lines that are too long, have too many stars or are no pattern are left out.
3. Most paths are named by no pattern. One search for all patterns of a file finds that out.
"""

from __future__ import annotations

import functools
import re
from contextlib import suppress
from pathlib import Path

import pathspec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from orchestra.core.errors import OddFile
from orchestra.core.files import MIB, read_bounded
from orchestra.core.names import OWN, RUNS

_MOST_RULES, _MOST_LINES, _MOST_LINE = MIB // 4, 5_000, 500  # of one .gitignore
_MOST_STARS = 3  # in a pattern: each more multiplies the ways a name can be matched by its length
_FOLDERS = re.compile(r"(?:^|/)\*\*(?=/|$)")  # stars for whole folders: they cost little
_MOST_UNITED = 200  # patterns: a search for more of them at once is no faster than one by one

REPOSITORIES = frozenset({".git", ".hg", ".svn"})
RUN_FOLDERS = frozenset({*OWN, RUNS})
INSTALLED = frozenset({"node_modules", ".venv", "venv", ".tox"})
REMEMBERED = frozenset({"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"})
CACHES = INSTALLED | REMEMBERED
BUILDS = frozenset({"dist", "build", "target"})  # unless the project itself has such a folder


class _OneFile:
    """The patterns of one `.gitignore`, and the folder they start from."""

    def __init__(self, prefix: str, text: str) -> None:
        self.prefix = prefix
        self._spec, self._may_match = _compiled(text)

    def names(self, path: str) -> bool | None:
        """Whether these patterns ignore the path; None if no pattern fits the path."""
        below = path[len(self.prefix) :]
        if self._may_match is not None and not self._may_match.match(below):
            return None
        return self._spec.check_file(below).include


Rules = tuple[_OneFile, ...]  # from the root downwards


def rules_of(folder: Path, prefix: str) -> Rules:
    """The rules of a folder's own `.gitignore`; `prefix` is the folder's path in the workspace, with a slash."""
    try:
        text = read_bounded(folder / ".gitignore", _MOST_RULES).decode("utf-8", "replace")
    except (OSError, OddFile):
        return ()
    return (_OneFile(prefix, text),)


@functools.lru_cache(maxsize=64)
def _compiled(text: str) -> tuple[pathspec.GitIgnoreSpec, re.Pattern[str] | None]:
    """The patterns of a `.gitignore`, and one that matches wherever any of them does; None if it cannot be made."""
    patterns: list[GitIgnoreSpecPattern] = []
    for line in text.splitlines()[:_MOST_LINES]:
        if len(line) > _MOST_LINE or _FOLDERS.sub("", line).count("*") > _MOST_STARS:
            continue  # rule 2: matching it could take forever
        with suppress(ValueError, re.error):  # git ignores a line it cannot read, and so do we
            patterns += pathspec.GitIgnoreSpec.from_lines([line]).patterns
    spec = pathspec.GitIgnoreSpec(patterns)
    sources = [str(one.regex.pattern) for one in spec.patterns if one.regex is not None]
    united = "|".join(f"(?:{source.replace('(?P<ps_d>', '(?:')})" for source in sources)
    try:
        return spec, re.compile(united or r"(?!)") if len(sources) <= _MOST_UNITED else None
    except re.error:
        return spec, None


def ignored(path: str, rules: Rules) -> bool:
    """Whether `.gitignore` files name the path; a folder's path ends with a slash (rule 1)."""
    for one in reversed(rules):
        verdict = one.names(path)
        if verdict is not None:
            return verdict
    return False
