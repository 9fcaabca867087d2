"""Test runs of a request: what lies outside the project is asked about, and no fixer is called for it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.contracts import ContractsProject


def test_a_missing_environment_is_asked_about_and_the_tests_run_again(tmp_path: Path) -> None:
    project = ContractsProject(tmp_path / "p")
    old = project.path / "tests/test_old.py"
    old.write_text(f"import shapely\n{old.read_text()}")
    assert project.contracts().returncode == 3
    asked = project.run("inbox").stdout
    assert "cannot do its work here: Python has no module shapely. Answer when it is cured" in asked
    assert "needed: python3 -m venv .venv && .venv/bin/python -m pip install shapely" in asked
    (project.path / "shapely.py").write_text("")
    done = project.run("answer", "last", "installed", "--no-input", "--json", timeout=120)
    assert json.loads(done.stdout.splitlines()[-1])["status"] == "completed", done.stderr
    assert ("implementer", "fixer", "fix") not in project.calls()
