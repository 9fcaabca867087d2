"""What passed tests prove is reported, and blocks nothing: coverage of targets, and faults that nothing noticed."""

from __future__ import annotations

from pathlib import Path

from tests.support.contracts import ContractsProject, designed, implemented, name_of, qa, script


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
        "coverage of double: unknown (coverage.py is not installed beside the tests, or it could not run them)",
        "0 of 1 small faults were noticed by the tests",
        "not noticed: calc/t1_s1.py:2: 2 * n → (2 // n)",
    ]
    assert (project.path / "calc/t1_s1.py").read_text() == "def double(n: int) -> int:\n    return 2 * n\n"
    assert "not noticed: calc/t1_s1.py:2" in project.run("report", "last").stdout
    assert project.run("verify", "last").returncode == 0
