"""The range, as whoever runs the tests and, from root, as an unprivileged user: no attempt succeeds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import orchestra
from tests.range.bombs import BOMBS
from tests.range.cases import CATEGORIES
from tests.support.others import NOBODY, SYSTEM_PYTHON, needs_open_checkout, system_python

ROOT = Path(__file__).parents[2]
USERS = [
    "as we are",
    *(pytest.param(user, marks=needs_open_checkout) for user in ("unprivileged", "root, commands as another")),
]
# Small parts, so that a failure is found soon and two workers share them.
BOMB_PARTS = [list(BOMBS)[at : at + 6] for at in range(0, len(BOMBS), 6)]


def drive(category: str, user: str, *arguments: str) -> dict[str, Any]:
    """Run a category in a process of that user's."""
    if user != "as we are" and os.getuid() != 0:
        pytest.skip("only root can become another")
    python, uid = sys.executable, None
    packages = [str(Path(orchestra.__file__).parents[1])]
    if user == "unprivileged":
        if sys.version_info[:2] != system_python():
            pytest.skip("the interpreter of the tests may lie in root's home, and the system's is another version")
        python, uid = SYSTEM_PYTHON, NOBODY
        packages += [path for path in sys.path if path.endswith("site-packages")]
    if user == "root, commands as another":
        arguments += ("--run-as", str(NOBODY))
    done = subprocess.run(
        [python, "-B", "-m", "tests.range.drive", category, *arguments],
        capture_output=True, text=True, timeout=300, cwd=ROOT, user=uid, group=uid, extra_groups=[] if uid else None,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(packages), "LANG": "C.UTF-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_range_is_large_enough() -> None:
    assert sum(map(len, CATEGORIES.values())) + len(BOMBS) >= 120


@pytest.mark.spec("S2-136", "S2-137")
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("category", CATEGORIES)
def test_no_escape(category: str, user: str) -> None:
    found = drive(category, user)
    fine = ("refused", "done") if category == "harmless" else ("refused",)
    assert {name: said for name, said in found["said"].items() if not said.startswith(fine)} == {}
    assert found["said"].keys() == CATEGORIES[category].keys()
    assert found["outside"] == {}


@pytest.mark.parametrize("user", USERS[:2])
@pytest.mark.parametrize("names", BOMB_PARTS, ids=lambda names: names[0])
def test_bombs_are_ended_and_nothing_stays(names: list[str], user: str) -> None:
    found = drive("bombs", user, "--only", *names)
    assert {name: said for name, said in found["said"].items() if not said.startswith("ended")} == {}
    assert found["said"].keys() == set(names)
    assert found["outside"] == {}
