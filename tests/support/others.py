"""Tests that run something as another user need a checkout others may enter: not root's home, no private folder."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
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


def as_ordinary_user(file: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a file once more, as nobody: all for which it matters (not those marked `whoever`).

    Skips where the sources or their libraries are closed to others. In a folder of its own: pytest closes the one it
    shares with every other pytest of the same user at each start.
    """
    base = Path(tempfile.mkdtemp(prefix="orchestra-nobody-"))
    try:
        base.chmod(0o777)
        return _run_as_nobody(base, file, *more)
    finally:
        shutil.rmtree(base)


def _run_as_nobody(base: Path, file: Path, *more: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    paths = [str(root / "src"), str(root), *(path for path in sys.path if "site-packages" in path)]
    env = {"PYTHONPATH": ":".join(paths), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    env["HYPOTHESIS_STORAGE_DIRECTORY"] = str(base / "hypothesis")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        who = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        return subprocess.run([SYSTEM_PYTHON, *words], env=env, cwd=root, capture_output=True, text=True, **who)  # type: ignore[call-overload, no-any-return]  # the keywords are right

    if run("-c", "import pytest, msgspec").returncode:
        pytest.skip("the sources or their libraries are closed to other users")
    plain = ("-n0", "-q", "-x", "-m", "not whoever", "-p", "no:cacheprovider", f"--basetemp={base}/run")
    return run("-m", "pytest", *plain, str(file), *more)
