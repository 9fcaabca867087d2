"""uv, poetry, pipenv, tox and nox: refused before anything is paid where they could not work, or would test a copy."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from orchestra.commands.environment import Environment
from orchestra.commands.runners import refused_runner
from tests.support.project import PLAN, RIGHT_PATCH, Project, role


def made(folder: Path, *, copied: bool = False) -> Path:
    site = folder / "lib/python3.11/site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "pyvenv.cfg").touch()
    if copied:
        (site / "pkg-1.dist-info").mkdir()
    return folder


def refused(work: Path, command: str, environment: Environment | None = None) -> str:
    return refused_runner(tuple(shlex.split(command)), environment or Environment(), str(work))


@pytest.mark.parametrize(
    ("command", "first"),
    [("uv run pytest -q", "uv sync"), ("poetry run pytest", "poetry install"), ("pipenv run x", "pipenv install")],
)
def test_a_manager_needs_an_environment_that_is_there(tmp_path: Path, command: str, first: str) -> None:
    assert first in refused(tmp_path, command)
    place = str(made(tmp_path / ".venv"))
    assert refused(tmp_path, command, Environment(folder=place, real=place)) == ""
    assert refused(tmp_path, f"{command.split()[0]} --version") == ""


def test_tox_is_taken_if_its_environments_hold_the_projects_files(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "pkg"\n')
    (tmp_path / "tox.ini").write_text("[testenv]\ncommands =\n    pytest -q tests {posargs}\n    other\n")
    assert "--check 'pytest -q tests'" in refused(tmp_path, "tox")
    made(tmp_path / ".tox/lint")
    assert refused(tmp_path, "tox run -e lint") == ""
    made(tmp_path / ".tox/py311", copied=True)
    assert "the copy installed in .tox/py311, not your files" in refused(tmp_path, "tox")
    assert refused(tmp_path, "tox --version") == ""


@pytest.mark.parametrize("text", ["[testenv]\ncommands = {envpython} -m pytest\n", "broken", ""])
def test_a_command_of_tox_that_cannot_be_typed_is_replaced_by_an_example(tmp_path: Path, text: str) -> None:
    (tmp_path / "tox.ini").write_text(text)
    assert "--check 'pytest -q'" in refused(tmp_path, "tox")


def test_nox_is_taken_if_it_installs_nothing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "pkg"\n')
    assert "--check 'nox -R -s tests'" in refused(tmp_path, "nox -s tests")
    assert "run nox once yourself" in refused(tmp_path, "nox -R")
    made(tmp_path / ".nox/tests")
    assert refused(tmp_path, "nox -R") == refused(tmp_path, "nox -r --no-install") == ""
    made(tmp_path / ".nox/other", copied=True)
    assert "not your files" in refused(tmp_path, "nox -R")


def test_a_loop_refuses_before_anything_is_paid(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/uv").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "bin/uv").chmod(0o755)
    project.check = "uv run pytest -q"
    done = project.loop("--approval", "never", env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"})
    assert done.returncode == 2 and "First: uv sync" in done.stderr and project.runs == []
