"""Where the files of S3 lie."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from orchestra.workflows.contracts import places
from orchestra.workflows.contracts.places import Places, ids_of, next_request, project_hash
from orchestra.workflows.contracts.rules import Ids

HERE = Places("0a1b2c3d")


@pytest.mark.spec("S3-02")
def test_the_hash_is_of_the_resolved_path(tmp_path: Path) -> None:
    project = tmp_path / "프로젝트"
    project.mkdir()
    (tmp_path / "link").symlink_to(project)
    expected = hashlib.md5(str(project.resolve()).encode()).hexdigest()[:8]
    assert project_hash(project) == project_hash(tmp_path / "link") == project_hash(project / ".") == expected


@pytest.mark.spec("S3-01", "S3-02", "S3-03", "S3-04", "S3-05", "S3-06", "S3-07", "S3-08", "S3-12")
def test_the_paths_are_those_of_the_spec() -> None:
    root = ".claude/orchestrator/sessions/0a1b2c3d"
    assert HERE.request("R1", places.EXPLORED) == f"{root}/contracts/R1/explored.yaml"
    assert HERE.request("R1", places.BREAKDOWN) == f"{root}/contracts/R1/task-breakdown.yaml"
    assert HERE.task("R1", "T1", places.BRIEF) == f"{root}/contracts/R1/T1/design-brief.yaml"
    assert HERE.task("R1", "T1", places.DESIGN) == f"{root}/contracts/R1/T1/design-contract.yaml"
    assert HERE.subtask("R1", "T1-S1", places.TESTS) == f"{root}/contracts/R1/T1/T1-S1/test-contract.yaml"
    assert HERE.subtask("R1", "T1-S1", places.RESULT) == f"{root}/contracts/R1/T1/T1-S1/test-result.yaml"
    assert HERE.earlier_result("R1", "T1-S1", 2) == f"{root}/contracts/R1/T1/T1-S1/history/test-result-0002.yaml"
    assert HERE.session == root


@pytest.mark.spec("S3-09", "S3-10", "S3-11", "S3-12")
def test_a_folder_has_ids_only_if_it_is_one_of_the_spec() -> None:
    assert ids_of(("R1",)) == Ids("R1")
    assert ids_of(("R12", "T3")) == Ids("R12", "T3")
    assert ids_of(("R1", "T1", "T1-S2")) == Ids("R1", "T1", "T1-S2")
    wrong = [
        (),
        ("r1",),
        ("R0",),
        ("R1", "1"),
        ("R1", "T1", "S1"),
        ("R1", "T1", "T2-S1"),
        ("R1", "T1", "T1-S1", "history"),
    ]
    assert [ids_of(parts) for parts in wrong] == [None] * len(wrong)


@pytest.mark.spec("S3-09")
def test_requests_are_counted_from_one() -> None:
    assert next_request([]) == "R1"
    assert next_request(["R2", "R10", "notes", "R03"]) == "R11"
