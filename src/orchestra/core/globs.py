"""Globs that name files of a project: what no model is shown (`--no-context`), what a run may change (core/scope.py).

Rules
1. A glob is a line of a `.gitignore` file: `docs/`, `*.min.js`, `/data/*.csv`.
2. A glob may come from a clone's configuration. One that would take long to match, or that names nothing, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pathspec

from orchestra.core.errors import UsageError

MOST_STARS = 3  # in a glob: each more multiplies the ways a name can be matched by its length
_MOST_LENGTH = 500


class Globs:
    """The files that these globs name."""

    def __init__(self, globs: Iterable[str], *, below: str = "", of: str = "--no-context") -> None:
        """UsageError for a glob that cannot be used; `of` is the setting that it belongs to.

        The globs start from the project. `below` is the folder in it that the paths start from, if it is another.
        """
        lines = tuple(globs)
        for line in lines:
            if why := wrong_glob(line):
                raise UsageError(f"{of} {line}: {why}")
        patterns = (line.removeprefix("./") for line in lines)
        self._spec = pathspec.GitIgnoreSpec.from_lines(patterns) if lines else None
        self._below = f"{below}/" if below else ""

    def __call__(self, path: str) -> bool:
        """Whether the globs name a path; that of a folder ends with `/`."""
        return self._spec is not None and self._spec.match_file(self._below + path)


def wrong_glob(line: str) -> str:
    """Why a glob cannot be used; empty if it can (rule 2)."""
    if not line.strip() or line.startswith("#"):
        return "it names no file; write a glob as in .gitignore, e.g. 'docs/' or '*.csv'"
    if len(line) > _MOST_LENGTH or line.replace("**", "").count("*") > MOST_STARS:
        return f"it is too long, or has more than {MOST_STARS} stars; split it"
    try:
        pathspec.GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return "it is no glob as .gitignore has them"
    return ""
