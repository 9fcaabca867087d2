"""A contract tree is verified by requirement and line, whoever wrote it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestra.workflows.contracts.places import Places, project_hash
from orchestra.workflows.contracts.verifying import tree_at, verified, verify_tree
from tests.support.project import Project
from tests.workflows.contracts.samples import KINDS, sample, text, values

CONTROLLER = "src/main/java/com/example/controller/AController.java"
TESTS = "src/test/java/com/example/service/AServiceTest.java"
FILES = {
    "explored.yaml": "explored",
    "task-breakdown.yaml": "task-breakdown",
    "T1/design-brief.yaml": "design-brief",
    "T1/design-contract.yaml": "design-contract",
    "T1/T1-S2/test-contract.yaml": "test-contract",
    "T1/T1-S2/test-result.yaml": "test-result",
}


def planted(project: Path) -> Path:
    """A tree of the spec's samples in a project, in the state of the samples: one of three subtasks is complete."""
    folder = project / Places(project_hash(project)).request("R1")
    for path, name in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(sample(name), encoding="utf-8")
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return planted(tmp_path)


def found(folder: Path, project: Path | None = None) -> list[str]:
    """The findings of a tree, without its folder: `T1/design-brief.yaml:9 S3-42 subtasks`."""
    return [
        f"{Path(one.where).relative_to(folder)} {one.requirement} {one.message.partition(':')[0]}"
        for one in verify_tree(project or folder, folder)
    ]


def change(folder: Path, path: str, changed: Callable[[dict[str, Any]], object]) -> None:
    """Rewrite a document of the tree."""
    data = values(FILES[path])
    changed(data)
    (folder / path).write_text(text(data), encoding="utf-8")


def at(folder: Path, path: str, begin: str) -> str:
    """`path:line` of the first line of a document that begins so."""
    lines = (folder / path).read_text(encoding="utf-8").splitlines()
    return f"{path}:{next(number for number, line in enumerate(lines, 1) if line.strip().startswith(begin))}"


def complete(folder: Path) -> None:
    """Make the task of the tree complete: its brief has only the subtask with the passed result."""
    only = {"subtasks": [{"id": "T1-S2", "name": "서비스"}], "subtask_order": ["T1-S2"]}
    change(folder, "T1/design-brief.yaml", lambda data: data.update(only))


def make(project: Path, *paths: str) -> None:
    for path in paths:
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text("class A {}")


@pytest.mark.spec("S3-136", "S3-01")
def test_a_tree_of_the_samples_conforms(tree: Path) -> None:
    assert found(tree) == []
    assert found(tree.parent) == []


@pytest.mark.spec("S3-127", "S3-128", "S3-129", "S3-130")
@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ("explored.yaml", ["T1/design-brief.yaml:1 S3-127 design-brief.yaml"]),
        ("task-breakdown.yaml", ["T1/design-brief.yaml:1 S3-127 design-brief.yaml"]),
        ("T1/design-brief.yaml", ["T1/design-contract.yaml:1 S3-128 design-contract.yaml"]),
        ("T1/design-contract.yaml", ["T1/T1-S2/test-contract.yaml:1 S3-129 test-contract.yaml"]),
        ("T1/T1-S2/test-contract.yaml", ["T1/T1-S2/test-result.yaml:1 S3-130 test-result.yaml"]),
        ("T1/T1-S2/test-result.yaml", []),
    ],
)
def test_a_document_needs_what_it_is_made_from(tree: Path, missing: str, expected: list[str]) -> None:
    (tree / missing).unlink()
    assert found(tree) == expected


@pytest.mark.spec("S3-19", "S3-12")
def test_ids_in_documents_are_those_of_their_folders(tree: Path) -> None:
    (tree / "T1/T1-S2").rename(tree / "T1/T1-S3")
    assert found(tree) == [
        "T1/T1-S3/test-contract.yaml:4 S3-19 subtask_id",
        "T1/T1-S3/test-result.yaml:4 S3-19 subtask_id",
    ]
    (tree / "T1/T1-S3").rename(tree / "T1/S3")
    assert found(tree) == ["T1/S3:1 S3-12 S3"]


