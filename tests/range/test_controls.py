"""The range's other half: ordinary work works, through the real program; blocking everything does not pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.tasks import Tasks

SITE = Path(sysconfig.get_paths()["purelib"])
SERVER = """
import multiprocessing as mp, sys

def square(number):
    return number * number

if __name__ == "__main__":
    with mp.get_context(sys.argv[1]).Pool(2) as pool:
        print(pool.map(square, range(4)))
"""
SQLITE = """
import sqlite3
base = sqlite3.connect("data.db")
base.execute("pragma journal_mode=wal")
base.execute("create table t(x)")
base.execute("insert into t values (?)", ("한글",))
base.commit()
print(base.execute("select x from t").fetchone()[0])
"""
EVERYDAY = """
import os, pathlib, socket, tempfile, threading, subprocess, fcntl, mmap, asyncio
with tempfile.NamedTemporaryFile() as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    file.write(b"x" * 4096); file.flush()
    mmap.mmap(file.fileno(), 4096).close()
one, other = socket.socketpair(); one.send(b"x"); other.recv(1)
server = socket.create_server(("127.0.0.1", 0)); socket.create_connection(server.getsockname()).close()
threads = [threading.Thread(target=int) for _ in range(20)]
[t.start() for t in threads]; [t.join() for t in threads]
pathlib.Path("한글 이름").mkdir(); pathlib.Path("한글 이름", "파일").write_text("내용")
os.symlink("한글 이름", "link"); os.link("link/파일", "hard"); os.rename("hard", "moved")
asyncio.run(asyncio.sleep(0)); os.getpriority(os.PRIO_PROCESS, 0)
pathlib.Path(os.path.expanduser("~/.config/x")).mkdir(parents=True)
print(subprocess.run(["sh", "-c", "echo $((1+1)) | tr 2 3"], capture_output=True, text=True).stdout.strip(), end="")
"""

SHARED = """
import os, pathlib, shutil
from multiprocessing import shared_memory
shared = shared_memory.SharedMemory(create=True, size=1 << 20); shared.close(); shared.unlink()
pathlib.Path("tree/a").mkdir(parents=True); shutil.copytree("tree", "copy"); os.chmod("tree", 0o1777)
print("done")
"""


@pytest.fixture
def project(tmp_path: Path) -> Tasks:
    return Tasks(tmp_path / "p")


def run(project: Tasks, *words: str) -> str:
    """The output of a command that must work, and must leave the workspace as it was."""
    before = sorted(str(path) for path in project.path.rglob("*") if "runs" not in path.parts)
    done = project.run("tool", "run", "--", *words, timeout=120)
    assert done.returncode == 0, done.stderr
    assert sorted(str(path) for path in project.path.rglob("*") if "runs" not in path.parts) == before
    return done.stdout.strip()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(project: Tasks, method: str) -> None:
    (project.path / "server.py").write_text(SERVER)
    assert run(project, "python", "server.py", method) == "[0, 1, 4, 9]"


def test_a_database_file(project: Tasks) -> None:
    assert run(project, "python", "-c", SQLITE) == "한글"


def test_what_programs_do_every_day(project: Tasks) -> None:
    assert run(project, "python", "-c", EVERYDAY) == "3"


def test_shared_memory_and_copied_trees(project: Tasks) -> None:
    assert run(project, "python", "-c", SHARED) == "done"


def test_pytest_from_the_projects_own_venv(project: Tasks) -> None:
    venv.create(project.path / ".venv", symlinks=True, with_pip=False)
    [packages] = (project.path / ".venv" / "lib").glob("python*/site-packages")
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        shutil.copytree(SITE / name, packages / name)
    shutil.copy(SITE / "py.py", packages)
    (project.path / "test_calc.py").write_text("from calc import add\n\ndef test_add():\n    assert add(3, 1) == 2\n")
    project.settings({"tools": {"python": ".venv/bin/python"}})
    assert "1 passed" in run(project, "python", "-m", "pytest", "-q")


def test_an_interpreter_outside_usr(project: Tasks) -> None:
    said = run(project, "python", "-c", "import sys, ssl, ctypes, lzma; print(sys.prefix)")
    assert os.path.isdir(said)


def test_pip_installs_from_a_local_folder(project: Tasks) -> None:
    (project.path / "wheels").mkdir()
    with zipfile.ZipFile(project.path / "wheels" / "hello-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("hello.py", "WORD = '안녕'\n")
        wheel.writestr("hello-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1\n")
        wheel.writestr("hello-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("hello-1.dist-info/RECORD", "hello.py,,\n")
    code = """
import subprocess, sys
where = ["--no-index", "--find-links", "wheels", "--target", "/tmp/out"]
subprocess.run([sys.executable, "-m", "pip", "install", "-q", *where, "hello"], check=True)
sys.path.insert(0, "/tmp/out")
import hello
print(hello.WORD)
"""
    base = os.path.realpath(sys.executable)  # a virtual environment need not have pip
    assert run(project, base, "-c", code).splitlines()[-1] == "안녕"


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_git_reads_and_writes_its_copy(project: Tasks) -> None:
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-C", str(project.path)]
    for words in (["init", "-q"], ["add", "calc.py"], ["commit", "-q", "-m", "처음"]):
        subprocess.run([*git, *words], check=True, env={"HOME": "/nonexistent", "PATH": os.environ["PATH"]})
    assert "처음" in run(project, "git", "log", "--oneline")
    assert "nothing to commit" in run(project, "git", "status", "-uno")
    said = run(project, "git", "-c", "user.name=t", "-c", "user.email=t@e", "commit", "--allow-empty", "-m", "inside")
    assert "inside" in said
    assert "inside" not in run(project, "git", "log", "--oneline"), "the commit stayed in the copy"


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_a_node_script(project: Tasks) -> None:
    script = "const{Worker}=require('worker_threads');new Worker('console.log(6*7)',{eval:true})"
    assert run(project, "node", "-e", script) == "42"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler")
def test_a_compiler(project: Tasks) -> None:
    (project.path / "a.c").write_text('#include <stdio.h>\nint main(){puts("built");return 0;}\n')
    build = "import subprocess; subprocess.run(['gcc', 'a.c', '-o', 'a.out'], check=True); subprocess.run(['./a.out'])"
    assert run(project, "python", "-c", build) == "built"
