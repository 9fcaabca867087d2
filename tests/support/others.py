"""Tests that run something as another user need a checkout others may enter: not root's home, no private folder."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

_FOLDERS = (*Path(__file__).resolve().parents, Path(sys.prefix), *Path(sys.prefix).parents)
_CLOSED = [str(folder) for folder in _FOLDERS if not os.stat(folder).st_mode & stat.S_IXOTH]
needs_open_checkout = pytest.mark.skipif(bool(_CLOSED), reason=f"{', '.join(_CLOSED[:1])} is closed to other users")
NOBODY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"  # that of a virtual environment may lie in a home that is closed to others


def system_python() -> tuple[int, ...]:
    """The system's version of Python; none if it has none."""
    said = subprocess.run([SYSTEM_PYTHON, "-V"], capture_output=True, text=True, check=False).stdout
    return tuple(int(number) for number in said.split()[-1].split(".")[:2]) if said else ()
