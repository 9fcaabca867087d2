"""The real program, headless: every command, its output, its exit code, its errors."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.project import (
    FIX_PATCH,
    PLAN,
    PROGRAM,
    RIGHT,
    RIGHT_PATCH,
    WRONG_PATCH,
    Project,
    ask,
    records,
    role,
)


@pytest.fixture
def finished(tmp_path: Path) -> Project:
    project = Project(tmp_path / "p")
    assert project.loop("--approval", "never", goal="add()를 고쳐라").returncode == 0
    return project


@pytest.fixture
def parked(tmp_path: Path) -> Project:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    assert project.loop().returncode == 3
    return project


# -- the JSON stream --------------------------------------------------------------------------------------------------


def test_json_is_launch_then_every_event_as_written_then_done(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    done = project.loop("--approval", "never")
    lines = records(done.stdout)
    folder = project.folder
    assert lines[0] == {"type": "launch", "runId": folder.id, "dir": str(folder.path), "workflow": "loop"}
    check = {"command": "grep -q 'a + b' calc.py", "status": "pass", "exitCode": 0, "before": "fail"}
    grounds = "The check passes: red before, green after."
    result = {"grounds": grounds, "iterations": 2, "checks": [check], "provesNothing": False}
    assert lines[-1] == {
        "type": "done",
        "runId": folder.id,
        "status": "completed",
        "exitCode": 0,
        "result": result,
    }
    assert lines[1:-1] == [json.loads(line) for line in folder.events.read_text().splitlines()]
    assert done.stderr == ""


def test_a_resumed_run_says_which_it_is_and_only_what_is_new(parked: Project) -> None:
    before = len(parked.events())
    lines = records(parked.run("approve", "last", "--json", "--no-input").stdout)
    assert lines[0]["type"] == "launch" and lines[-1]["exitCode"] == 0
    assert [line["id"] for line in lines[1:-1]] == [event.id for event in parked.events()[before:]]


# -- looking ----------------------------------------------------------------------------------------------------------


def test_runs_show_logs_diff_audit_report(finished: Project) -> None:
    runs = finished.run("runs").stdout
    assert "add()를 고쳐라" in runs and "completed" in runs
    shown = finished.run("show", "last").stdout
    for text in ("add()를 고쳐라", "completed", "patch applied: calc.py", "needs a fix", finished.folder.id):
        assert text in shown
    logs = finished.run("logs", "last").stdout.splitlines()
    assert len(logs) == len(finished.events())
    diff = finished.run("diff", "last").stdout
    assert "+    return a * b" not in diff and "+    return a + b" in diff  # the net change
    patches = finished.run("diff", "last", "--patches").stdout
    assert "+    return a * b" in patches and "+    return a + b" in patches
    assert "\x1b[" not in shown + diff + runs  # no colours in a pipe
    audit = finished.run("audit", "last").stdout
    first = [line.split()[0] for line in audit.splitlines()]
    assert first == ["key", "plan.1", "execute.1", "fix.1", "planner", "developer", "fixer", "total"]
    assert audit.count("once") == 3
    assert finished.run("report", "last").stdout.startswith("# add()를 고쳐라\n")


def test_the_same_as_json(finished: Project) -> None:
    [run] = records(finished.run("runs", "--json").stdout)
    assert (run["status"], run["goal"], run["driven"]) == ("completed", "add()를 고쳐라", False)
    [shown] = records(finished.run("show", "last", "--json").stdout)
    assert shown["lastEventId"] == finished.events()[-1].id
    calls = records(finished.run("audit", "last", "--json").stdout)
    assert [c["paid"] for c in calls if c["type"] == "call"] == ["once"] * 3
    assert [(c["role"], c["calls"]) for c in calls if c["type"] == "role"] == [
        ("planner", 1),
        ("developer", 1),
        ("fixer", 1),
    ]
    assert calls[-1]["type"] == "total" and calls[-1]["calls"] == 3
    assert len(records(finished.run("logs", "last", "--json").stdout)) == len(finished.events())


def test_inbox_names_the_command_that_answers(parked: Project) -> None:
    told = parked.run("inbox").stdout
    assert f"orchestra approve {parked.folder.id}" in told
    [waiting] = records(parked.run("inbox", "--json").stdout)
    assert waiting["type"] == "APPROVAL_REQUESTED"
    assert parked.run("approve", "last", "--no-drive").returncode == 0
    assert f"orchestra resume {parked.folder.id}" in parked.run("inbox").stdout
    assert parked.run("resume", "last", "--no-input").returncode == 0
    assert parked.run("inbox").stdout == "nothing waits for you\n"


def test_commands_shown_for_another_folder_say_so(parked: Project, tmp_path: Path) -> None:
    told = subprocess.run(
        [PROGRAM, "-C", str(parked.path), "inbox"], cwd=tmp_path, capture_output=True, text=True
    ).stdout
    assert f"orchestra approve {parked.folder.id} -C {parked.path}" in told


def test_the_waiting_patch_is_what_diff_shows(parked: Project) -> None:
    assert "+    return a + b" in parked.run("diff", "last").stdout


def test_watch_follows_until_the_end(parked: Project) -> None:
    watching = subprocess.Popen(
        [PROGRAM, "watch", "last", "--json"], cwd=parked.path, stdout=subprocess.PIPE, text=True
    )
    parked.run("approve", "last", "--no-input")
    out, _ = watching.communicate(timeout=30)
    assert watching.returncode == 0
    assert [line["type"] for line in records(out)] == parked.types()


def test_a_reader_that_stops_reading_is_no_error(finished: Project) -> None:
    done = subprocess.run(
        f"{PROGRAM} logs last | head -1", shell=True, cwd=finished.path, capture_output=True, text=True, check=False
    )
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


# -- words from other terminals ---------------------------------------------------------------------------------------


def test_the_first_answer_wins(parked: Project) -> None:
    assert parked.run("approve", "last", "--no-drive").returncode == 0
    second = parked.run("reject", "last", "--reason", "too late")
    assert second.returncode == 2
    assert "already answered (approve by" in second.stderr


def test_an_answer_of_the_wrong_kind_is_refused_with_the_right_one(parked: Project, tmp_path: Path) -> None:
    wrong = parked.run("answer", "last", "yes")
    assert wrong.returncode == 2
    assert f"orchestra approve {parked.folder.id}" in wrong.stderr
    project = Project(tmp_path / "q", role("planner", PLAN), role("developer", ask("?")))
    project.loop()
    assert f"orchestra answer {project.folder.id}" in project.run("approve", "last").stderr
    assert project.run("answer", "last", "  ").returncode == 2


def test_cancel_ends_a_parked_run_and_keeps_its_files(parked: Project) -> None:
    done = parked.run("cancel", "last", "--reason", "필요 없음")
    assert done.returncode == 0
    assert parked.types()[-1] == "RUN_CANCELED"
    assert parked.events()[-1].payload["result"]["reason"] == "필요 없음"
    assert parked.state()["status"] == "canceled"
    assert parked.run("verify", "last").returncode == 0
    again = parked.run("cancel", "last")
    assert again.returncode == 2 and "already canceled" in again.stderr
    assert parked.run("resume", "last", "--no-input").returncode == 1


# -- fork, replay, budget, drift --------------------------------------------------------------------------------------


def test_a_failed_run_goes_on_as_a_fork_from_before_its_failure(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN))
    assert project.loop("--approval", "never").returncode == 1
    failed = project.folder
    before = failed.events.read_bytes()
    project.write_script(role("planner", "another plan"), role("developer", RIGHT_PATCH))
    done = project.run("fork", "last", "--json", "--no-input")
    assert done.returncode == 0, done.stderr
    assert failed.events.read_bytes() == before
    fork = project.runs[1]
    assert fork.id.startswith(failed.id.split("_")[0] + "_002_")
    assert (fork.path / "artifacts/plan/iter-0001.md").read_text() == PLAN  # its history, not asked again
    assert project.run("verify", fork.id).returncode == 0
    odd = project.run("fork", failed.id, "--at", "²")
    assert odd.returncode == 2 and "is a number" in odd.stderr
    wrong = project.run("fork", failed.id, "--at", "99")
    assert wrong.returncode == 2 and "has no event 00000099" in wrong.stderr


def test_a_recorded_run_replays_without_its_script(finished: Project, tmp_path: Path) -> None:
    (finished.path / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    finished.script.unlink()
    command = ["loop", "add()를 고쳐라", "--check", finished.check, "--approval", "never", "--no-input"]
    done = finished.run(*command, "--provider", "replay:last")
    assert done.returncode == 0, done.stderr
    assert finished.calc().endswith(RIGHT)
    other = finished.run("loop", "another goal", "--check", "true", "--provider", "replay:last", "--no-input")
    assert other.returncode == 1 and "no recorded reply" in other.stderr


def test_the_budget_stops_before_a_call_and_a_raise_goes_on(tmp_path: Path) -> None:
    usage = {"inputTokens": 1_000_000, "outputTokens": 0}
    project = Project(tmp_path / "p", role("planner", PLAN, usage=usage), role("developer", RIGHT_PATCH, usage=usage))
    project.configure("budget: {prices: {m: {input: 2.0, output: 9.0}}}\n")
    stopped = project.loop("--approval", "never", "--model", "m", "--max-budget-usd", "1.5")
    assert stopped.returncode == 4
    assert records(stopped.stdout)[-1]["exitCode"] == 4
    assert "$2.0000 of $1.5000 spent" in stopped.stderr and "--max-budget-usd" in stopped.stderr
    assert project.run("resume", "last", "--no-input").returncode == 4
    assert project.run("resume", "last", "--max-budget-usd", "10", "--no-input").returncode == 0
    assert project.run("audit", "last").stdout.splitlines()[-1].split()[-1] == "4.0000"


def test_a_budget_without_a_price_is_said_to_hold_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    done = project.loop("--approval", "never", "--max-budget-usd", "1")
    assert done.returncode == 0
    assert "no price" in done.stderr and "budget.prices" in done.stderr


def test_roles_can_have_providers_of_their_own(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    judge = Project(tmp_path / "j", role("evaluator", "DECISION: FIX\nno"), role("evaluator", "DECISION: PASS\nok"))
    coder = Project(
        tmp_path / "c", role("fixer", "<<<AIO_RESULT_START>>>\ntype: NOOP\nreason: done\n<<<AIO_RESULT_END>>>")
    )
    done = project.loop(
        "--approval",
        "never",
        "--role",
        f"evaluator=scripted:{judge.script}",
        "--role",
        f"fixer=scripted:{coder.script}",
    )
    assert done.returncode == 0, done.stderr
    assert project.types().count("EVALUATION_FAILED_FIXABLE") == 1


def test_a_script_from_the_configuration_is_found_beside_it(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    loop = f'loop: {{checks: ["{project.check}"], approval: never}}'
    config = f"providers: {{default: 'scripted:../{project.script.name}'}}\n{loop}\n"
    project.configure(config)
    done = subprocess.run(
        [PROGRAM, "loop", "g", "-C", str(project.path), "--no-input"], cwd=tmp_path, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert project.calc().endswith(RIGHT)


# -- small commands ---------------------------------------------------------------------------------------------------


def test_init_writes_a_configuration_that_validates_and_never_overwrites(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    assert project.run("init").returncode == 0
    assert project.run("config", "validate").returncode == 0
    assert project.run("config", "path").stdout.strip() == str(project.path / "orchestra.config.yaml")
    project.configure("version: '1.0'\n")
    assert project.run("init").returncode == 2
    assert (project.path / "orchestra.config.yaml").read_text() == "version: '1.0'\n"
    assert "approval: always" in project.run("config", "show").stdout


def test_doctor_says_what_works(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    done = project.run("doctor")
    assert done.returncode == 0, done.stdout
    assert "file locks work here" in done.stdout
    project.configure("x: 1")
    assert project.run("doctor").returncode == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_for_the_shell(tmp_path: Path, shell: str) -> None:
    assert "_ORCHESTRA_COMPLETE" in Project(tmp_path / "p").run("completion", shell).stdout


def test_schemas_are_given_one_by_one_and_together(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    everything = json.loads(project.run("schema").stdout)
    names = [line.split()[0] for line in project.run("schema", "--list").stdout.splitlines()]
    assert list(everything) == names
    assert json.loads(project.run("schema", "event").stdout) == everything["event"]
    assert json.loads(project.run("schema", "WorkflowState").stdout) == everything["state"]


def test_version(tmp_path: Path) -> None:
    assert Project(tmp_path / "p").run("--version").stdout == "orchestra 0.1.0\n"


def test_variables_mirror_flags(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", WRONG_PATCH), role("fixer", FIX_PATCH))
    env = {"ORCHESTRA_PROVIDER": f"scripted:{project.script}", "ORCHESTRA_APPROVAL": "never", "ORCHESTRA_JSON": "1"}
    done = project.run("loop", "g", "--check", project.check, env=env)
    assert done.returncode == 0
    assert records(done.stdout)[-1]["status"] == "completed"
