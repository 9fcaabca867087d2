"""A team's files follow from its events; what a person changed between two of them stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestra.core.disk import Disk
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.workflows.team.files import TeamFiles
from tests.workflows.team.test_definitions import TRIO


def event(number: int, kind: Any, **payload: Any) -> Event:
    return Event(
        f"{number:08}", "run", f"2026-01-01T00:00:{number:02}.000Z", kind, payload, phase="execute", iteration=1
    )


def drafted(number: int, agent: str, text: str) -> Event:
    labels = {"key": f"phase2/{agent}/draft.{number}", "effect": "ModelCall", "stage": 2, "native": "draft"}
    return event(number, "PHASE_COMPLETED", **labels, agent=agent, outcome={"text": text})


CREATED = event(1, "RUN_CREATED", workflow="team", params={"definition": msgspec.to_builtins(TRIO)})


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    path = tmp_path / "2026-01-01_001_t_t"
    (path / "logs").mkdir(parents=True)
    return RunFolder(path)


@pytest.mark.spec("S4-65")
def test_a_file_that_a_killed_process_was_writing_is_removed_and_no_other(run: RunFolder) -> None:
    for name in ("artifacts", "reviews"):
        (run.path / name).mkdir()
        (run.path / name / "a.md.12345.tmp").write_text("half")
        (run.path / name / "메모.tmp").write_text("a person's")
    TeamFiles(run, Disk()).restore([CREATED])
    for name in ("artifacts", "reviews"):
        assert [path.name for path in (run.path / name).iterdir()] == ["메모.tmp"]


def test_a_draft_is_written_with_its_event_and_not_again_with_the_next(run: RunFolder) -> None:
    files = TeamFiles(run, Disk())
    files.restore([])
    for one in (CREATED, drafted(2, "a", "하나"), drafted(3, "b", "둘")):
        files.write(one)
    assert (run.path / "artifacts/a.md").read_text(encoding="utf-8").strip() == "하나"
    (run.path / "artifacts/a.md").write_text("a person's\n")
    files.write(drafted(4, "b", "셋"))
    files.close()
    assert (run.path / "artifacts/a.md").read_text() == "a person's\n"
    assert (run.path / "artifacts/b.md").read_text(encoding="utf-8").strip() == "셋"