def test_every_broken_line_is_named_with_its_requirement(tree: Path) -> None:
    change(tree, "task-breakdown.yaml", lambda data: data.update(task_order=["T1"], extra=1))
    change(tree, "T1/design-brief.yaml", lambda data: data["file_refs"][0].update(status="new"))
    (tree / "T1/design-contract.yaml").write_bytes(b"invariants: [\n")
    (tree / "T1/T1-S2/test-result.yaml").write_bytes(b"\xff\xfe")
    assert found(tree) == [
        f"{at(tree, 'task-breakdown.yaml', 'extra')} S3-141 extra",
        f"{at(tree, 'T1/design-brief.yaml', 'status')} S3-47 file_refs[0].status",
        "T1/design-contract.yaml:2 S3-134 document",
        "T1/T1-S2/test-result.yaml:1 S3-134 document",
    ]
    change(tree, "task-breakdown.yaml", lambda data: data.update(task_order=["T1"]))
    assert found(tree)[0] == f"{at(tree, 'task-breakdown.yaml', 'task_order')} S3-34 task_order"


@pytest.mark.spec("S3-24", "S3-42", "S3-111")
def test_folders_and_failed_tests_are_those_of_the_documents_above(tree: Path) -> None:
    (tree / "T7").mkdir()
    (tree / "T1/T1-S9").mkdir()
    failed = {"id": "TC-9", "name": "x", "reason": "", "category": "implementation_error"}
    broken = {
        "failed_tests": [failed],
        "summary": {"total": 1, "passed": 0, "failed": 1, "skipped": 0},
        "recommendation": {"action": "retry_implementation", "reason": ""},
        "execution": {"command": "x", "timestamp": "2024-01-15T11:00:00Z", "result": "fail"},
    }
    change(tree, "T1/T1-S2/test-result.yaml", lambda data: data.update(broken))
    assert found(tree) == [
        f"{at(tree, 'T1/design-brief.yaml', 'subtasks')} S3-42 subtasks",
        f"{at(tree, 'task-breakdown.yaml', 'tasks')} S3-24 tasks",
        f"{at(tree, 'T1/T1-S2/test-result.yaml', '- id')} S3-111 failed_tests[0].id",
    ]


@pytest.mark.spec("S3-48", "S3-49", "S3-50")
def test_files_are_judged_by_the_state_of_the_request(tree: Path, tmp_path: Path) -> None:
    assert found(tree) == []  # begun: the file may be there or not
    make(tmp_path, CONTROLLER)
    assert found(tree) == []
    for name in ("test-result", "test-contract"):
        (tree / f"T1/T1-S2/{name}.yaml").unlink()
    # Not begun: what is to be created must not be there.
    documents = ("T1/design-brief.yaml", "T1/design-contract.yaml")
    assert found(tree) == [f"{at(tree, path, 'status')} S3-49 file_refs[0].status" for path in documents]


@pytest.mark.spec("S3-48", "S3-49", "S3-50")
def test_a_finished_tree_has_its_files(tree: Path, tmp_path: Path) -> None:
    complete(tree)
    assert [one.split()[1] for one in found(tree)] == ["S3-49", "S3-49"]  # complete without the file
    make(tmp_path, CONTROLLER)
    assert found(tree) == []
    change(tree, "T1/design-contract.yaml", lambda data: data["file_refs"][0].update(path="gone.py", status="exists"))
    assert [one.split()[1] for one in found(tree)] == ["S3-48"]
    change(
        tree, "T1/design-contract.yaml", lambda data: data["file_refs"][0].update(path="gone.py", status="to_modify")
    )
    assert [one.split()[1] for one in found(tree)] == ["S3-50"]


def state(**status: str) -> bytes:
    gates = {"GATE-1": status.get("gate1", "pending"), "GATE-2": status.get("gate2", "pending")}
    subtask = {"name": "s", "status": status.get("subtask", "pending"), "phase": "complete", "gates": gates}
    task = {
        "name": "t",
        "status": status.get("task", "pending"),
        "current_subtask": None,
        "subtasks": {status.get("id", "T1-S2"): subtask},
        "subtask_order": ["T1-S2"],
    }
    request = {
        "id": "R1",
        "original_request": "요청",
        "status": status.get("request", "active"),
        "current_task": "T1",
        "global_phase": "task_loop",
    }
    return msgspec.json.encode({"version": 2, "request": request, "tasks": {"T1": task}, "task_order": ["T1"]})


