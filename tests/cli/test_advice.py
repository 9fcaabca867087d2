"""How a run's end is told: what really happened, and where what came of it is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from orchestra.app import App
from orchestra.cli.advice import masked_lines
from orchestra.core.work import Masked
from tests.support.project import PLAN, PROGRAM, RIGHT_PATCH, WRONG_PATCH, Project, role, sleeping, until
from tests.support.tasks import Tasks, step
from tests.support.terminal import Terminal

WRITES = {"policies": {"default_fs_mode": "rw"}}


def told(project: Tasks, *more: str) -> str:
    """The lines of a graph's run, headless."""
    return project.run("dag", "g g", "--provider", f"scripted:{project.script}", "--no-input", *more).stderr


def test_a_dry_run_claims_no_success(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo"), step("b", "a", tool="echo"))
    said = told(project, "--dry-run")
    assert "\ncompleted: dry run: nothing was run\n" in said and "approved by policy (approval: dry run)" in said
    assert "what changed" not in said and "printed" not in said
    report = project.run("report", "last").stdout
    assert "- status: **completed** — dry run: nothing was run" in report
    assert "| g g | 2 | 0 | 0 | 2 | 0 |" in report and "| a | a 하기 | echo | dry run |" in report
    assert project.json("metrics.json")["tasks_succeeded"] == 0
    assert "completed (dry run)" in project.run("runs").stdout


@pytest.mark.spec("S2-133")
def test_the_report_of_an_unfinished_run_does_not_call_it_completed(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo"))
    assert project.dag("--approval", "always").returncode == 3
    report = project.run("report", "last").stdout
    assert ", last event 2" in report and "completed" not in report
    assert project.run("approve", "last", "--no-input").returncode == 0
    assert ", completed 2" in project.run("report", "last").stdout


def test_a_run_nobody_drives_is_not_shown_as_running(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    words = [
        PROGRAM,
        "loop",
        "g",
        "--check",
        sleeping(project.path),
        "--approval",
        "never",
        "--no-input",
        "--no-baseline",
    ]
    driver = subprocess.Popen([*words, "--provider", f"scripted:{project.script}"], cwd=project.path, stderr=-3)
    until(lambda: project.runs and project.folder.events.exists() and "PATCH_APPLIED" in project.types())
    assert " running *" in project.run("runs").stdout
    driver.kill()
    driver.wait()
    shown = project.run("runs").stdout
    assert " stopped " in shown and "orchestra resume" in shown and "running" not in shown
    assert "  status     stopped\n" in project.run("show", "last").stdout
    assert json.loads(project.run("runs", "--json").stdout)["status"] == "running"
    assert project.run("cancel", "last").returncode == 0


def test_the_ending_says_where_the_results_are_and_nothing_that_is_not_there(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", code="print(1)"))
    printed = told(project)
    assert "what changed" not in printed
    assert f"what the tasks printed and left: {project.folder.artifacts}\n" in printed
    writer = Tasks(tmp_path / "q", step("a", code="open('new', 'w').write('x')"), config=WRITES)
    assert "what changed: orchestra diff" in told(writer, "--approval", "never")


def test_a_plan_that_was_only_made_is_named_with_the_command_that_carries_it_out(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo"))
    said = told(project, "--plan-only")
    plan = project.folder.path / "plan.json"
    assert f"\n  plan: {plan}\n  carry it out: orchestra dag 'g g' --plan {plan}\n" in said
    assert "what changed" not in said
    assert project.run("dag", "g g", "--plan", str(plan), "--no-input").returncode == 0


@pytest.mark.parametrize("own", [True, False])
def test_a_rejection_says_what_it_leads_to_and_the_end_says_that_it_was_one(tmp_path: Path, own: bool) -> None:
    project = Tasks(tmp_path / "p", step("a", code="open('new', 'w').write('x')"), config=WRITES)
    (project.path / "mine.json").write_text(json.dumps([step("a", code="open('new', 'w').write('x')")]))
    source = ["--plan", "mine.json"] if own else ["--provider", f"scripted:{project.script}"]
    terminal = Terminal([PROGRAM, "dag", "g", *source, "--approval", "always"], project.path)
    terminal.wait_for("leave it waiting >")
    terminal.type("r\n")
    shown = terminal.wait_for(") > ")
    assert ("reason (kept in the run, which ends)" if own else "reason (goes to the planner)") in shown
    terminal.type("\n")
    terminal.wait_for("leave it waiting >")
    terminal.type("a\n")
    terminal.wait_for("[y,n,a,d,e,?,q]? ")
    terminal.type("r\n")
    assert "reason (kept in the run; the task fails)" in terminal.wait_for(") > ")
    terminal.type("not so\n")
    said = terminal.wait_for("look closer")
    assert "failed: 1 of 1 tasks failed: a; a person rejected the changes of a" in said.replace("\r\n", " ")
    assert terminal.end() == 1


def test_a_rejected_plan_of_ones_own_ends_the_run_and_says_why(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p")
    (project.path / "mine.json").write_text(json.dumps([step("a", tool="echo")]))
    words = ("dag", "g", "--plan", "mine.json", "--approval", "always", "--no-input")
    assert project.run(*words).returncode == 3
    done = project.run("reject", "last", "--reason", "no", "--no-input")
    assert done.returncode == 1 and "\ncanceled: the plan was rejected\n" in done.stderr


def test_show_keeps_its_columns_whatever_the_error_is(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", WRONG_PATCH), role("fixer", WRONG_PATCH))
    assert project.loop("--approval", "never", "--max-fixes", "1").returncode == 1
    lines = project.run("show", "last").stdout.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("  last error FIX_LIMIT"))
    error = lines[start : lines.index("", start)]
    assert len(error) > 2 and all(line.startswith(" " * 13) for line in error[1:])


def test_show_forgets_an_error_that_was_overcome(tmp_path: Path) -> None:
    slow = {"code": "RATE_LIMIT", "message": "slow down", "retriable": True}
    developer = ({"match": {"role": "developer"}, "error": slow}, role("developer", RIGHT_PATCH))
    project = Project(tmp_path / "p", role("planner", PLAN), *developer)
    (project.path / "orchestra.config.yaml").write_text("retries: {backoff_base_sec: 0.05}\n")
    assert project.loop("--approval", "never").returncode == 0
    assert "lastError" in project.state() and "last error" not in project.run("show", "last").stdout


def test_one_is_not_several_and_a_time_has_its_zone(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", code="raise SystemExit(1)"))
    assert "waits for your approval: 1 task: g g" in told(project, "--approval", "always")
    done = project.run("approve", "last", "--no-input")
    assert done.returncode == 1 and " UTC\n" in done.stderr.partition("next attempt at ")[2]
    assert "summary done" in done.stderr and "evaluate done" not in done.stderr
    loop = Project(tmp_path / "q", role("planner", PLAN), role("developer", WRONG_PATCH), role("fixer", WRONG_PATCH))
    assert "after 1 fix." in loop.loop("--approval", "never", "--max-fixes", "1").stderr
    (tmp_path / "one").mkdir()
    one = Tasks(tmp_path / "one", step("a", tool="echo"))
    assert one.dag("--plan-only").returncode == 0
    assert " 1 call " in one.run("audit", "last").stdout


def test_a_check_without_its_runner_ends_with_the_line_that_cures_it(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    check = "python3 -m no_such_runner"
    (project.path / "requirements.txt").write_text("no_such_runner\n")
    ended = project.run("loop", "g", "--check", check, "--provider", f"scripted:{project.script}", "--no-input")
    assert ended.returncode == 3, ended.stderr
    assert "Python has no module no_such_runner" in ended.stderr
    assert "    needed: python3 -m venv .venv && .venv/bin/python -m pip install no_such_runner\n" in ended.stderr
    assert "    needed: python3 -m venv" in project.run("inbox").stdout


@pytest.mark.parametrize(("count", "more"), [(0, []), (1, []), (20, []), (21, ["  and 1 more place"])])
def test_of_many_masked_places_twenty_are_named_and_the_others_counted(
    tmp_path: Path, count: int, more: list[str]
) -> None:
    places = [Masked("가.py", number, 1 + number % 2, "a token") for number in range(1, count + 1)]
    lines = masked_lines(App(tmp_path), "R", places)
    assert lines[20:-1] == more and len(lines) == (min(count, 20) + len(more) + 1 if count else 0)
    assert lines[:1] == ["  masked here: 가.py line 1, 2 characters (a token)"][:count]
    assert all("orchestra diff R --exact" in line for line in lines[-1:])
