"""The files of the workspace that evidence is about, and which of their lines.

Rules
1. A file counts only if it is a regular file of the workspace, reached without a link, and no secret by its name.
2. Its lines are those that output names (`PATH:LINE:`, as grep and compilers write it), and those that a command shows
   of the one file it reads: `grep -n WORD FILE`, `sed -n 10,20p FILE`, `head -n 20 FILE`. Nothing else is guessed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from orchestra.core.errors import ContractError
from orchestra.core.secretfiles import secret_by_name
from orchestra.policy.words import parse_line
from orchestra.workflows.evidence.shapes import Evidence, FoundFile

MOST_FILES = 50
_MOST_CANDIDATES = 2_000  # names that are looked up
_PLACE = re.compile(r"^([^\s:\0][^:\0\n]{0,300}):(\d{1,7})[:-]", re.MULTILINE)
_WORD = re.compile(r"[^\s'\"|]{1,300}")
_NUMBER = re.compile(r"^(\d{1,7})[:-]", re.MULTILINE)  # of a line of one file, as `grep -n` writes it
_NUMBERED = re.compile(r"-[A-Za-z]*n[A-Za-z]*|--line-number")
_KEEPING = ("head", "tail", "sort", "grep")  # programs behind a pipe that leave a line as it is
_RANGE = re.compile(r"(\d{1,7})(?:,\d{1,7})?p")


def files_of(project: Path, evidence: tuple[Evidence, ...]) -> tuple[FoundFile, ...]:
    """The files of the workspace that the evidence names, in the order of their first mention."""
    found: dict[str, tuple[int, int] | None] = {}
    for looked, (path, line) in enumerate(_mentioned(project, evidence)):
        if looked >= _MOST_CANDIDATES or len(found) >= MOST_FILES:
            break
        name = os.path.normpath(path)
        if name not in found and not _is_file(project, name):
            continue
        first, last = found.get(name) or (line, line)
        found[name] = (min(first, line), max(last, line)) if line else found.get(name)
    return tuple(FoundFile(path, lines) for path, lines in found.items())


def _mentioned(project: Path, evidence: tuple[Evidence, ...]) -> Iterator[tuple[str, int]]:
    """Each mention of a file and a line, 0 for none; a name may be that of no file."""
    for one in evidence:
        yield from ((word, 0) for word in dict.fromkeys(_WORD.findall(one.command)))
        yield from _shown(project, one)
        yield from ((path, int(line)) for path, line in _PLACE.findall(one.text))


def _shown(project: Path, one: Evidence) -> Iterator[tuple[str, int]]:
    """The first and the last line that a command shows of the one file it reads, if that is known (rule 2)."""
    try:
        first, *then = parse_line(one.command)
    except ContractError:
        return
    program, *words = first.argv
    files = {word for word in words if _is_file(project, os.path.normpath(word))}
    shown = one.lines[1]
    if len(files) != 1 or not shown:
        return
    if program in ("grep", "rg") and any(map(_NUMBERED.fullmatch, words)):
        whole = all(stage.argv[0] in _KEEPING for stage in then)
        lines = [int(line) for line in _NUMBER.findall(one.text)] if whole else []
    elif program == "sed" and "-n" in words and not then:
        ranges = [int(found[1]) for word in words if (found := _RANGE.fullmatch(word))]
        lines = [ranges[0], ranges[0] + shown - 1] if len(ranges) == 1 else []
    else:
        lines = [1, shown] if program == "head" and not then else []
    if lines:
        yield from ((file, line) for file in files for line in (min(lines), max(lines)))


def _is_file(project: Path, name: str) -> bool:
    if name.startswith(("/", "..")) or secret_by_name(name):
        return False
    path = project
    try:
        for part in Path(name).parts[:-1]:
            path = path / part
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                return False
        return stat.S_ISREG(os.lstat(project / name).st_mode)
    except (OSError, ValueError):
        return False
