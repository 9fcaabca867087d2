"""What the program does before anything else: it imports nothing of the project, and dumps no key."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import pytest

import orchestra
from tests.support.others import NOBODY, SYSTEM_PYTHON, needs_open_checkout, system_python
from tests.support.project import PLAN, PROGRAM, Project, role, until

THEIRS = ("click", "msgspec", "rich", "yaml", "httpx2", "pathspec", "ahocorasick_rs", "xllamacpp", "anyio", "h11")
TRAP = "import os\nopen(os.environ['MARK'], 'a').write(__name__ + ' ')\nraise SystemExit('the project was imported')\n"


@pytest.fixture
def trapped(tmp_path: Path) -> Project:
    """A project with modules of every name that orchestra or Python may want, each of which leaves a mark."""
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", "no patch"))
    (project.path / "orchestra.config.yaml").write_text("retries: {backoff_base_sec: 0.01}\n")
    for name in THEIRS:
        (project.path / f"{name}.py").write_text(TRAP)
    return project


def arguments(project: Project) -> list[list[str]]:
    loop = ["loop", "목표", "--check", "true", "--provider", f"scripted:{project.script}", "--no-input"]
    return [["--version"], ["runs"], loop]


def marks(project: Project, program: list[str], env: dict[str, str]) -> str:
    """What of the project was imported."""
    mark = project.path.parent / "mark"
    for words in arguments(project):
        done = subprocess.run(
            [*program, *words],
            cwd=project.path,
            env={**os.environ, "MARK": str(mark), **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert "the project was imported" not in done.stderr and "Traceback" not in done.stderr, done.stderr
    return mark.read_text() if mark.exists() else ""


def test_python_m_imports_nothing_of_the_folder_it_stands_in(trapped: Project) -> None:
    before = "import runpy, sys; print(*sys.modules)"  # what Python itself loads for `-m`, before any code of ours
    loaded = subprocess.run([sys.executable, "-c", before], capture_output=True, text=True, check=True).stdout.split()
    for name in sys.stdlib_module_names - set(loaded):
        (trapped.path / f"{name}.py").write_text(TRAP)
    assert marks(trapped, [sys.executable, "-m", "orchestra"], {}) == ""
    assert len(trapped.runs) == 1


@pytest.mark.parametrize("path", [".", "/nowhere::/also/nowhere"])
def test_nor_does_it_if_the_search_path_names_that_folder(trapped: Project, path: str) -> None:
    assert marks(trapped, [PROGRAM], {"PYTHONPATH": path}) == ""


def test_it_runs_from_the_folder_its_own_packages_are_in(tmp_path: Path) -> None:
    for module in (click, orchestra):
        folder = Path(str(module.__file__)).parents[1]
        for program in ([sys.executable, "-m", "orchestra"], [sys.executable, "-P", "-m", "orchestra"], [PROGRAM]):
            done = subprocess.run([*program, "runs", "-C", str(tmp_path)], cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr


def crash_limits(pid: int) -> tuple[str, str]:
    """The limit of a process's core dumps, and which of its memory goes into one."""
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    core = next(line for line in limits if line.startswith("Max core file size"))
    return " ".join(core.split()[4:6]), Path(f"/proc/{pid}/coredump_filter").read_text().strip()


def program_of(user: int | None) -> tuple[list[str], dict[str, str]]:
    """The program and what it needs to find its packages, as this user may start it."""
    if user is None:
        return [PROGRAM], {}
    if os.getuid() != 0 or sys.version_info[:2] != system_python():
        pytest.skip("only root can become another user, with the system's Python if that is of the same version")
    packages = [
        str(Path(orchestra.__file__).parents[1]),
        *(path for path in sys.path if path.endswith("site-packages")),
    ]
    return [SYSTEM_PYTHON, "-B", "-m", "orchestra"], {"PYTHONPATH": ":".join(packages)}


@pytest.mark.parametrize("user", [None, pytest.param(NOBODY, marks=needs_open_checkout)])
def test_a_crash_leaves_no_core_dump_and_commands_run_as_before(user: int | None) -> None:
    program, env = program_of(user)
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))  # pytest's own folders are closed to others
    try:
        project = Project(place / "p", role("planner", PLAN, delayMs=60_000))
        for path in (place, project.path, project.script):
            os.chown(path, user or -1, user or -1)
        options: dict[str, Any] = {
            "cwd": project.path,
            "env": {**os.environ, **env, "HOME": str(place), "XDG_CACHE_HOME": str(place / "cache")},
            "user": user,
            "group": user,
            "extra_groups": [] if user else None,
            "stdin": subprocess.DEVNULL,
        }
        echo = subprocess.run(
            [*program, "tool", "run", "--", "echo", "안녕"], capture_output=True, text=True, **options
        )
        assert (echo.returncode, echo.stdout) == (0, "안녕\n"), echo.stderr
        loop = [*program, "loop", "g", "--check", "true", "--no-input", "--provider", f"scripted:{project.script}"]
        free = ["sh", "-c", 'ulimit -c unlimited; exec "$0" "$@"', *loop]
        with subprocess.Popen(free, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options) as running:
            try:
                until(lambda: list(project.path.glob(".runs/workflows/*/artifacts/plan/*.part")))
                assert crash_limits(running.pid) == ("0 0", "00000000")
                running.send_signal(signal.SIGABRT)
                assert running.wait() == -signal.SIGABRT
            finally:
                running.kill()
        assert [*place.rglob("core*")] == []
    finally:
        shutil.rmtree(place)


def test_a_command_of_the_tests_is_what_a_person_starts(tmp_path: Path) -> None:
    """Tests fork a program that is loaded (tests/support/warm.py): it says, writes and exits as one that is started."""
    loop = ("loop", "g", "--check", "grep -q 'a + b' calc.py", "--no-input", "--approval", "never")
    ended: list[list[tuple[int, str, str]]] = []
    for name, run in (("cold", _started), ("warm", Project.run)):
        project = Project(tmp_path / name / "p")
        words = [
            ("--help",),
            ("runs",),
            ("bogus",),
            (*loop, "--provider", f"scripted:{project.script}"),
            ("show", "last"),
        ]
        done = [run(project, *line) for line in words]
        done.append(run(project, *words[3], env={"ORCHESTRA_CHAOS": "5:torn"}))
        assert [one.returncode for one in done] == [0, 0, 2, 0, 0, -9] and len(project.runs) == 2
        ended.append([(one.returncode, _timeless(one.stdout, name), _timeless(one.stderr, name)) for one in done])
    for cold, warm in zip(*ended, strict=True):
        assert cold == warm


def _started(project: Project, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    words, given = [PROGRAM, *arguments], {**os.environ, **(env or {})}
    return subprocess.run(words, cwd=project.path, env=given, stdin=-3, capture_output=True, text=True, check=False)


def _timeless(text: str, name: str) -> str:
    text = text.replace(f"/{name}/", "/")
    return re.sub(r"\d\d:\d\d:\d\d[.0-9Z]*|[0-9.]+ ?m?s\b|sha256:[0-9a-f]+", "…", text)
