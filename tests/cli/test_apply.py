"""`orchestra apply` writes a run's result as a commit, and nothing that a repository brings along ever runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.test_undo import files, furnished, loop
from tests.support.project import PLAN, RIGHT_PATCH, Project, conforms, new_file, records, reply, role
from tests.support.repository import EMAIL, IDENTITY, NAME, git, hostile, repository


def placed(path: Path) -> Project:
    project = furnished(path)
    repository(path)
    return project


def test_a_branch_gets_the_result_and_nothing_else_is_touched(tmp_path: Path) -> None:
    project = placed(tmp_path / "p")
    began = git(project.path, "rev-parse", "HEAD")
    run = loop(project)
    created = project.events_of(run)[0]
    assert created.payload["git"] == {"commit": began, "branch": "main", "uncommitted": 0}
    now, status = files(project), git(project.path, "status", "--porcelain")
    done = project.run("apply", run, "--branch", "fix/더하기", env=IDENTITY)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(git(project.path, "rev-parse", "fix/더하기")[:12])
    assert git(project.path, "rev-parse", "fix/더하기^") == began == git(project.path, "rev-parse", "HEAD")
    text = git(project.path, "show", "-s", "--format=%an <%ae>|%cn|%B", "fix/더하기")
    assert text == f"{NAME} <{EMAIL}>|{NAME}|make add() add\n\nOrchestra-Run: {run}"
    assert (
        git(project.path, "log", "-1", "--format=%(trailers:key=Orchestra-Run,valueonly)", "fix/더하기").strip() == run
    )
    assert (files(project), git(project.path, "status", "--porcelain")) == (now, status)
    git(project.path, "add", "-A")
    assert git(project.path, "diff", "--cached", "fix/더하기") == ""  # to the byte and the mode
    assert git(project.path, "fsck", "--strict") == ""
    meant = project.run("apply", "--branch", "뜻한 것", env=IDENTITY)
    assert meant.returncode == 2 and f"run @1 {run}" in meant.stderr  # the run is known, and the name is no branch's
    assert project.run("undo", run).returncode == 0
    none = project.run("apply", "--commit", env=IDENTITY)
    assert (none.returncode, none.stderr) == (
        2,
        "orchestra: no run here has left changes; to apply a certain run: orchestra apply RUN\n",
    )
    here = project.run("apply", run, "--commit", env=IDENTITY)
    assert here.returncode == 1 and "or the run was undone" in here.stderr and "--branch NAME" in here.stderr
    assert project.run("apply", run, "--branch", "again", env=IDENTITY).returncode == 0  # known after an undo, too
    assert git(project.path, "diff", "again", "fix/더하기") == ""
    exists = project.run("apply", run, "--branch", "main", env=IDENTITY)
    assert exists.returncode == 2 and "main exists already" in exists.stderr
    conforms(project)


def test_the_branch_checked_out_gets_the_commit_and_other_changes_stay(tmp_path: Path) -> None:
    project = placed(tmp_path / "p")
    (project.path / "mine.txt").write_text("staged\n")
    git(project.path, "add", "mine.txt")
    tool = project.run("tool", "run", "--no-input", "--", "true")
    assert "(to keep them apart: commit first): " in tool.stderr  # only a loop has --worktree
    warned = project.run(
        *("loop", "make add() add", "--check", project.check, "--approval", "never", "--no-input"),
        *("--provider", f"scripted:{project.script}"),
    )
    assert (
        "uncommitted changes will mix with the run's (to keep them apart: commit first, or --worktree): mine.txt\n"
        in (warned.stderr)
    )
    done = project.run("apply", "last", "--commit", "-m", "덧셈\n\n자세히", env=IDENTITY)
    assert done.returncode == 0, done.stderr
    assert git(project.path, "status", "--porcelain") == "A  mine.txt"
    assert git(project.path, "show", "-s", "--format=%s|%b").startswith("덧셈|자세히\n\nOrchestra-Run: ")
    assert "mine.txt" not in git(project.path, "show", "--stat", "--format=")
    assert git(project.path, "fsck", "--strict") == ""
    again = project.run("apply", "last", "--commit", env=IDENTITY)
    assert again.returncode == 1 and git(project.path, "rev-list", "--count", "HEAD") == "2"
    conforms(project)


@pytest.mark.parametrize("how", ["changed", "staged", "dirty", "locked", "nobody"])
def test_what_cannot_be_committed_is_named_and_nothing_is_written(tmp_path: Path, how: str) -> None:
    project = placed(tmp_path / "p")
    if how == "dirty":  # on the very lines that the run changes
        text = "def add(a, b):\n    return a - b\n# 뺄셈\n"
        (project.path / "calc.py").write_text(text.replace("a - b", "a % b"))
        git(project.path, "commit", "-qam", "other")
        (project.path / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    run = loop(project)
    if how == "changed":
        (project.path / "win.txt").write_text("mine\n")
    if how == "staged":
        (project.path / "win.txt").write_text("mine\n")
        git(project.path, "add", "win.txt")
        (project.path / "win.txt").write_bytes(b"one\r\nzwei\r\n")
    if how == "locked":
        (project.path / ".git" / "refs" / "heads" / "main.lock").touch()
    before = git(project.path, "rev-parse", "HEAD")
    nobody = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "EMAIL": ""}
    done = project.run("apply", run, "--commit", env=nobody if how == "nobody" else IDENTITY)
    said = {
        "changed": (1, "win.txt changed since the run"),
        "staged": (1, "win.txt is staged with other changes"),
        "dirty": (1, "calc.py was not as in the commit when the run began"),
        "locked": (1, "main.lock exists"),
        "nobody": (2, "git config --global user.name"),
    }[how]
    assert (done.returncode, said[1] in done.stderr) == (said[0], True), done.stderr
    assert git(project.path, "rev-parse", "HEAD") == before


def test_uncommitted_lines_elsewhere_in_a_file_are_not_committed(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    text = "def add(a, b):\n    return a - b\n" + "# 줄\n" * 20
    (project.path / "calc.py").write_text(text)
    repository(project.path)
    (project.path / "calc.py").write_text(text + "mine = 1\n")
    run = loop(project)
    assert project.run("apply", run, "--commit", env=IDENTITY).returncode == 0
    committed = git(project.path, "show", "HEAD:calc.py")
    assert "a + b" in committed and "mine" not in committed
    assert git(project.path, "diff", "--stat").endswith("1 file changed, 1 insertion(+)")


def test_a_patch_that_a_kill_cut_short_is_finished_before_the_result_is_committed(tmp_path: Path) -> None:
    begun = reply(new_file("하나.txt", "1"))
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", begun), role("fixer", RIGHT_PATCH))
    repository(project.path)
    run, journal = loop(project), project.folder.events
    lines = journal.read_bytes().splitlines(keepends=True)
    _, second = [number for number, line in enumerate(lines) if b'"PATCH_APPLIED"' in line]
    journal.write_bytes(b"".join(lines[:second]))
    refused = project.run("apply", run, "--branch", "half", env=IDENTITY)
    assert refused.returncode == 2 and "was killed while it wrote a patch" in refused.stderr
    assert git(project.path, "branch", "--list", "half") == ""


def test_a_project_below_the_top_commits_its_own_paths(tmp_path: Path) -> None:
    top = tmp_path / "top"
    project = Project(top / "안" / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    repository(top)
    project.configure("version: '1.0'\n")  # its own project: without this, the folder of the repository is the project
    run = loop(project)
    assert project.run("apply", run, "--commit", env=IDENTITY).returncode == 0
    assert git(top, "show", "--stat", "--format=", "HEAD").startswith(" 안/p/calc.py")


def test_nothing_of_a_hostile_repository_runs_and_its_configuration_is_never_opened(tmp_path: Path) -> None:
    project = placed(tmp_path / "p")
    marker = tmp_path / "ran"
    hostile(project.path, marker)
    git(project.path, "add", "calc.py", check=False)
    assert marker.exists()  # the trap works: git itself runs what the repository asks for
    marker.unlink()
    git(project.path, "-c", "core.fsmonitor=false", "reset", "-q", check=False)
    marker.unlink(missing_ok=True)
    config = project.path / ".git" / "config"
    config.unlink()
    os.mkfifo(config)  # who opens it waits forever
    (project.path / ".gitattributes").unlink()
    done = project.loop("--approval", "never", "--worktree")
    assert done.returncode == 0, done.stderr
    run = records(done.stdout)[0]["runId"]
    for words in (("diff", run), ("apply", run, "--branch", "b"), ("apply", run, "--commit"), ("undo", run)):
        said = project.run(*words, env=IDENTITY, timeout=30)
        assert said.returncode == 0, (words, said.stderr)
    assert not marker.exists()
    config.unlink()
    config.write_text("")
    assert git(project.path, "show", "-s", "--format=%an", "main") == NAME
    assert json.loads(done.stdout.splitlines()[-1])["status"] == "completed"
