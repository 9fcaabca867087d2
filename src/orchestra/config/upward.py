"""Finds the project that a person stands in: the nearest folder upwards with a mark of a project.

Rules
1. A mark is orchestra.config.yaml, `.runs` or `.git`. Without any, the project is the folder that the person is in.
2. The search stops at the home folder, which is never taken, and at the border of a file system.
3. A folder of another user is not taken, nor a mark that another user made, nor a folder with another user's
   configuration beside a mark of our own; root's are. Otherwise anybody could put a configuration into /tmp and have it
   used by everyone who works below.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from orchestra.config.borders import homes

FILE_NAME = "orchestra.config.yaml"
MARKS = (FILE_NAME, ".runs", ".git")


def find_project(here: Path, environ: Mapping[str, str]) -> Path:
    """The folder of the project that contains `here`, an absolute path without links."""
    stops = set(homes(environ))
    try:
        device = os.stat(here).st_dev
    except OSError:
        return here
    for folder in (here, *here.parents):
        if str(folder) in stops or not _is_ours(folder, device):
            break
        if any(_is_ours(folder / mark, device) for mark in MARKS) and not _is_of_another(folder / FILE_NAME):
            return folder
    return here


def _is_ours(path: Path, device: int) -> bool:
    """Whether this exists, on this file system, and belongs to this user or to root (rules 2 and 3)."""
    held = _held(path)
    return held is not None and held.st_dev == device and held.st_uid in (os.geteuid(), 0)


def _is_of_another(path: Path) -> bool:
    """Whether this exists, and another user made it (rule 3)."""
    held = _held(path)
    return held is not None and held.st_uid not in (os.geteuid(), 0)


def _held(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None
