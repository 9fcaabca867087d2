"""`inspect` shows one task of a task graph, whatever became of its run."""

from __future__ import annotations

import json
import signal
import subprocess
import unicodedata
from pathlib import Path

import msgspec
import pytest

from orchestra.core.localtime import local
from orchestra.workflows.dag.shapes import Task
from tests.support.project import PROGRAM, Project, until
from tests.support.tasks import Tasks, step

WRITES = {"policies": {"default_fs_mode": "rw"}}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Tasks:
    """One task is done, one fails twice, one comes after that."""
    project = Tasks(
        tmp_path_factory.mktemp("inspect") / "p",
        step("인사", code="print('안녕'); print('하세요')"),
        step("실패", "인사", code="print('\\x1b[31m아이고'); raise SystemExit('안 된다')"),
        step("마지막", "인사", "실패", tool="echo", inputs={"args": ["a\nb"]}),
    )
    assert project.dag().returncode == 1
    return project


def test_a_failed_task_with_all_its_attempts(mixed: Tasks) -> None:
    shown = mixed.run("inspect", "last", "실패").stdout
    record = mixed.tasks()["실패"]
    first, second = (line for line in shown.splitlines() if "failed after" in line)
    assert first.split()[0] == "1" and "exit code 1: 안 된다; tried again from" in first
    assert second.split()[0] == "2" and second.endswith("exit code 1: 안 된다")
    for text in (
        "실패  실패 하기",
        "state     failed: exit code 1: 안 된다\n",
        "command   python -c ",
        "level     L3, below coordinate",
        "after     인사 (done)",
        "before    마지막 (not run)",
        "1 retry, fs read-only, net deny",
        f"started   {local(record['timestamps']['started_at'])} (+",
        f"ended     {local(record['timestamps']['completed_at'])} (+",
        f"policy    {record['policy']}",
        f"id        {record['task_id']}",
        f"run       {mixed.folder.id} (failed)",
        "warn   attempt 1 failed: exit code 1: 안 된다",
        "    | 아이고\n    | 안 된다\n",
    ):
        assert text in shown
    for artifact in record["artifacts"]:
        assert f"{artifact['size_bytes']}  " in shown and artifact["checksum"] in shown
    assert "\x1b" not in shown  # of the command, and in a pipe also none of ours


def test_a_task_that_never_began_is_not_run_and_says_why(mixed: Tasks) -> None:
    shown = mixed.run("inspect", "last", "마지막").stdout
    assert "state     not run: 실패 did not get done" in shown
    assert "after     인사 (done), 실패 (failed)" in shown
    assert "attempts" not in shown and "started" not in shown
    assert "command   echo 'a\n          | b'" in shown  # a line break cannot look like a line of ours


def test_a_task_is_found_by_label_id_and_the_beginning_of_either(mixed: Tasks) -> None:
    name = mixed.tasks()["인사"]["task_id"]
    wanted = mixed.run("inspect", "last", "인사").stdout
    assert wanted.startswith("인사  인사 하기\n")
    for reference in ("인", name, name[:10], unicodedata.normalize("NFD", "인사")):
        assert mixed.run("inspect", "last", reference).stdout == wanted


def test_the_run_and_its_planning_are_tasks_too(mixed: Tasks) -> None:
    run = mixed.run("inspect", "last", "run").stdout
    assert run.startswith("run  라이선스를 조사해줘\n") and "level     L1\n" in run
    planning = mixed.run("inspect", "last", "coordinate").stdout
    assert "level     L2, below run\n" in planning and "tokens    120\n" in planning


