"""`clean` removes what is old and over, says so first, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from orchestra.app import App
from orchestra.core.errors import RunLocked
from orchestra.core.run import RunFolder
from orchestra.runs.clean import Cleaning, look, remove
from tests.support.children import WIDE
from tests.support.children import run as parent_with_child
from tests.support.graph import task
from tests.support.project import PLAN, PROGRAM, RIGHT_PATCH, Project, conforms, records, role, sleeping, until
from tests.support.runs import claimed
from tests.support.tasks import Tasks, step
from tests.support.terminal import Terminal


def tasks(path: Path, runs: int) -> Tasks:
    """A project with this many runs that have ended."""
    project = Tasks(path, step("가", tool="echo"))
    for _ in range(runs):
        assert project.dag("--dry-run", intent="정리").returncode == 0
    return project


def names(project: Project) -> list[str]:
    """The numbers of the runs that are there."""
    return [folder.id.split("_")[1] for folder in project.runs if not folder.path.name.startswith(".")]


@pytest.fixture
def three(tmp_path: Path) -> Tasks:
    return tasks(tmp_path / "p", 3)


def test_the_oldest_go_and_the_newest_stay(three: Tasks) -> None:
    done = three.run("clean", "--keep", "1", "--yes")
    assert done.returncode == 0 and done.stderr == ""
    header, first, second, total, kept, removed = done.stdout.splitlines()
    assert header.split() == ["ended", "status", "size", "run"]
    assert first.endswith(f" {three.folder.id[:10]}_001_dag_정리") and " completed " in first and " kB " in first
    assert "_002_" in second and total.startswith("2 runs to remove, ")
    assert kept == "1 run kept for having ended last (--keep)" and removed == "removed 2 runs"
    assert names(three) == ["003"]
    assert sorted(os.listdir(three.path / "runs")) == [".gitignore", three.folder.id]
    conforms(three)


def test_ten_stay_if_nobody_says_how_many(three: Tasks) -> None:
    done = three.run("clean")  # there is nothing to ask
    assert done.returncode == 0 and done.stdout.startswith("no run to remove\n")
    assert names(three) == ["001", "002", "003"]


def test_what_ended_last_stays_not_what_began_last(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("가", tool="echo"))
    assert project.dag("--approval", "always").returncode == 3
    assert project.dag("--dry-run").returncode == 0
    assert project.run("cancel", project.runs[0].id).returncode == 0
    assert project.run("clean", "--keep", "1", "--yes").returncode == 0
    assert names(project) == ["001"]


def test_without_a_terminal_it_needs_a_yes(three: Tasks) -> None:
    for words in ((), ("--no-input",), ("--json",)):
        done = three.run("clean", "--keep", "0", *words)
        assert done.returncode == 2 and "--yes" in done.stderr and "nothing was removed" in done.stderr
        assert ("3 runs to remove" in done.stdout) == ("--json" not in words)
    assert names(three) == ["001", "002", "003"]


def test_a_dry_run_only_says(three: Tasks) -> None:
    done = three.run("clean", "--keep", "0", "--dry-run", "--yes")
    assert done.returncode == 0 and "3 runs to remove" in done.stdout and "removed" not in done.stdout
    said = records(three.run("clean", "--keep", "2", "--dry-run", "--json").stdout)
    assert [(record["type"], record["runId"]) for record in said] == [("would_remove", three.runs[0].id)]
    assert names(three) == ["001", "002", "003"]


def test_json_is_what_was_removed_and_nothing_else(three: Tasks) -> None:
    first, path = three.runs[0], three.runs[0].path
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    ended = json.loads(first.events.read_text().splitlines()[-1])["ts"]
    done = three.run("clean", "--keep", "2", "--yes", "--json")
    assert done.stderr == "" and records(done.stdout) == [
        {
            "type": "removed",
            "runId": first.id,
            "workflow": "dag",
            "status": "completed",
            "endedAt": ended,
            "bytes": size,
            "dir": str(path),
            "children": [],
        }
    ]


@pytest.mark.parametrize("keep", ["-1", "x", ""])
def test_a_wrong_number_is_refused(three: Tasks, keep: str) -> None:
    assert three.run("clean", "--keep", keep, "--yes").returncode == 2
    assert names(three) == ["001", "002", "003"]


def test_at_a_terminal_it_asks(three: Tasks) -> None:
    for said, left in (("\r", 3), ("n\r", 3), ("예\r", 1)):
        terminal = Terminal([PROGRAM, "clean", "--keep", "1"], three.path)
        assert "2 runs to remove" in terminal.wait_for("remove them? [y/N]")
        terminal.type(said)
        assert terminal.end() == 0
        assert len(names(three)) == left
    terminal = Terminal([PROGRAM, "clean", "--keep", "0"], three.path)
    terminal.wait_for("remove them?")
    terminal.type("\x04")  # the person is gone
    assert terminal.end() == 130
    assert names(three) == ["003"]


def test_what_was_forked_while_it_asked_stays(three: Tasks) -> None:
    terminal = Terminal([PROGRAM, "clean", "--keep", "0"], three.path)
    assert "3 runs to remove" in terminal.wait_for("remove them?")
    assert three.run("fork", three.runs[1].id, "--at", "3", "--no-drive").returncode == 0
    terminal.type("y\r")
    assert terminal.end() == 0
    assert names(three) == ["002", "004"]


# -- what stays -------------------------------------------------------------------------------------------------------


def test_a_run_that_can_go_on_stays(tmp_path: Path) -> None:
    """Parked, killed, and stopped with Ctrl-C are the same to it; of both workflows."""
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    assert project.loop("--approval", "never").returncode == 0
    project.path.joinpath("calc.py").write_text("def add(a, b):\n    return a - b\n")
    assert project.loop().returncode == 3
    assert project.loop(env={"ORCHESTRA_CHAOS": "9:after"}).returncode == -signal.SIGKILL
    done = project.run("clean", "--keep", "0", "--yes")
    assert done.returncode == 0 and "2 runs still unfinished (orchestra cancel RUN" in done.stdout
    assert names(project) == ["002", "003"]
    assert project.run("approve", project.runs[0].id, "--no-input").returncode == 0


def test_a_run_that_somebody_drives_stays(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    words = ["loop", "g", "--check", sleeping(project.path), "--provider", f"scripted:{project.script}", "--no-input"]
    running = subprocess.Popen([PROGRAM, *words, "--approval", "never"], cwd=project.path, stderr=subprocess.DEVNULL)
    try:
        until(lambda: project.runs and project.folder.events.exists())
        assert project.run("clean", "--keep", "0", "--yes").returncode == 0
        assert names(project) == ["001"]
    finally:
        running.send_signal(signal.SIGINT)
        running.wait()


def test_a_lock_that_is_held_keeps_a_run_that_has_ended(three: Tasks) -> None:
    with claimed(RunFolder(three.runs[0].path)):
        done = three.run("clean", "--keep", "0", "--yes")
        assert f"{three.runs[0].id} is kept: a process drives it" in done.stdout
    assert names(three) == ["001"]


def test_a_run_that_is_locked_while_it_asks_stays_and_the_others_go(three: Tasks) -> None:
    terminal = Terminal([PROGRAM, "clean", "--keep", "1"], three.path)
    terminal.wait_for("remove them?")
    with claimed(RunFolder(three.runs[0].path)):
        terminal.type("y\r")
        assert terminal.end() == 0  # looked at anew, it is seen to be driven
    assert names(three) == ["001", "003"]


def cleaning(project: Tasks) -> Cleaning:
    app = App(project.path)
    return Cleaning(app.project, app.runs, app.terms)


def test_a_driver_that_comes_last_is_told_apart_from_a_free_run(three: Tasks) -> None:
    app = cleaning(three)
    tree = look(app, 2).going[0]
    with claimed(RunFolder(tree.root.folder.path)), pytest.raises(RunLocked):
        remove(app, tree)
    assert names(three) == ["001", "002", "003"]
    assert remove(app, tree) == ()
    assert names(three) == ["002", "003"]


def test_what_a_run_that_stays_was_forked_from_stays(three: Tasks) -> None:
    first = three.runs[0].id
    assert three.run("fork", first, "--at", "3", "--no-drive").returncode == 0  # 004 can go on
    assert three.run("fork", three.runs[-1].id, "--at", "2", "--no-drive").returncode == 0  # 005, of 004
    done = three.run("clean", "--keep", "0", "--yes")
    assert f"{first} is kept: run {three.runs[-2].id} was forked from it" in done.stdout
    assert names(three) == ["001", "004", "005"]
    assert three.run("cancel", three.runs[-1].id).returncode == 0
    assert three.run("clean", "--keep", "1", "--yes").returncode == 0
    assert names(three) == ["001", "004", "005"]  # 005 ended last, 004 can go on
    assert three.run("cancel", three.runs[-2].id).returncode == 0
    assert three.run("clean", "--keep", "0", "--yes").returncode == 0
    assert names(three) == []  # all of them go together


def test_what_a_run_or_the_configuration_replays_stays(three: Tasks) -> None:
    first, second, _ = (folder.id for folder in three.runs)
    again = ["dag", "정리", "--provider", f"replay:{first}", "--dry-run", "--no-input"]
    assert three.run(*again).returncode == 0
    three.settings({"providers": {"again": f"replay:{second}", "nowhere": "replay:2020"}})
    done = three.run("clean", "--keep", "1", "--yes")
    assert f"{first} is kept: run {three.runs[-1].id} replays it" in done.stdout
    assert f"{second} is kept: providers.again of " in done.stdout
    assert names(three) == ["001", "002", "004"]


def test_damaged_runs_copies_links_and_strangers_are_kept(three: Tasks, tmp_path: Path) -> None:
    damaged, copied, linked = three.runs
    lines = damaged.events.read_bytes().splitlines(keepends=True)
    damaged.events.write_bytes(b"".join([lines[0], b"{\n", *lines[2:]]))
    shutil.copytree(copied.path, three.path / "runs" / "copy")
    linked.path.rename(tmp_path / "elsewhere")
    linked.path.symlink_to(tmp_path / "elsewhere")
    (three.path / "runs" / "mine").mkdir()
    (three.path / "runs" / "mine" / "notes.txt").write_text("x")
    (three.path / "runs" / ".mine.removed").mkdir()
    done = three.run("clean", "--keep", "0", "--yes")
    assert done.returncode == 0
    assert f"{damaged.id} is kept: its journal is damaged" in done.stdout
    assert f"copy is kept: its journal is that of run {copied.id}" in done.stdout
    assert f"{linked.id} is kept: it is, or has in it, a link" in done.stdout
    left = {".gitignore", ".mine.removed", "copy", "mine", damaged.id, linked.id}
    assert set(os.listdir(three.path / "runs")) == left
    assert (tmp_path / "elsewhere" / "events.ndjson").exists()


def test_a_link_in_a_run_is_removed_and_not_followed(three: Tasks, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("x")
    (three.runs[0].path / "artifacts" / "link").symlink_to(tmp_path / "precious")
    assert three.run("clean", "--keep", "2", "--yes").returncode == 0
    assert names(three) == ["002", "003"] and (tmp_path / "precious" / "file").exists()


def test_runs_of_another_project_in_the_same_folder_are_kept(three: Tasks, tmp_path: Path) -> None:
    other = Tasks(tmp_path / "q", step("가", tool="echo"), config={"paths": {"runs": str(three.path / "runs")}})
    assert other.dag("--dry-run", intent="정리").returncode == 0
    done = other.run("clean", "--keep", "0", "--yes")
    assert f"{three.runs[0].id} is kept: it is of another project: {three.path}" in done.stdout
    assert names(three) == ["001", "002", "003"]
    three.path.rename(tmp_path / "moved")  # then it is nobody else's
    moved = Project(tmp_path / "moved")
    assert moved.run("clean", "--keep", "0", "--yes").returncode == 0
    assert os.listdir(tmp_path / "moved" / "runs") == [".gitignore"]


def test_runs_of_a_project_that_cannot_be_seen_now_are_kept(tmp_path: Path) -> None:
    """A disk that is not mounted, another container: a folder that both share holds runs of both."""
    both = {"paths": {"runs": str(tmp_path / "shared")}}
    mine, other = (Tasks(tmp_path / name, step("가", tool="echo"), config=both) for name in ("p", "q"))
    for project in (mine, other):
        assert project.dag("--dry-run", intent="정리").returncode == 0
    other.path.rename(tmp_path / "away")
    done = mine.run("clean", "--keep", "0", "--yes")
    assert "_002_dag_정리 is kept: it is of another project" in done.stdout
    assert [name.split("_")[1] for name in sorted(os.listdir(tmp_path / "shared")) if name[0] != "."] == ["002"]


def test_an_id_that_was_given_away_meanwhile_is_not_what_was_judged(three: Tasks) -> None:
    """Run ids are used again: what has the id now may wait for a person."""
    app = cleaning(three)
    judged = look(app, 0).going
    assert three.run("clean", "--keep", "0", "--yes").returncode == 0
    assert three.dag("--approval", "always", intent="정리").returncode == 3
    waits = next(tree for tree in judged if tree.id == three.folder.id)
    with pytest.raises(RunLocked, match="is not the one"):
        remove(app, waits)
    assert names(three) == ["001"]


def test_a_removal_that_is_going_on_is_nobody_elses_to_finish(three: Tasks) -> None:
    folder = three.runs[0]
    with claimed(folder):
        folder.path.rename(folder.removed)
        assert look(cleaning(three), 10).leftovers == ()
    assert [one.run_id for one in look(cleaning(three), 10).leftovers] == [folder.id]


def test_what_cannot_be_removed_is_told_and_keeps_no_other_run(three: Tasks) -> None:
    three.runs[0].removed.write_text("in the way")
    done = three.run("clean", "--keep", "1", "--yes")
    assert done.returncode == 1 and done.stdout.endswith("removed 1 run\n")
    assert done.stderr == f"orchestra: cannot be removed: {three.runs[0].path}: Not a directory\n"
    assert names(three) == ["001", "003"]
    conforms(three)


# -- child runs, and kills --------------------------------------------------------------------------------------------


def test_child_runs_go_with_their_parent(tmp_path: Path) -> None:
    child = parent_with_child(tmp_path / "p", WIDE, WIDE, task("a", tool="echo"))
    project = Tasks(tmp_path / "p", step("가", tool="echo"))
    assert project.dag("--dry-run").returncode == 0
    done = project.run("clean", "--keep", "1", "--yes", "--json")
    [removed] = records(done.stdout)
    assert removed["workflow"] == "parent" and removed["children"] == [child.id]
    assert [folder.id.split("_")[2] for folder in project.runs] == ["dag"]
    assert not child.path.exists()


def test_a_child_run_alone_is_kept(tmp_path: Path) -> None:
    child = parent_with_child(tmp_path / "p", WIDE, WIDE, task("a", tool="echo"))
    project = Tasks(tmp_path / "p")
    [parent] = [folder for folder in project.runs if folder.id != child.id]
    shutil.rmtree(parent.path)
    done = project.run("clean", "--keep", "0", "--yes")
    assert f"{child.id} is kept: it is a child of run {parent.id}, which is not here" in done.stdout
    assert child.path.exists()


def test_children_of_a_run_that_was_put_back_stay_with_it(tmp_path: Path) -> None:
    child = parent_with_child(tmp_path / "p", WIDE, WIDE, task("a", tool="echo"))
    project = Tasks(tmp_path / "p")
    [parent] = [folder for folder in project.runs if folder.id != child.id]
    shutil.copytree(parent.path, parent.removed)  # what a kill left of it
    done = project.run("clean", "--keep", "1", "--yes", "--json")
    assert records(done.stdout) == [{"type": "removed", "runId": parent.id, "dir": str(parent.removed), "children": []}]
    assert child.path.exists() and parent.path.exists() and not parent.removed.exists()


@pytest.mark.parametrize("when", ["1:before", "1:after", "2:after", "3:before", "3:after", "4:after"])
def test_a_kill_leaves_whole_runs_and_the_next_clean_finishes(tmp_path: Path, when: str) -> None:
    parent_with_child(tmp_path / "p", WIDE, WIDE, task("a", tool="echo"))
    project = Tasks(tmp_path / "p", step("가", tool="echo"))
    killed = project.run("clean", "--keep", "0", "--yes", env={"ORCHESTRA_CHAOS": when})
    assert killed.returncode == -signal.SIGKILL
    listed = records(project.run("runs", "--json").stdout)
    assert all(run["status"] == "completed" for run in listed)
    graphs = [run["runId"] for run in listed if run["workflow"] == "dag"]
    assert [project.run("verify", run).returncode for run in graphs] == [0] * len(graphs)
    refused = project.run("clean", "--keep", "0")
    assert refused.returncode == 2
    assert (" to finish removing: " in refused.stdout) == (when != "1:before")
    done = project.run("clean", "--keep", "0", "--yes", "--json")
    assert done.returncode == 0 and {record["type"] for record in records(done.stdout)} == {"removed"}
    assert [name for name in os.listdir(project.path / "runs") if name != ".gitignore"] == []


def test_what_a_kill_left_is_finished_when_its_children_can_go(tmp_path: Path) -> None:
    parent_with_child(tmp_path / "p", WIDE, WIDE, task("a", tool="echo"))
    project = Tasks(tmp_path / "p", step("가", tool="echo"))
    project.run("clean", "--keep", "0", "--yes", env={"ORCHESTRA_CHAOS": "1:after"})
    [child] = [folder for folder in project.runs if not folder.path.name.startswith(".")]
    with claimed(child):
        done = project.run("clean", "--keep", "0", "--yes")
        assert done.returncode == 1 and f"its child run {child.id}: a process drives it" in done.stderr
        assert child.path.exists()
    assert project.run("clean", "--keep", "0", "--yes").returncode == 0
    assert [name for name in os.listdir(project.path / "runs") if name != ".gitignore"] == []


def test_the_id_of_a_run_that_is_being_removed_is_not_given_away(tmp_path: Path) -> None:
    project = tasks(tmp_path / "p", 1)
    killed = project.run("clean", "--keep", "0", "--yes", env={"ORCHESTRA_CHAOS": "1:after"})
    assert killed.returncode == -signal.SIGKILL
    assert project.dag("--dry-run", intent="정리").returncode == 0
    assert names(project) == ["002"]
    assert project.run("clean", "--yes").stdout.endswith("removed 1 run\n")
    assert names(project) == ["002"]
