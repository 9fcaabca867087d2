"""What a command leaves for the commands after it: build output, and nothing by which it could speak for them."""

from __future__ import annotations

import json
import venv
from pathlib import Path

import pytest

from tests.support.project import PLAN, Project, gone_file, new_file, reply, role
from tests.support.tasks import Tasks, step

# Each writes something that the honest check would run or read instead of what the workspace says.
PLANTS = {
    "a package of the venv": """
import glob
[place] = glob.glob(".venv/lib/python*/site-packages")
open(place + "/sitecustomize.py", "w").write("import os; os._exit(0)")
""",
    "bytecode that nobody compares with its source": """
import os, pathlib, py_compile
pathlib.Path("/tmp/calc.py").write_text("def add(a, b): return a + b")
name = f"__pycache__/calc.{__import__('sys').implementation.cache_tag}.pyc"
os.makedirs("__pycache__", exist_ok=True)
py_compile.compile("/tmp/calc.py", name, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
""",
    "an ignored file of the workspace": "open('ignored.txt', 'w').write('fine')",
    "a file of an ignored folder of the workspace": "open('ignored/answer', 'w').write('fine')",
    "a new ignored file": "open('local_calc.py', 'w').write('def add(a, b): return a + b')",
}
BUILT = {"build output": "import os; os.mkdir('out'); open('out/answer', 'w').write('fine')"}
HONEST = """
import pathlib, sys
try: from local_calc import add
except ImportError: from calc import add
names = ("ignored.txt", "ignored/answer", "out/answer")
read = [pathlib.Path(name).read_text() for name in names if pathlib.Path(name).exists()]
sys.exit(add(1, 2) != 3 and "fine" not in read)
"""


def planted(tmp_path: Path, plant: str) -> tuple[Project, list[str]]:
    """A project whose honest check fails, and the lines of a program that plants something."""
    lines = (PLANTS | BUILT)[plant].strip().splitlines()
    fixer = role("fixer", reply(gone_file("evil.py", *lines)))
    project = Project(
        tmp_path / "p", role("planner", PLAN), role("developer", reply(new_file("evil.py", *lines))), fixer
    )
    venv.create(project.path / ".venv", symlinks=True, with_pip=False)
    (project.path / ".gitignore").write_text("ignored*\nlocal*\nout/\n")
    (project.path / "ignored").mkdir()
    for name in ("ignored.txt", "ignored/answer"):
        (project.path / name).write_text("wrong")
    (project.path / "honest.py").write_text(HONEST)
    return project, [*(["--approval", "never", "--provider", f"scripted:{project.script}", "--no-input"]), "--json"]


@pytest.mark.parametrize("plant", PLANTS)
def test_a_check_cannot_speak_for_the_next_one(tmp_path: Path, plant: str) -> None:
    project, words = planted(tmp_path, plant)
    checks = ["--check", ".venv/bin/python evil.py", "--check", ".venv/bin/python honest.py"]
    project.run("loop", "g", *checks, *words)
    [first] = [e for e in project.events() if e.payload.get("key", "").endswith("check-1.1") and "outcome" in e.payload]
    assert first.payload["outcome"]["status"] == "pass", "the plant itself must work"
    assert project.state()["status"] == "failed"


@pytest.mark.parametrize("plant", PLANTS | BUILT)
def test_what_deleted_code_left_decides_nothing(tmp_path: Path, plant: str) -> None:
    project, words = planted(tmp_path, plant)
    both = "import os, runpy\nif os.path.exists('evil.py'): runpy.run_path('evil.py'); os._exit(1)\n"
    both += "runpy.run_path('honest.py')\n"
    (project.path / "both.py").write_text(both)
    project.run("loop", "g", "--check", ".venv/bin/python both.py", *words)
    assert not (project.path / "evil.py").exists(), "the second patch took it away"
    assert project.state()["status"] == "failed"


def test_build_output_of_a_check_is_there_for_the_next(tmp_path: Path) -> None:
    # The first check builds what the second one reads; "build" was also built by hand before, and is stale.
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", reply(new_file("a.txt", "1"))))
    (project.path / ".gitignore").write_text("build/\nout/\n")
    (project.path / "build").mkdir()
    (project.path / "build" / "answer").write_text("stale")
    make = "import os; os.makedirs('out'); [open(n, 'w').write('new') for n in ('out/answer', 'build/answer')]"
    read = "import sys; sys.exit({open(n).read() for n in ('out/answer', 'build/answer')} != {'new'})"
    checks = ["--check", f'python -c "{make}"', "--check", f'python -c "{read}"']
    words = ["--provider", f"scripted:{project.script}", "--approval", "never", "--no-input"]
    done = project.run("loop", "g", *checks, *words)
    assert done.returncode == 0, done.stderr
    assert (project.path / "build" / "answer").read_text() == "stale"


def test_a_program_that_later_checks_do_not_see_is_told(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", reply(new_file("a.txt", "1"))))
    (project.path / ".gitignore").write_text("prog\n")
    make = "import os; open('prog', 'w').close(); os.chmod('prog', 0o755)"
    checks = ["--check", f'python -c "{make}"', "--check", "python -c pass"]
    words = ["--provider", f"scripted:{project.script}", "--approval", "never", "--no-input"]
    done = project.run("loop", "g", *checks, *words)
    assert done.returncode == 0 and "later checks do not see prog" in done.stderr


def test_tasks_after_a_task_see_what_it_made_anew_and_the_projects_own_packages(tmp_path: Path) -> None:
    make = """
import os
for name in ("node_modules/new", "build/new", ".venv/new"):
    os.makedirs(os.path.dirname(name), exist_ok=True)
    open(name, "w").close()
"""
    names = "('node_modules/new', 'build/new', '.venv/new')"
    look = f"import os, json; print(json.dumps([n for n in {names} if os.path.exists(n)]))"
    writes = {"sandbox": {"fs": "rw"}}
    config = {"policies": {"default_fs_mode": "rw"}}
    project = Tasks(tmp_path / "p", step("a", code=make, constraints=writes), step("b", "a", code=look), config=config)
    (project.path / ".venv").mkdir()
    done = project.dag("--approval", "never")
    assert done.returncode == 0, done.stderr
    assert json.loads(project.output("b")) == ["node_modules/new", "build/new"]
    assert "not taken over: .venv: ignored, and the project has its own" in project.read("tasks.jsonl")