def test_json_is_the_record_and_nothing_else(mixed: Tasks) -> None:
    done = mixed.run("inspect", "last", "실패", "--json")
    assert done.stdout.count("\n") == 1 and done.stderr == ""
    record = json.loads(done.stdout)
    msgspec.convert(record, Task, strict=True)
    line = mixed.tasks()["실패"]
    assert record == {name: line[name] for name in record} | {"depends_on": [mixed.tasks()["인사"]["task_id"]]}


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("실페", "has no task '실페'; did you mean '실패'?"),
        ("ghost", "has no task 'ghost'; there are: 인사, 실패, 마지막, run, coordinate"),
        ("", "has no task ''; there are: 인사"),
    ],
)
def test_an_unknown_task_is_answered_with_those_there_are(mixed: Tasks, reference: str, told: str) -> None:
    done = mixed.run("inspect", "last", reference)
    assert done.returncode == 2 and done.stdout == ""
    assert told in done.stderr and done.stderr.count("\n") == 1


def test_a_beginning_that_fits_several_lists_them(tmp_path: Path) -> None:
    project = Tasks(
        tmp_path / "p", step("build-a", tool="echo"), step("build-b", tool="echo"), step("run", tool="echo")
    )
    assert project.dag("--dry-run").returncode == 0
    done = project.run("inspect", "last", "build")
    assert done.returncode == 2
    assert "'build' fits 2 tasks" in done.stderr and "\n  build-b  " in done.stderr
    own = project.run("inspect", "last", "run").stdout  # the plan's own task is meant by its name
    assert own.startswith("run  run 하기\n") and "state     dry run" in own


def test_a_run_of_another_workflow_is_refused(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    assert project.loop("--approval", "never").returncode == 0
    for words in (("inspect", "last", "a"), ("trace", "last")):
        done = project.run(*words)
        assert done.returncode == 2 and done.stdout == ""
        assert "has no tasks: it is a loop, not a task graph" in done.stderr


def test_a_task_that_may_write_says_where_its_patch_is(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("쓰기", code="open('새 파일.txt', 'w').write('안녕\\n')"), config=WRITES)
    assert project.dag("--approval", "always").returncode == 3
    assert project.run("approve", "last", "--no-input").returncode == 3
    shown = project.run("inspect", "last", "쓰기").stdout  # parked: its changes wait for a person
    assert "state     running: its command ended, its changes wait at the gate" in shown
    assert f"orchestra approve {project.folder.id}" in shown
    [patch] = [line.split(maxsplit=1)[1] for line in shown.splitlines() if line.startswith("  patch")]
    assert "+안녕" in Path(patch).read_text()
    assert project.run("approve", "last", "--no-input").returncode == 0
    assert "state     done\n" in project.run("inspect", "last", "쓰기").stdout


def test_a_run_in_progress_and_after_it_was_killed(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("느림", code="import time; time.sleep(600)"), step("뒤", "느림", tool="echo"))
    words = ["dag", "g", "--provider", f"scripted:{project.script}", "--no-input"]
    running = subprocess.Popen([PROGRAM, *words], cwd=project.path, stderr=subprocess.DEVNULL)
    try:
        until(lambda: project.runs and project.started())
        shown = project.run("inspect", "last", "느림").stdout
        assert "state     running\n" in shown and "goes on" in shown and " s so far\n" in shown
        assert "state     blocked\n" in project.run("inspect", "last", "뒤").stdout
        assert "running: python begins" in project.run("trace", "last").stdout
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    (project.folder.path / "tasks.jsonl").unlink(missing_ok=True)  # a projection: not what it is read from
    killed = project.run("inspect", "last", "느림").stdout
    assert f"state     running, until the run was stopped; go on: orchestra resume {project.folder.id}" in killed
    assert "cut off: its end was not recorded" in killed
    assert project.run("kill", "last").returncode == 0
    ended = project.run("inspect", "last", "느림").stdout
    assert "state     failed: stopped: " in ended and "error  stopped: " in ended
    assert "state     not run: 느림 did not get done" in project.run("inspect", "last", "뒤").stdout


def test_a_run_without_a_plan_has_only_the_two(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo"))
    project.write_script({"match": {"phase": "plan"}, "text": "no plan at all"})
    assert project.dag().returncode == 1
    done = project.run("inspect", "last", "a")
    assert done.returncode == 2
    assert "has no task 'a' (it has no plan yet); there are: run, coordinate" in done.stderr
    assert "state     failed" in project.run("inspect", "last", "coordinate").stdout
