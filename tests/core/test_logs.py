"""The logs of a run: which event is a line of which log, and what of it (S1-111, S1-112, S1-118)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestra.core.disk import Disk
from orchestra.core.logs import LogBook
from orchestra.core.records import Event, EventType
from orchestra.core.run import RunFolder


def logged(path: Path, type: EventType, **payload: Any) -> dict[str, list[dict[str, Any]]]:
    """The logs after one event of a step."""
    folder = RunFolder(path)
    folder.logs.mkdir(parents=True, exist_ok=True)
    book = LogBook(folder, Disk())
    one = Event("00000002", "run", "2026-01-01T00:00:00.000Z", type, payload, phase="plan", iteration=1)
    book.restore([one])
    book.close()
    return {log.name: [json.loads(line) for line in log.read_text().splitlines()] for log in folder.logs.iterdir()}


@pytest.mark.spec("S1-111", "S1-112")
@pytest.mark.parametrize(
    ("type", "effect", "log"),
    [
        ("PHASE_COMPLETED", "ModelCall", "provider-plan.log"),
        ("PHASE_FAILED", "RunCommand", "run.log"),
        ("PATCH_APPLIED", "ApplyPatch", "gatekeeper.log"),
        ("APPROVAL_REQUESTED", "Approve", "gatekeeper.log"),
        ("QUESTION_RAISED", "AskPerson", "run.log"),
        ("PHASE_COMPLETED", "RunCommand", ""),
    ],
)
def test_which_log_an_event_belongs_in(tmp_path: Path, type: EventType, effect: str, log: str) -> None:
    assert list(logged(tmp_path, type, effect=effect, key="a.1")) == [log][: bool(log)]


@pytest.mark.spec("S1-118")
def test_a_line_has_short_facts_and_the_whole_error(tmp_path: Path) -> None:
    error = {"code": "X", "message": "가" * 900, "stack": "s" * 900}
    said = {"short": "가" * 500, "long": "가" * 501, "outcome": {"exitCode": 1}, "prev": "p", "error": error}
    [line] = logged(tmp_path, "PHASE_FAILED", key="a.1", effect="RunCommand", **said)["run.log"]
    assert (line["level"], line["key"], line["error"]) == ("error", "a.1", error)
    assert line["short"] == "가" * 500 and line["exitCode"] == 1
    assert not {"long", "outcome", "prev", "effect"} & line.keys()
