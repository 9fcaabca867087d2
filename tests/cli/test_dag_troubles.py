"""Task graphs when things go another way: forks, cancels at bad moments, files that are gone, several approvals."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestra.app import App
from orchestra.commands.scratch import scratch_root
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from tests.support.project import PROGRAM, conforms, records, until
from tests.support.runs import read_events
from tests.support.tasks import Tasks, step
from tests.support.terminal import Terminal

WRITES = {"policies": {"default_fs_mode": "rw"}}


@pytest.mark.spec("C-03")
def test_a_fork_keeps_what_was_done_and_does_the_rest(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("good", code="print(1)"), step("bad", "good", code="raise SystemExit(1)"))
    assert project.dag().returncode == 1
    first = project.folder
    done = [e for e in read_events(first.events) if e.payload.get("key") == "good/run.1"][-1]
    for run in (first.id, "last"):  # and a fork of the fork
        forked = project.run("fork", run, "--at", done.id, "--json", "--no-input")
        assert records(forked.stdout)[-1]["status"] == "failed", forked.stderr
        began = [e["payload"]["task"] for e in records(forked.stdout) if "task" in e.get("payload", {})]
        assert set(began) == {"bad"}, "what the history holds is not done again"


@pytest.mark.spec("S2-128", "S2-130")
def test_no_task_of_a_canceled_run_is_still_running(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("slow", code="import time; time.sleep(60)"), step("next", "slow"))
    words = [PROGRAM, "dag", "g", "--provider", f"scripted:{project.script}", "--no-input", "--json"]
    with subprocess.Popen(words, cwd=project.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        until(lambda: bool(project.runs) and bool(project.started()))
        assert project.run("cancel", "last").returncode == 0
    assert {label: task["state"] for label, task in project.tasks().items()} == {"slow": "failed", "next": "blocked"}
    assert project.tasks()["slow"]["message"].startswith("stopped: ")
    assert "| slow | slow 하기 | python | failed |" in project.read("report.md")
    assert project.json("metrics.json")["tasks_failed"] == 1
    conforms(project)


@pytest.mark.spec("S2-132")
def test_a_file_that_follows_from_events_is_written_again(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo"))
    assert project.dag().returncode == 0
    names = ("tasks.jsonl", "messages.jsonl")
    before = [project.read(name) for name in names]
    for name in names:
        (project.folder.path / name).unlink()
    assert project.run("resume", "last", "--no-input").returncode == 0
    assert [project.read(name) for name in names] == before


@pytest.mark.spec("D-11")
def test_of_several_changes_exactly_the_named_one_is_granted_or_rejected(tmp_path: Path) -> None:
    plan = [step(name, code=f"open('{name}.txt', 'w').write('x')") for name in ("one", "two", "three")]
    project = Tasks(tmp_path / "p", *plan, config=WRITES)
    assert project.dag("--approval", "always").returncode == 3
    assert project.run("approve", "last", "--no-input").returncode == 3  # the plan
    asked = {
        e.payload["approvalId"]: e.payload["digest"]
        for e in read_events(project.folder.events)
        if e.type == "APPROVAL_REQUESTED" and e.payload.get("subject") != "plan"
    }
    assert len(asked) == 3
    for words in (("approve", "last"), ("reject", "last", "--reason", "no")):
        vague = project.run(*words, "--no-input")
        assert vague.returncode == 2 and all(digest[:19] in vague.stderr for digest in asked.values())
    told = project.run("reject", "last", "--digest", asked["approval-task-three"], "--reason", "no", "--no-input")
    assert "--digest" in told.stderr and told.returncode == 3
    assert project.run("approve", "last", "--digest", asked["approval-task-two"][:19], "--no-input").returncode == 3
    assert [(project.path / f"{name}.txt").exists() for name in ("one", "two", "three")] == [False, True, False]
    assert project.run("approve", "last", "--no-input").returncode == 1  # one is left: no choice; three failed
    assert [(project.path / f"{name}.txt").exists() for name in ("one", "two", "three")] == [True, True, False]
    assert json.loads(project.read("state.json"))["status"] == "failed"


@pytest.mark.spec("D-12")
def test_a_cancel_completes_what_was_granted_in_every_branch_and_begins_nothing(tmp_path: Path) -> None:
    plan = [step(name, code=f"open('{name}.txt', 'w').write('x')") for name in ("one", "two")]
    project = Tasks(tmp_path / "p", *plan, step("later", "one", code="print(1)"), config=WRITES)
    assert project.dag("--approval", "always").returncode == 3
    assert project.run("approve", "last", "--no-input").returncode == 3  # the plan
    for event in read_events(project.folder.events):
        if event.type == "APPROVAL_REQUESTED" and event.payload.get("subject") != "plan":
            assert project.run("approve", "last", "--digest", event.payload["digest"], "--no-drive").returncode == 0
    assert project.run("resume", "last", "--no-input").returncode == 0
    for name in ("one", "two"):
        (project.path / f"{name}.txt").unlink()
    granted = [e for e in read_events(project.folder.events) if e.type == "APPROVAL_GRANTED"][-1]
    assert project.run("fork", "last", "--at", granted.id, "--no-drive").returncode == 0
    history = read_events(project.runs[-1].events)
    assert project.run("cancel", project.runs[-1].id).returncode == 0
    news = read_events(project.runs[-1].events)[len(history) :]
    applied = [e.payload["key"] for e in (*history, *news) if e.type == "PATCH_APPLIED"]
    assert sorted(applied) == ["one/apply.1", "two/apply.1"]
    assert {e.type for e in news} <= {"PATCH_APPLIED", "RUN_CANCELED"}


@pytest.mark.spec("S2-81")
def test_a_secret_in_a_persons_own_command_is_refused_not_altered(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p")
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    refused = project.run("tool", "run", "--", "echo", key)
    assert (refused.returncode, refused.stdout) == (2, "") and "holds a secret" in refused.stderr
    assert key not in refused.stderr and project.runs == []
    plan = project.path / "plan.json"
    for task in (step("a", tool=key), step("a", key), {**step("a", "b"), "tools": ["x\x1b[31m"]}):
        plan.write_text(json.dumps([task]))
        refused = project.run("dag", "g", "--plan", str(plan), "--no-input")
        assert refused.returncode in (2, 5) and "cannot be used" in refused.stderr
        assert key not in refused.stderr and "\x1b" not in refused.stderr
    assert project.runs == []
    assert project.run("tool", "run", "--", "echo", "***REDACTED***").stdout == "***REDACTED***\n"
    assert project.run("tool", "run", "--", "echo", "echo", "hi").stdout == "echo hi\n"


@pytest.mark.spec("C-03")
def test_tasks_may_be_called_what_our_own_are_called(tmp_path: Path) -> None:
    names = ("run", "coordinate", "plan")
    project = Tasks(tmp_path / "p", *(step(name, tool="echo") for name in names))
    assert project.dag().returncode == 0
    ids = {(line["level"], line["label"]): line["task_id"] for line in project.lines()}
    every = [*ids.values(), project.json("plan.json")["plan_id"]]
    assert len(ids) == 5 and len(set(every)) == 6
    conforms(project)


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "0"])
def test_a_timeout_is_a_number_of_seconds(tmp_path: Path, seconds: str) -> None:
    project = Tasks(tmp_path / "p")
    done = project.run("tool", "run", "--timeout", seconds, "--", "echo", "hi")
    assert (done.returncode, done.stdout) == (2, "") and "--timeout" in done.stderr
    assert project.runs == []


def test_the_scratch_folder_is_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, mine = tmp_path / "tmp", tmp_path / "mine"
    shared.mkdir()
    mine.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    name = f"orchestra-{os.geteuid()}"
    assert scratch_root(tmp_path / "project", {}) == shared / name
    (shared / name).rmdir()
    (shared / name).symlink_to(mine)  # laid out by somebody else
    assert scratch_root(tmp_path / "project", {}) != shared / name
    (shared / name).unlink()
    (shared / name).mkdir(mode=0o777)
    (shared / name).chmod(0o777)
    assert scratch_root(tmp_path / "project", {}) != shared / name


@pytest.mark.spec("S2-113")
def test_a_grandchild_is_bound_by_every_run_above_it(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p")
    app = App(project.path)
    above = ""
    for number, seconds in enumerate((100.0, 10.0, 50.0), start=1):
        policy = msgspec.structs.replace(app.project.policy, max_task_sec=seconds)
        folder = RunFolder(app.project.runs_folder / f"2026-01-01_00{number}_dag_x")
        folder.path.mkdir(parents=True)
        payload: dict[str, Any] = {"workflow": "dag", "params": {"policy": msgspec.to_builtins(policy)}}
        payload |= {"parentRunId": above} if above else {}
        created = Event(
            id="00000001", runId=folder.id, ts="2026-01-01T00:00:00.000Z", type="RUN_CREATED", payload=payload
        )
        folder.events.write_bytes(msgspec.json.encode(created) + b"\n")
        above = folder.id
    assert app.terms.policy(created).max_task_sec == 10.0


@pytest.mark.spec("D-11")
def test_a_person_is_asked_for_one_change_after_the_other(tmp_path: Path) -> None:
    plan = [step(name, code=f"open('{name}.txt', 'w').write('x')") for name in ("one", "two")]
    project = Tasks(tmp_path / "p", *plan, config=WRITES)
    words = [PROGRAM, "dag", "g", "--provider", f"scripted:{project.script}", "--approval", "always"]
    terminal = Terminal(words, project.path)
    terminal.wait_for("leave it waiting >")
    terminal.type("a\n")  # the plan
    for _ in range(2):
        shown = ""
        while ".txt  " not in shown:  # a prompt is drawn again after its key
            shown = terminal.wait_for("apply this patch [y,n,a,d,e,?,q]? ")
        asked = "one" if shown.rfind("1. one.txt") > shown.rfind("1. two.txt") else "two"
        terminal.type("a\n")
        until((project.path / f"{asked}.txt").exists)
    assert terminal.end() == 0


# -- fewer levels, fewer words ----------------------------------------------------------------------------------------


def test_how_many_levels_act(tmp_path: Path) -> None:
    """Section 5/S2: --max-depth."""
    project = Tasks(tmp_path / "p", step("a", tool="echo"))
    asked = project.dag("--max-depth", "1")
    assert "라이선스를 조사해줘" in json.loads(asked.stdout)["user"]
    refused = project.dag("--max-depth", "1", "--plan", "p.json")
    assert refused.returncode == 2
    assert project.dag("--max-depth", "4").returncode == 2
    assert not project.runs, "nobody was asked"
    assert project.dag("--max-depth", "2").returncode == 0
    assert [task["label"] for task in project.json("plan.json")["tasks"]] == ["a"]
    assert not (project.folder.path / "tasks.jsonl").exists()


def test_quiet_says_only_what_matters(tmp_path: Path) -> None:
    """Section 5/S2: --quiet."""
    project = Tasks(tmp_path / "p", step("a", tool="echo"))
    words = ("dag", "인사", "--provider", f"scripted:{project.script}", "--quiet")
    done = project.run(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    waits = project.run(*words, "--approval", "always")
    assert waits.returncode == 3
    assert "orchestra approve" in waits.stderr and "begins" not in waits.stderr
    assert "no such file" in project.run(*words, "--plan", "없음.json").stderr