@pytest.mark.spec("S3-131", "S3-132", "S3-133")
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, []),
        ({"subtask": "completed", "task": "completed", "request": "completed"}, []),
        ({"subtask": "completed", "id": "T1-S1"}, ["S3-131"]),
        ({"gate2": "passed", "id": "T1-S1"}, ["S3-131"]),
        ({"gate1": "passed", "id": "T1-S1"}, ["S3-130"]),
        ({"gate1": "passed"}, ["S3-130"]),  # the test file is not there
        ({"task": "completed"}, ["S3-132"]),
        ({"request": "completed"}, ["S3-133"]),
    ],
)
def test_no_state_claims_what_no_test_result_shows(tree: Path, status: dict[str, str], expected: list[str]) -> None:
    (tree / "state.json").write_bytes(state(**status))
    assert [one.split()[1] for one in found(tree)] == expected


@pytest.mark.parametrize("wrong", [b"", b"{", b"[1]", b'{"version": 1}', b'{"version": 2, "more": 1}', b"[" * 100_000])
def test_a_state_that_is_none_is_one_finding(tree: Path, wrong: bytes) -> None:
    (tree / "state.json").write_bytes(wrong)
    assert found(tree) == ["state.json:1 S3-141 state.json"]


def test_history_other_files_and_links_are_left_alone(tree: Path, tmp_path: Path) -> None:
    (tree / "T1/T1-S2/history").mkdir()
    (tree / "T1/T1-S2/history/test-result-0001.yaml").write_text("broken: [")
    (tree / "notes.md").write_text("x")
    (tree / "attachments").mkdir()
    (tree / "T2").symlink_to(tree / "T1")
    assert found(tree) == []
    (tree / "T1/test-result.yaml").write_text("x")
    assert found(tree) == ["T1/test-result.yaml:1 S3-07 test-result.yaml"]
    (tree / "T1/test-result.yaml").unlink()
    (tree / "explored.yaml").unlink()
    (tree / "explored.yaml").symlink_to("/etc/passwd")
    assert found(tree) == ["explored.yaml:1 S3-134 document"]


def test_a_huge_tree_and_a_pipe_are_refused_in_time(tree: Path) -> None:
    import os

    (tree / "explored.yaml").unlink()
    os.mkfifo(tree / "explored.yaml")
    (tree / "task-breakdown.yaml").write_text("#" * (1 << 20))
    assert [one.split()[1] for one in found(tree)] == ["S3-134", "S3-134"]


def test_a_name_is_a_tree_only_if_it_looks_like_one(tree: Path, tmp_path: Path) -> None:
    assert tree_at(tmp_path, "R1") == tree
    assert tree_at(tmp_path, str(tree)) == tree
    assert tree_at(tmp_path, str(tree.parent)) == tree.parent
    for name in ("R2", str(tmp_path), str(tree / "T1"), "last", "2026-01-01_001_loop_x"):
        assert tree_at(tmp_path, name) is None


@pytest.mark.spec("S3-136", "S3-19")
def test_each_sample_is_read_alone_wherever_it_lies(tree: Path, tmp_path: Path) -> None:
    assert {*KINDS} == {file.stem for file in (tree.rglob("*.yaml"))}
    for file in tree.rglob("*.yaml"):
        other = tmp_path / file.name  # no folder of S3: its ids are compared with none
        other.write_bytes(file.read_bytes())
        for one in (file, other):
            checked = verified(tmp_path, str(one))
            assert checked is not None and checked[0] == one and list(checked[1]) == []
    moved = tree / "T2" / "design-brief.yaml"
    moved.parent.mkdir()
    moved.write_bytes((tree / "T1/design-brief.yaml").read_bytes())
    checked = verified(tmp_path, str(moved))
    assert checked is not None
    assert [one.message.split(":")[0] for one in checked[1]][:1] == ["task_id"]
    assert verified(tmp_path, str(tree / "state.json")) is None


def test_verify_prints_each_broken_line_and_exits_with_1(tmp_path: Path) -> None:
    project = Project(tmp_path / "프로젝트")
    folder = planted(project.path)
    shown = folder.relative_to(project.path)
    good = project.run("verify", "R1")
    assert (good.returncode, good.stdout) == (0, f"{folder}: conforms\n")
    change(folder, "T1/T1-S2/test-result.yaml", lambda data: data["summary"].update(total=7))
    bad = project.run("verify", str(shown))
    assert bad.returncode == 1
    where = at(folder, "T1/T1-S2/test-result.yaml", "total")
    said = "S3-109 summary.total: it is 7, and passed + failed + skipped is 2"
    assert bad.stdout == f"{shown}/{where}: {said}\n"
    assert bad.stderr == f"{shown}: 1 requirement(s) broken\n"
    assert project.run("verify", "R2").returncode == 2
