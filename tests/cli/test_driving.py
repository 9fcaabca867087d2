"""A run that a process drives: it is cancelled, interrupted or killed, and goes on or ends as it should."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.project import (
    PLAN,
    PROGRAM,
    RIGHT_PATCH,
    Project,
    processes,
    records,
    role,
    sleeping,
    until,
)


def _driven(project: Project, *more: str) -> subprocess.Popen[str]:
    """A loop driven in the background, once it has begun its check."""
    command = [
        PROGRAM,
        "loop",
        "g",
        "--check",
        sleeping(project.path),
        "--provider",
        f"scripted:{project.script}",
    ]
    running = subprocess.Popen(
        [*command, "--approval", "never", "--no-input", "--no-baseline", "--json", *more],
        cwd=project.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: _left(project))
    return running


def _left(project: Project) -> list[str]:
    return [line for line in processes(project.path) if not line.startswith("bwrap")]


@pytest.fixture
def busy(tmp_path: Path) -> Project:
    return Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))


@pytest.mark.parametrize("command", ["cancel", "kill"])
def test_cancel_stops_a_driven_run_and_its_check(busy: Project, command: str) -> None:
    running = _driven(busy)
    assert busy.run(command, "last").returncode == 0
    out, _ = running.communicate(timeout=30)
    assert running.returncode == 1
    assert records(out)[-1]["status"] == "canceled"
    assert _left(busy) == []


@pytest.mark.spec("S1-113")
def test_the_state_file_says_where_a_run_is_that_is_in_its_check_and_where_it_was_killed(busy: Project) -> None:
    running = _driven(busy)
    where = {"status": "running", "currentPhase": "evaluate", "iteration": 1}
    assert {name: busy.state()[name] for name in where} == where
    running.kill()
    running.communicate(timeout=30)
    assert {name: busy.state()[name] for name in where} == where
    until(lambda: not _left(busy))


def test_a_second_driver_is_refused_with_exit_code_7(busy: Project) -> None:
    running = _driven(busy)
    second = busy.run("resume", "last", "--no-input")
    assert second.returncode == 7
    assert f"pid {running.pid}" in second.stderr
    assert "*" in busy.run("runs").stdout
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=30)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_process_and_a_run_that_goes_on(busy: Project, number: int) -> None:
    running = _driven(busy)
    running.send_signal(number)
    out, _ = running.communicate(timeout=30)
    assert running.returncode == 130
    assert records(out)[-1]["exitCode"] == 130
    assert _left(busy) == []
    assert busy.state()["status"] == "running"
    assert busy.run("cancel", "last").returncode == 0


def test_a_sigkill_in_a_check_leaves_no_process_and_resume_runs_only_what_is_open(busy: Project) -> None:
    running = _driven(busy)
    running.kill()
    running.communicate(timeout=30)
    until(lambda: _left(busy) == [])
    before = busy.types()
    again = subprocess.Popen(
        [PROGRAM, "resume", "last", "--no-input", "--json"], cwd=busy.path, stdout=subprocess.PIPE, text=True
    )
    until(lambda: _left(busy))
    assert busy.types() == [*before, "PHASE_STARTED"]  # nothing was asked or applied anew; the new process is told
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=30)


@pytest.mark.spec("S1-121")
def test_a_reply_on_its_way_when_killed_is_shown_as_possibly_paid_twice(tmp_path: Path) -> None:
    slow = role("planner", PLAN, delayMs=3000, chunk=3)
    project = Project(tmp_path / "p", slow, role("developer", RIGHT_PATCH))
    running = subprocess.Popen(
        [PROGRAM, "loop", "g", "--check", project.check, "--provider", f"scripted:{project.script}", "--no-input"],
        cwd=project.path,
        stderr=subprocess.DEVNULL,
    )
    part = "artifacts/plan/iter-0001.raw.txt.part"
    until(
        lambda: project.runs and (project.folder.path / part).exists() and (project.folder.path / part).stat().st_size
    )
    running.kill()
    running.wait()
    project.write_script(role("planner", PLAN), role("developer", RIGHT_PATCH))
    assert project.run("resume", "last", "--no-input").returncode == 3
    audit = project.run("audit", "last").stdout
    assert "possibly twice" in audit.splitlines()[1]
    assert "1 call may have been paid twice" in audit
    assert "once" in audit.splitlines()[2]
