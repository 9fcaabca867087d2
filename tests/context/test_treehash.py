"""The digest of the files that a test run is about."""

from __future__ import annotations

from pathlib import Path

from orchestra.context import treehash


def test_contracts_and_runs_are_no_files_that_tests_are_about(tmp_path: Path) -> None:
    (tmp_path / "calc.py").write_text("x = 1\n")
    before = treehash.tested_tree(tmp_path)
    for path in (".claude/orchestrator/sessions/0/contracts/R1/T1/T1-S1/test-result.yaml", ".runs/workflows/a/b"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("version: 1\n")
    assert treehash.tested_tree(tmp_path) == before
    (tmp_path / ".claude" / "notes.md").write_text("x\n")
    assert treehash.tested_tree(tmp_path) != before
