"""`verify` names the requirement of S2 that a damaged task graph's folder breaks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import KNOWN
from tests.support.runs import verify
from tests.support.tasks import Tasks, step


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    first = step("a", code="import os; print(1); open(os.environ['ORCHESTRA_ARTIFACTS'] + '/empty', 'w')")
    project = Tasks(tmp_path_factory.mktemp("verify") / "p", first, step("b", "a", tool="echo"))
    assert project.dag().returncode == 0
    return project.folder.path


def lines(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[Path], None]:
    """Damage tasks.jsonl."""

    def damage(run: Path) -> None:
        path = run / "tasks.jsonl"
        records = [json.loads(line) for line in path.read_text().splitlines()]
        change(records)
        path.write_text("".join(json.dumps(record) + "\n" for record in records))

    return damage


def plan(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Damage plan.json."""

    def damage(run: Path) -> None:
        record = json.loads((run / "plan.json").read_text())
        change(record)
        (run / "plan.json").write_text(json.dumps(record))

    return damage


def _of(records: list[dict[str, Any]], label: str, state: str) -> dict[str, Any]:
    return next(record for record in records if (record["label"], record["state"]) == (label, state))


def _early(records: list[dict[str, Any]]) -> None:
    """b begins before a is done."""
    start = _of(records, "b", "running")
    records.remove(start)
    records.insert(records.index(_of(records, "a", "done")), start)


DAMAGES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "no tasks.jsonl": ("S2-132", lambda run: (run / "tasks.jsonl").unlink()),
    "no report": ("S2-133", lambda run: (run / "report.md").unlink()),
    "no JSON": ("S2-132", lambda run: (run / "tasks.jsonl").write_text("{\n")),
    "another state": ("S2-28", lines(lambda r: r[-1].update(state="finished"))),
    "no id": ("S2-15", lines(lambda r: r[-1].pop("task_id"))),
    "a fourth level": ("S2-17", lines(lambda r: r[-1].update(level=4))),
    "after the end": ("S2-130", lines(lambda r: r.append(_of(r, "a", "running")))),
    "before its dependency": ("S2-129", lines(_early)),
    "planned and begun": ("S2-120", lines(lambda r: r.insert(9, {**_begun(_of(r, "a", "planned"))}))),
    "another size": ("S2-35", lambda run: (run / "artifacts/a/stdout.txt").write_text("more than it was\n")),
    "other bytes": ("S2-36", lambda run: (run / "artifacts/a/stdout.txt").write_text("2\n")),
    "said something after all": ("S2-35", lambda run: (run / "artifacts/a/stderr.txt").write_text("oh\n")),
    "nothing handed over": ("S2-34", lambda run: (run / "artifacts/a/files/empty").unlink()),
    "no artifact": ("S2-34", lambda run: (run / "artifacts/a/stdout.txt").unlink()),
    "no plan": ("S2-95", lambda run: (run / "plan.json").write_text("[]")),
    "other nodes": ("S2-103", plan(lambda p: p["dag"]["nodes"].pop())),
    "other edges": ("S2-104", plan(lambda p: p["dag"]["edges"].clear())),
    "a circle": ("S2-105", plan(lambda p: p["tasks"][0]["depends_on"].append(p["tasks"][1]["task_id"]))),
    "an unknown task": ("S2-106", plan(lambda p: p["tasks"][0]["depends_on"].append("ghost"))),
    "an id twice": ("S2-58", plan(lambda p: p["tasks"].append(p["tasks"][0]))),
}


def test_an_output_without_a_byte_may_be_gone(finished: Path, tmp_path: Path) -> None:
    """D-04: its name is not synced, because it holds nothing that its record does not say."""
    run = tmp_path / finished.name
    shutil.copytree(finished, run)
    (run / "artifacts/a/stderr.txt").unlink()
    assert verify(run, KNOWN) == []


def _begun(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "timestamps": {**record["timestamps"], "started_at": record["timestamps"]["created_at"]}}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named_by_its_requirement(finished: Path, tmp_path: Path, name: str) -> None:
    run = tmp_path / finished.name
    shutil.copytree(finished, run)
    assert verify(run, KNOWN) == []
    requirement, damage = DAMAGES[name]
    damage(run)
    found = [str(finding) for finding in verify(run, KNOWN)]
    assert any(finding.startswith(requirement) for finding in found), found
