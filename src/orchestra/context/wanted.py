"""What a model asked to see: which files that means, and why something is refused.

Rules
1. A model gets only what a walk of the workspace lists: nothing outside, no link, no folder, nothing of a repository or
   a run, nothing that `.gitignore` or a person hides, no secret by its name. Each refusal has its reason.
2. A path may be given by its end, as in a text (mentions.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from orchestra.context.ignoring import REPOSITORIES, RUN_FOLDERS
from orchestra.context.mentions import Names
from orchestra.context.reading import text_of, why_unreadable
from orchestra.core.shown import Wanted


class Answers:
    """The answer to each thing that a model asked for: the files, or the refusal."""

    def __init__(self) -> None:
        self.files: list[tuple[Wanted, str]] = []
        self.refused: dict[Wanted, str] = {}

    @property
    def told(self) -> tuple[str, ...]:
        """The refusals, one line each."""
        return tuple(f"{one}: {why}" for one, why in self.refused.items())


def answers(
    root: Path,
    wanted: tuple[Wanted, ...],
    listed: frozenset[str],
    names: Names,
    hidden: Callable[[str], bool],
    secret: Callable[[str], str],
) -> Answers:
    """Look up the files that a model asked for (rule 1). `secret` returns why a file is a secret by its name."""
    out = Answers()
    for one in dict.fromkeys(wanted):
        if not one.file:
            continue
        path = _relative(root, one.file)
        meant = [path] if path in listed else [] if _leaves(path) else names.meant(path)
        if not meant:
            out.refused[one] = _why(root, path, hidden)
            continue
        for file in meant:
            if why := secret(file):
                out.refused[one] = f"a secret by its name: {why}"
            elif text_of(root, file) is None:
                out.refused[one] = "it is no text"
            else:
                out.files.append((one, file))
    return out


def _relative(root: Path, file: str) -> str:
    inside = f"{os.fspath(root)}/"
    path = file.removeprefix(inside) if file.startswith(inside) else file
    return path.removeprefix("./")


def _leaves(path: str) -> bool:
    return os.path.isabs(path) or ".." in path.split("/")


def _why(root: Path, path: str, hidden: Callable[[str], bool]) -> str:
    """Why a path that is not listed is refused."""
    if _leaves(path) or path.startswith("~"):
        return "it is not in the project"
    if set(path.split("/")) & REPOSITORIES or path.split("/")[0] in RUN_FOLDERS:
        return "files of repositories and runs are not shown"
    if hidden(path):
        return "a person has hidden it"
    if why := why_unreadable(root, path):
        return "it is a folder" if os.path.isdir(root / path) and not os.path.islink(root / path) else why
    return "it is ignored by .gitignore, or is in a folder of installed packages or build output"
