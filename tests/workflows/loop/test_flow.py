"""Whatever models say and people answer: the S1 table and `verify` accept what the engine records, and it ends."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestra.app import App
from orchestra.core.records import FINAL
from orchestra.providers.choose import Models
from orchestra.workflows.loop.shapes import Job
from tests.support.project import FIX_PATCH, KNOWN, NOOP, PLAN, WRONG_PATCH, Project, ask, patch
from tests.support.runs import verify

BUSY = {"code": "RATE_LIMIT", "message": "busy", "retriable": True}
DEAD = {"code": "AUTH", "message": "no key", "retriable": False}
WRITTEN: list[dict[str, Any]] = [
    {"text": WRONG_PATCH},
    {"text": FIX_PATCH},
    {"text": patch("a - b", "a + b")},
    {"text": patch("nowhere", "x")},
    {"text": ask("무엇을?")},
    {"text": NOOP},
    {"text": "hm"},
    {"text": WRONG_PATCH, "finishReason": "length"},
    {"error": BUSY},
]
JUDGED: list[dict[str, Any]] = [{"text": f"DECISION: {word}\nbecause"} for word in ("PASS", "FIX", "ASK")]
JUDGED += [{"text": "who knows"}, {"error": BUSY}]


def replies(role: str, said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"match": {"role": role}, **one} for one in said]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    developer=st.lists(st.sampled_from(WRITTEN), min_size=1, max_size=4),
    fixer=st.lists(st.sampled_from(WRITTEN), max_size=6),
    evaluator=st.lists(st.sampled_from(JUDGED), max_size=6),
    planner=st.sampled_from([[{"text": PLAN}], [{"error": BUSY}, {"text": PLAN}], [{"error": DEAD}], [{"text": ""}]]),
    policy=st.sampled_from(["always", "risk", "never"]),
    grants=st.lists(st.sampled_from(["approve", "reject", "end", "touch"]), min_size=8, max_size=8),
    passes=st.booleans(),
)
def test_any_run_is_a_word_of_the_table_and_ends(
    developer: list[dict[str, Any]],
    fixer: list[dict[str, Any]],
    evaluator: list[dict[str, Any]],
    planner: list[dict[str, Any]],
    policy: Any,
    grants: list[str],
    passes: bool,
) -> None:
    with tempfile.TemporaryDirectory() as name:
        project = Project(Path(name) / "p")
        script = replies("planner", planner) + replies("developer", developer)
        script += replies("fixer", fixer) + replies("evaluator", evaluator)
        project.write_script(*script)
        app = App(project.path)
        check = ("true",) if passes else ("grep", "-q", "a + b", "calc.py")
        job = Job(goal="g", checks=(check,), approval=policy, backoffSec=0.001)
        folder = app.start("loop", job, Models(default=f"scripted:{project.script}"))
        while (end := asyncio.run(app.drive(folder))).status not in FINAL.values():
            _answer(app, project, grants)
        assert [str(f) for f in verify(folder.path, KNOWN)] == []
        assert end.exit_code in (0, 1, 6)
        assert (end.status == "completed") == (end.exit_code == 0)
        # A replay of the whole run writes nothing and says the same.
        before = folder.events.read_bytes()
        assert asyncio.run(App(project.path).drive(folder)) == end
        assert folder.events.read_bytes() == before


def _answer(app: App, project: Project, grants: list[str]) -> None:
    [summary] = [app.runs.summary(folder) for folder in app.runs.folders()]
    for request in summary.fold.pending.values():
        if request.type == "QUESTION_RAISED":
            app.answers.answer(summary.folder, "네")
            continue
        match grants.pop() if grants else "approve":
            case "reject":
                app.answers.reject(summary.folder, reason="아니오")
            case "end":
                app.answers.reject(summary.folder, reason="그만", end=True)
            case "touch":
                (project.path / "calc.py").write_text("def add(a, b):\n    return a - b  # touched\n")
                app.answers.approve(summary.folder)
            case _:
                app.answers.approve(summary.folder)
