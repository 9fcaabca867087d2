"""What passed tests prove is reported, and blocks nothing: coverage of targets, and faults that nothing noticed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from orchestra.core.command import CommandOutcome
from orchestra.workflows.contracts.proving import Fault, Proved, time_for_fault, verdict_of
from tests.support.contracts import ContractsProject, designed, implemented, name_of, qa, script
from tests.support.project import new_file, reply


def test_a_test_that_proves_nothing_is_reported_and_blocks_nothing(tmp_path: Path) -> None:
    weak = f"        self.assertTrue({name_of('T1-S1')}.double(2))"  # true for every number but 0
    own = (designed("T1", "T1-S1"), *qa("T1-S1", weak, coverage_targets=["double"]), implemented("T1-S1"))
    replies = script(("T1", "T1-S1"))
    project = ContractsProject(tmp_path / "p", *replies[:4], *own, replies[-1])
    project.configure("contracts:\n  mutants: 3\n")
    ended = project.contracts()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    shown = project.run("trace", "R1").stdout.splitlines()
    proof = [line.strip() for line in shown if "coverage" in line or "fault" in line or "noticed" in line]
    assert proof == [
        "coverage of double: unknown (coverage.py is not installed beside the tests, or it could not measure them)",
        "0 of 1 small faults were noticed by the tests",
        "not noticed: calc/t1_s1.py:2: 2 * n → (2 // n)",
    ]
    assert (project.path / "calc/t1_s1.py").read_text() == "def double(n: int) -> int:\n    return 2 * n\n"
    assert "not noticed: calc/t1_s1.py:2" in project.run("report", "last").stdout
    assert project.run("verify", "last").returncode == 0


@pytest.mark.spec("S3-92")
def test_coverage_of_targets_is_measured_where_coverage_py_is_installed(tmp_path: Path) -> None:
    """The Python of these tests has coverage.py, and serves a project that writes its path out."""
    body = reply(
        new_file(
            "calc/t1_s1.py", "def double(n: int) -> int:", "    if n == 7:", "        return 14", "    return 2 * n"
        )
    )
    replies = script(("T1", "T1-S1"))
    targets = ["double", "calc/__init__.py", "AService.getData"]
    own = (designed("T1", "T1-S1"), *qa("T1-S1", coverage_targets=targets), implemented("T1-S1", body))
    project = ContractsProject(tmp_path / "p", *replies[:4], *own, replies[-1])
    project.configure("contracts:\n  mutants: 0\n")
    ended = project.contracts(check=f"{sys.executable} -m unittest -q")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    shown = project.run("trace", "R1").stdout.splitlines()
    assert [line.strip() for line in shown if "coverage" in line] == [
        "coverage of double: 67 % of calc/t1_s1.py::double, not run: 3",
        "coverage of calc/__init__.py: 100 % of calc/__init__.py",
        "coverage of AService.getData: unknown (no measured file has it)",
    ]


def test_faults_have_a_minute_together_and_each_four_times_what_the_tests_take() -> None:
    assert [time_for_fault(took, 0) for took in (0, 1_250, 3_000, 15_000, 15_001)] == [
        5_000,
        5_000,
        12_000,
        60_000,
        None,
    ]
    assert [time_for_fault(3_000, spent) for spent in (48_000, 48_001)] == [12_000, None]


@pytest.mark.parametrize(
    ("ended", "verdict"),
    [
        ({"status": "pass"}, "not noticed"),
        ({"status": "fail"}, "noticed"),
        ({"status": "fail", "timedOut": True, "limit": "time"}, "noticed"),  # the fault made an endless loop
        ({"status": "not_run", "error": "bwrap is missing"}, "not run"),
        ({"status": "fail", "blocked": "pytest is missing"}, "not run"),
    ],
)
def test_a_fault_is_noticed_if_the_tests_fail_or_do_not_end(ended: dict[str, Any], verdict: str) -> None:
    outcome = CommandOutcome(
        **{"command": "t", "exitCode": 0, "durationMs": 1, "timedOut": False, "output": "", **ended}
    )
    assert verdict_of(outcome) == verdict
    first, *_ = Proved(faults=(Fault("a.py:1: < → <=", verdict_of(outcome)),)).lines
    noticed = int(verdict == "noticed")
    left = ", 1 could not be tried" if verdict == "not run" else ""
    assert first == f"{noticed} of 1 small faults were noticed by the tests{left}"


def test_lines_that_no_fault_can_be_put_into_are_named() -> None:
    (line,) = Proved(faultless=("src/add.js", "src/sub.js")).lines
    assert line.startswith("no small fault was tried: ") and line.endswith("src/add.js, src/sub.js")
    assert list(Proved().lines) == []
