"""`verify` of folders that are hardly runs, and of files that are gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestra.core.run import RunFolder
from orchestra.runs.verify import MOST
from tests.support.core import OPEN_TABLE, new_ledger
from tests.support.project import KNOWN
from tests.support.runs import verify
from tests.support.tasks import Tasks, step


def test_an_empty_journal_is_named(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").touch()
    [found] = verify(tmp_path, KNOWN)
    assert (found.requirement, found.message) == ("S1-61", "there is no RUN_CREATED")


def test_an_empty_result_file_that_is_gone_is_named_and_an_empty_output_is_not(tmp_path: Path) -> None:
    leaves = step("a", code="import os; open(os.environ['ORCHESTRA_ARTIFACTS'] + '/empty', 'w')")
    project = Tasks(tmp_path / "p", leaves)
    assert project.dag().returncode == 0
    [empty] = project.folder.path.rglob("files/empty")
    for printed in project.folder.path.rglob("std*.txt"):
        assert printed.stat().st_size == 0
        printed.unlink()
    assert verify(project.folder.path, KNOWN) == []
    empty.unlink()
    assert any("files/empty" in finding.message for finding in verify(project.folder.path, KNOWN))


def test_findings_about_files_end_with_how_many_are_shown(tmp_path: Path) -> None:
    """Those that are found after the last event, too: here replies that other users can read."""
    folder = RunFolder(tmp_path)
    ledger = new_ledger(folder, OPEN_TABLE)
    ledger.open()
    ledger.record("RUN_CREATED", {"workflow": "flow", "params": {}})
    ledger.close()
    folder.artifacts.mkdir(exist_ok=True)
    for number in range(MOST + 2):
        (folder.artifacts / f"{number}.raw.txt").touch(mode=0o644)
    found = [finding for finding in verify(folder.path, KNOWN) if finding.requirement == "S1-116"]
    assert len(found) == MOST + 1
    assert found[-1].message.endswith(f"there are more: these are the first {MOST + 1}")


def journal(folder: Path, *ids: str) -> RunFolder:
    """A run whose events have these ids."""
    created = {"type": "RUN_CREATED", "payload": {"workflow": "flow", "params": {}}}
    failed = {"type": "PHASE_FAILED", "payload": {}}
    lines = [
        {"id": one, "runId": folder.name, "ts": "2026-01-01T00:00:00.000Z", **(failed if at else created)}
        for at, one in enumerate(ids)
    ]
    folder.mkdir()
    (folder / "events.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return RunFolder(folder)


@pytest.mark.parametrize(
    ("ids", "late", "twice"),
    [
        (("00000001", "00000002"), [], []),
        (("00000001", "00000001"), [2], [2]),
        (("00000002", "00000001", "00000002"), [2], [3]),
    ],
)
def test_ids_of_events_rise_and_none_stands_twice(
    tmp_path: Path, ids: tuple[str, ...], late: list[int], twice: list[int]
) -> None:
    found = verify(journal(tmp_path / "r", *ids).path, KNOWN)
    for requirement, message, lines in (("S1-46", "does not come after", late), ("S1-02", "is not unique", twice)):
        where = [one.where for one in found if one.requirement == requirement and message in one.message]
        assert where == [f"events.ndjson:{line}" for line in lines]
