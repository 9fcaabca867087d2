"""The real command line in this process: for tests of which a program's start for each case would take minutes."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path

from msgspec import Struct

from orchestra.cli.program import run


class Said(Struct, frozen=True):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


def said(project: Path, *arguments: str) -> Said:
    """Run one command in a project, with nobody to ask."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict") for _ in range(2))
    before = sys.argv, sys.stdin
    here = os.open(".", os.O_RDONLY)  # a test may be another user by then, to whom the folders above are closed
    with open(os.devnull) as nothing, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        sys.argv, sys.stdin = ["orchestra", *arguments], nothing
        os.chdir(project)
        try:
            code = run()
        finally:
            sys.argv, sys.stdin = before
            os.fchdir(here)
            os.close(here)
    return Said(code, _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    data = stream.buffer
    assert isinstance(data, io.BytesIO)
    return data.getvalue().decode()
