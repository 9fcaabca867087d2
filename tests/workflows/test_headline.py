"""One line for an event: what a person reads in `show`, `watch`, the report and at the terminal."""

from __future__ import annotations

from typing import Any

import pytest

from orchestra.core.records import Event, EventType
from orchestra.workflows.headline import headline

DONE = {"exitCode": 1, "status": "fail", "command": "pytest -q"}
SEEN = {"path": "계약.yaml", "inside": "project", "made": "sha256:0", "file": "sha256:1"}


@pytest.mark.parametrize(
    ("kind", "payload", "line"),
    [
        (
            "PATCH_APPLY_FAILED",
            {"outcome": {"refusal": {"message": "한글.py changed"}}},
            "patch not applied: 한글.py changed",
        ),
        ("PATCH_PRODUCED", {"outcome": {"refusal": {"message": "x"}}}, "patch: it does not fit the files"),
        ("PATCH_APPLIED", {"outcome": {"after": [{"path": "a.py"}, {"path": "b.py"}]}}, "patch applied: a.py, b.py"),
        ("PHASE_COMPLETED", {"effect": "RunCommand", "outcome": DONE}, "`pytest -q`: fail (exit code 1)"),
        ("PHASE_COMPLETED", {"key": "plan.1", "effect": "ModelCall", "outcome": {}}, "plan done (plan.1)"),
        ("PHASE_FAILED", {"error": {"message": "no key"}}, "plan failed: no key"),
        ("QUESTION_RAISED", {"question": "아 or 야?"}, "question: 아 or 야?"),
        ("QUESTION_ANSWERED", {"effect": "AskPerson", "outcome": {"text": "아"}}, "answer: 아"),
        ("APPROVAL_REJECTED", {"outcome": {"by": "kim", "reason": "아니오"}}, "rejected by kim: 아니오"),
        ("EVALUATION_PASSED", {"outcome": {"grounds": "it adds"}}, "passed: it adds"),
        *(
            ("PHASE_COMPLETED", {"effect": "Look", "outcome": {**SEEN, **more}}, f"계약.yaml {said}")
            for more, said in (
                ({"conflict": True}, "was edited, and there is a new text for it"),
                ({"edited": True}, "was edited"),
                ({}, "is as it was made"),
            )
        ),
        ("RUN_CANCELED", {"result": {"reason": "그만"}}, "canceled: 그만"),
        ("PHASE_STARTED", {"key": "plan.1"}, ""),
    ],
)
def test_each_event_has_its_line(kind: EventType, payload: dict[str, Any], line: str) -> None:
    event = Event(
        id="00000002", runId="r", type=kind, ts="2026-01-31T00:00:00.000Z", payload=payload, phase="plan", iteration=1
    )
    assert headline(event) == line
