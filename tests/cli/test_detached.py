"""Runs that go on without a terminal: --detach, the `notify:` command, and what waits in all projects."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from orchestra.core.projects import Projects
from tests.support.inside import said
from tests.support.project import PLAN, RIGHT_PATCH, WRONG_PATCH, Project, role, sleeping, until

REPLIES = (role("planner", PLAN), role("developer", RIGHT_PATCH))
REST = ("--no-baseline", "--no-input")


def start(project: Project, *more: str, goal: str = "고치기") -> str:
    words = ("loop", goal, "--check", project.check, "--provider", f"scripted:{project.script}", *REST)
    done = project.run(*words, *more)
    assert done.returncode in (0, 3), done.stderr
    return done.stderr


def status(project: Project) -> str:
    found: str = project.state()["status"] if project.runs and project.folder.state.exists() else ""
    return found


def test_a_detached_run_goes_on_in_a_process_of_its_own(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *REPLIES)
    err = start(project, "--detach", "--yes")
    assert "orchestra watch " in err and "orchestra cancel " in err
    until(lambda: status(project) == "completed")
    assert "a + b" in project.calc()


def test_a_detached_run_outlives_the_session_and_can_be_canceled(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *REPLIES)
    project.check = sleeping(project.path)
    err = start(project, "--detach", "--yes")
    pid = int(err.rpartition("process ")[2].split()[0])
    assert os.getsid(pid) == pid, "it has no terminal that could end it"
    assert project.run("cancel").returncode == 0
    until(lambda: status(project) == "canceled")


def test_a_detached_run_that_cannot_be_driven_says_why(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *REPLIES)
    project.loop("--no-baseline")  # waits
    run = project.folder.id
    project.script.unlink()
    done = project.run("resume", run, "--detach", "--accept-drift", "no such key")
    assert done.returncode != 0 or status(project) == "awaiting_approval"
    models = ("--provider", f"scripted:{project.script}")
    turn = project.run("chat:turn", "--session", "s1", "--message", "hello", "--detach", *models)
    assert turn.returncode == 2 and "--detach" in turn.stderr
    undone = project.run("undo", run, "--detach")
    assert undone.returncode == 2 and "--detach" in undone.stderr


def test_a_detached_resume_uses_the_provider_that_was_typed(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", WRONG_PATCH))
    assert project.loop().returncode == 3
    assert project.run("reject", "last", "--reason", "아니", "--no-drive").returncode == 0
    other = Project(tmp_path / "other", role("developer", RIGHT_PATCH), role("fixer", RIGHT_PATCH))
    done = project.run("resume", "last", "--provider", f"scripted:{other.script}", "--approval", "never", "--detach")
    assert done.returncode == 0, done.stderr
    until(lambda: status(project) == "completed")
    assert "a + b" in project.calc()


def notified(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def configure(project: Project, path: Path) -> None:
    code = "import json, os, sys; e = json.dumps({**os.environ, 'cwd': os.getcwd()})"
    code += "; open(sys.argv[1], 'a').write(e + chr(10))"
    project.configure(json.dumps({"notify": ["python3", "-c", code, str(path)]}))


def test_the_persons_command_is_told_when_a_run_waits_and_ends(tmp_path: Path) -> None:
    project, told = Project(tmp_path / "p", *REPLIES), tmp_path / "told"
    configure(project, told)
    start(project, goal="고치기 'x'; $(touch y)")
    until(lambda: len(notified(told)) == 1)
    assert project.run("approve").returncode == 0
    until(lambda: len(notified(told)) == 2)
    waits, ended = notified(told)
    assert [one["ORCHESTRA_RUN_STATUS"] for one in (waits, ended)] == ["awaiting_approval", "completed"]
    assert waits["ORCHESTRA_RUN_ID"] == project.folder.id and waits["ORCHESTRA_RUN_NUMBER"] == "1"
    assert waits["ORCHESTRA_RUN_GOAL"] == "고치기 'x'; $(touch y)" and waits["ORCHESTRA_PROJECT"] == str(project.path)
    assert waits["cwd"] == os.environ["HOME"], "not in the project, where a patch could have put something"


def test_no_run_starts_before_the_person_agreed_to_the_command(tmp_path: Path) -> None:
    project, told = Project(tmp_path / "p", *REPLIES), tmp_path / "told"
    (project.path / "orchestra.config.yaml").write_text(json.dumps({"notify": ["touch", str(told)]}))
    done = project.loop()
    assert done.returncode == 5 and "notify" in done.stderr and project.runs == [] and not told.exists()


@pytest.mark.parametrize("argv", [["./bell.sh"], ["python3", "{project}/bell.py"], ["{project}/bell.sh"]])
def test_a_file_of_the_project_is_no_command_to_notify_by(tmp_path: Path, argv: list[str]) -> None:
    """A patch could change it, and it would run outside the sandbox."""
    project = Project(tmp_path / "p", *REPLIES)
    for name in ("bell.sh", "bell.py"):
        (project.path / name).write_text("#!/bin/sh\n")
        (project.path / name).chmod(0o755)
    project.configure(json.dumps({"notify": [word.format(project=project.path) for word in argv]}))
    for done in (project.loop(), project.run("config", "validate")):
        assert done.returncode == 2 and "notify:" in done.stderr and project.runs == []


def test_a_command_that_cannot_be_started_fails_no_run(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *REPLIES)
    project.configure(json.dumps({"notify": ["no-such-program"]}))
    assert "notify: " in start(project, "--yes") and status(project) == "completed"


# -- all projects -----------------------------------------------------------------------------------------------------


def test_the_inbox_of_all_projects_names_what_waits_and_what_stopped(tmp_path: Path) -> None:
    one, two = Project(tmp_path / "one", *REPLIES), Project(tmp_path / "둘", *REPLIES)
    start(one, goal="first")
    two.check = sleeping(two.path)
    err = start(two, "--detach", "--yes", goal="둘째")
    os.kill(int(err.rpartition("process ")[2].split()[0]), signal.SIGKILL)
    until(lambda: "stopped" in said(two.path, "runs").out)
    here = said(one.path, "inbox")
    assert "orchestra approve " in here.out and "둘째" not in here.out
    everywhere = said(one.path, "inbox", "--all").out
    resume = f"orchestra resume {two.folder.id} -C {two.path}"
    assert "orchestra approve " in everywhere and f"stopped: {resume}" in everywhere
    overview = said(two.path)
    assert overview.code == 0 and "stopped" in overview.out and "orchestra resume " in overview.out
    assert "1 run of other projects wait" in overview.out
    records = [json.loads(line) for line in said(two.path, "inbox", "--all", "--json").out.splitlines()]
    assert [record["project"] for record in records] == [str(one.path)]


def test_only_folders_of_this_user_are_known_projects(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *REPLIES)
    start(project)
    state = Path(os.environ["HOME"]) / ".local" / "state" / "orchestra" / "projects"
    [record] = state.iterdir()
    known = json.loads(record.read_text())

    def forge(name: str, **more: object) -> None:
        (state / f"{name}.json").write_text(json.dumps({**known, **more}))

    gone, link = tmp_path / "gone", tmp_path / "link"
    link.symlink_to(project.path)
    for name, path in (("a", gone), ("b", link), ("c", "relative"), ("d", "/proc/1/root\0")):
        forge(name, project=str(path))
    (state / "e.json").write_text("{")
    (state / "f.json").mkdir()
    found = list(Projects(os.environ, None).all())  # type: ignore[arg-type]  # it locks nothing to read
    assert found == [project.path]
    if os.geteuid() == 0:
        os.chown(project.path, 12345, 12345)
        assert list(Projects(os.environ, None).all()) == []  # type: ignore[arg-type]


def test_a_state_folder_that_cannot_be_written_costs_the_number_only(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *REPLIES)
    (tmp_path / "file").write_text("")
    key = {"ORCHESTRA_KEY": "0123456789abcdef0123", "XDG_STATE_HOME": str(tmp_path / "file")}
    done = project.loop("--no-baseline", env=key)
    assert done.returncode == 3, done.stderr
    assert project.run("runs", env=key).stdout.splitlines()[1].startswith("-  ")
