"""`orchestra undo` takes a run's changes back to the byte, or names what changed since; `diff` is the net change."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from orchestra.core.records import FINAL
from tests.patch.kill_driver import tree
from tests.support.project import (
    FIX_PATCH,
    PLAN,
    PROGRAM,
    RIGHT_PATCH,
    WRONG_PATCH,
    Project,
    ask,
    conforms,
    gone_file,
    new_file,
    records,
    reply,
    role,
)
from tests.support.terminal import Terminal

RENAMED = """\
diff --git a/옛 이름.txt b/더/새 이름.txt
rename from 옛 이름.txt
rename to 더/새 이름.txt
--- a/옛 이름.txt\t
+++ b/더/새 이름.txt\t
@@ -1,2 +1,2 @@
 하나
-둘
\\ No newline at end of file
+셋
\\ No newline at end of file
"""
WINDOWS = """\
diff --git a/win.txt b/win.txt
--- a/win.txt
+++ b/win.txt
@@ -1,2 +1,2 @@
 one\r
-two\r
+zwei\r
"""
RUNNABLE = """\
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
--- a/run.sh
+++ b/run.sh
@@ -1 +1,2 @@
 #!/bin/sh
+echo 안녕
"""
FIRST = WRONG_PATCH.split("[PATCH_BEGIN]\n")[1].split("[PATCH_END]")[0]
EVERYTHING = FIRST + RENAMED + WINDOWS + RUNNABLE + new_file("문서/깊이/새.md", "새") + gone_file("gone.txt", "bye")


def furnished(path: Path) -> Project:
    """A project with odd files, and a loop that changes all of them in two patches."""
    project = Project(path, role("planner", PLAN), role("developer", reply(EVERYTHING)), role("fixer", FIX_PATCH))
    (path / "옛 이름.txt").write_text("하나\n둘")  # no newline at its end
    (path / "win.txt").write_bytes(b"one\r\ntwo\r\n")
    (path / "run.sh").write_text("#!/bin/sh\n")
    (path / "gone.txt").write_text("bye\n")
    (path / "gone.txt").chmod(0o600)
    (path / "cp949.txt").write_bytes("가나다".encode("cp949") + b"\n\x00\xff")
    return project


def files(project: Project) -> dict[str, str]:
    """Everything but the runs and what git keeps."""
    return {name: what for name, what in tree(project.path).items() if not name.startswith((".runs", ".git/"))}


def loop(project: Project, *more: str) -> str:
    """Drive a loop to its end; its id."""
    done = project.loop("--approval", "never", *more)
    assert done.returncode == 0, done.stderr
    return str(records(done.stdout)[0]["runId"])


def test_an_undo_restores_every_byte_mode_and_folder(tmp_path: Path) -> None:
    project = furnished(tmp_path / "p")
    before = files(project)
    run = loop(project)
    patched = files(project)
    done = project.run("undo", run)
    [made] = [one for one in project.runs if "_undo_" in one.id]
    assert (done.returncode, done.stderr) == (0, f"to have the changes again: orchestra undo {made.id}\n")
    assert sorted(done.stdout.split("\n")[:-1]) == [
        "removed   더/새 이름.txt",
        "removed   문서/깊이/새.md",
        *(f"restored  {name}" for name in ("calc.py", "gone.txt", "run.sh", "win.txt", "옛 이름.txt")),
    ]
    assert files(project) == before
    again = project.run("undo", run)
    assert (again.returncode, again.stdout, again.stderr) == (0, "nothing left to undo\n", "")
    [first] = [one for one in project.runs if "_undo_" in one.id]  # no run for an undo of nothing
    [created, *events] = project.events_of(first.id)
    assert created.payload["inputRunId"] == run and created.payload["aside"] is True
    assert [event.type for event in events] == ["PATCH_PRODUCED", "APPROVAL_GRANTED", "PATCH_APPLIED", "RUN_COMPLETED"]
    assert project.run("undo", first.id).returncode == 0  # taking back what was taken back
    assert files(project) == patched
    assert project.run("undo", run).returncode == 0
    assert files(project) == before
    conforms(project)


def test_an_undo_is_never_last_and_only_listed_with_all(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = loop(project)
    assert project.run("undo", "last").returncode == 0
    assert records(project.run("show", "last", "--json").stdout)[0]["runId"] == run
    assert [one["runId"] for one in records(project.run("runs", "--json").stdout)] == [run]
    every = records(project.run("runs", "--all", "--json").stdout)
    assert [(one["workflow"], one["status"]) for one in every] == [("loop", "completed"), ("undo", "completed")]
    assert "undo" in project.run("report", every[1]["runId"]).stdout
    assert project.run("undo", run[:14]).returncode == 0  # a prefix means the run, not its undo


@pytest.mark.parametrize("how", ["changed", "gone", "in the way"])
def test_a_file_that_changed_since_is_named_and_nothing_is_changed(tmp_path: Path, how: str) -> None:
    project = furnished(tmp_path / "p")
    run = loop(project)
    name = {"changed": "win.txt", "gone": "문서/깊이/새.md", "in the way": "gone.txt"}[how]
    if how == "gone":
        (project.path / name).unlink()  # somebody removed what the run made: nothing is left to do for it
    else:
        (project.path / name).write_text("mine\n")
    now = files(project)
    done = project.run("undo", run)
    if how == "gone":
        assert done.returncode == 0
        return
    assert done.returncode == 1
    assert done.stderr == f"orchestra: {name} changed since the run's patches were applied; nothing was taken back\n"
    assert files(project) == now
    conforms(project)


def test_a_later_run_is_named_and_undone_first(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    before = files(project)
    first = loop(project)
    later = RIGHT_PATCH.replace("a - b", "a + b").replace("+    return a + b", "+    return b + a + 0")
    project.write_script(role("planner", PLAN), role("developer", later))
    project.check = "grep -q 'b + a' calc.py"
    second = loop(project)
    done = project.run("undo", first)
    assert done.returncode == 1
    assert f"changed by a later run, which can be undone first: orchestra undo {second}" in done.stderr
    net = project.run("diff", first)  # its texts are had by undoing the later run in memory
    assert "-    return a - b\n+    return a + b\n" in net.stdout and net.stderr == ""
    assert [project.run("undo", run).returncode for run in (second, first)] == [0, 0]
    assert files(project) == before


def test_an_undo_to_an_event_takes_back_what_came_after_it(tmp_path: Path) -> None:
    project = furnished(tmp_path / "p")
    before = files(project)
    run = loop(project)
    patched = files(project)
    events = project.events_of(run)
    [first, _] = [event.id for event in events if event.type == "PATCH_APPLIED"]
    done = project.run("undo", run, "--to", first.lstrip("0"))
    assert (done.returncode, done.stdout) == (0, "restored  calc.py\n")
    assert "a * b" in project.calc()
    assert project.run("undo", run, "--to", "1").returncode == 0  # and the rest
    assert files(project) == before
    assert project.run("undo", run, "--to", events[-1].id).returncode == 0  # the files as they were at its end
    assert files(project) == patched
    for wrong in ("99", "x"):
        refused = project.run("undo", run, "--to", wrong)
        assert refused.returncode == 2 and "has no such event" in refused.stderr
    conforms(project)


def test_a_waiting_run_may_be_undone_and_one_that_is_driven_may_not(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", WRONG_PATCH), role("fixer", ask("a?")))
    before = files(project)
    waits = project.loop("--approval", "never")
    assert waits.returncode == 3
    run = records(waits.stdout)[0]["runId"]
    assert project.run("undo", run).returncode == 0
    assert files(project) == before
    lock = project.path / ".runs/workflows" / run / "lock"
    with lock.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        driven = project.run("undo", run)
    assert driven.returncode == 7 and "is being driven by another process" in driven.stderr


def test_every_ending_says_what_is_left_and_how_to_undo_it(tmp_path: Path) -> None:
    replies = (role("planner", PLAN), role("developer", WRONG_PATCH), role("fixer", ask("which?")))
    project = Project(tmp_path / "p", *replies)
    command = ("loop", "add", "--check", project.check, "--provider", f"scripted:{project.script}")
    waits = project.run(*command, "--approval", "never", "--no-input")
    [run] = [one.id for one in project.runs]
    line = f"  left in your files: calc.py; undo: orchestra undo {run}\n"
    assert waits.returncode == 3 and line in waits.stderr
    canceled = project.run("cancel", run)
    assert canceled.stderr == f"{run}: canceled\n{line}"
    failed = project.run(*command, "--approval", "never", "--no-input", "--max-fixes", "0")
    assert failed.returncode == 1 and "left in your files: " in failed.stderr
    project.write_script(role("planner", PLAN), role("developer", ask("what?")))
    untouched = project.run(*command, "--no-input")
    assert "  left in your files: nothing\n" in untouched.stderr


def test_without_a_run_the_only_one_with_changes_is_meant_and_a_person_asked(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    assert "no run here has left changes" in project.run("undo").stderr
    run = loop(project)
    refused = project.run("undo")
    assert refused.returncode == 2 and f"orchestra undo {run}, or --yes" in refused.stderr
    terminal = Terminal([PROGRAM, "undo"], cwd=project.path)
    terminal.wait_for("Take this back?")
    terminal.type("y\n")
    assert terminal.end() == 0
    assert "a - b" in project.calc()
    for _ in range(2):
        (project.path / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        loop(project)
    several = project.run("undo", "--yes")
    assert several.returncode == 2 and "2 runs have left changes; say which" in several.stderr
    for later in [one.id for one in project.runs if "_loop_" in one.id and one.id != run]:
        assert f"\n  orchestra undo {later}  # " in several.stderr


def test_a_foreign_run_is_not_undone(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = loop(project)
    now = files(project)
    done = project.run("undo", run, env={"ORCHESTRA_KEY": "another person's key, which is long enough"})
    assert done.returncode == 5 and "foreign" in done.stderr
    assert files(project) == now


# -- the net change ---------------------------------------------------------------------------------------------------


def test_the_net_change_is_what_git_applies_there_and_back(tmp_path: Path) -> None:
    project = furnished(tmp_path / "p")
    before = files(project)
    run = loop(project)
    patched = files(project)
    net = subprocess.run([PROGRAM, "diff", run], cwd=project.path, capture_output=True, check=True).stdout
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    apply = ("git", "apply", "--whitespace=nowarn")
    subprocess.run([*apply, "-R"], input=net, cwd=project.path, env=environment, check=True)
    (project.path / "gone.txt").chmod(0o600)  # git knows only the x bit
    assert files(project) == before
    subprocess.run(apply, input=net, cwd=project.path, env=environment, check=True)
    assert files(project) == patched
    assert project.run("diff", run).stdout.encode() == net.replace(b"\r\n", b"\n")  # text mode
    assert project.run("undo", run).returncode == 0
    undone = subprocess.run([PROGRAM, "diff", run], cwd=project.path, capture_output=True, check=True).stdout
    assert undone == net  # what the run changed stays what it changed
    (project.path / "calc.py").write_text("mine\n")
    changed = project.run("diff", run)
    assert "calc.py changed since the run: its patches are shown one after the other" in changed.stderr
    assert "+    return a * b" in changed.stdout and "+zwei" in changed.stdout


def test_a_secret_is_masked_in_the_net_change_too(tmp_path: Path) -> None:
    secret = "password = 'hunter2-hunter2'"
    replies = (role("planner", PLAN), role("developer", reply(FIRST + new_file("c.ini", secret))))
    project = Project(tmp_path / "p", *replies, role("fixer", FIX_PATCH))
    run = loop(project)
    shown = project.run("diff", run)
    assert secret not in shown.stdout and "masked here: c.ini line 1" in shown.stderr
    assert secret in project.run("diff", run, "--exact").stdout
    assert {event.type for event in project.events_of(run)} & set(FINAL) == {"RUN_COMPLETED"}
