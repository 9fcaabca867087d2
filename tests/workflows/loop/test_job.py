"""A loop that is part of something larger: notes, a given plan, a scope, and the caller's name for its writer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestra.workflows.loop.shapes import EDITION, Job
from tests.support.project import FIX_PATCH, PLAN, RIGHT_PATCH, WRONG_PATCH, Project, new_file, reply, role

OUT = reply(new_file("docs/새.md", "out of scope"))
NOTES = [{"name": "계약 R1", "content": "add(a, b) returns the sum"}, {"name": "design", "content": "no new files"}]


def start(project: Project, **params: Any) -> dict[str, Any]:
    """Run a loop by `orchestra start`, and return its last record."""
    if "approval" not in params:
        project.configure("loop: {approval: never}\n")
    given = {"goal": "make add() add", "checks": [["grep", "-q", "a + b", "calc.py"]], "approval": "never", **params}
    words = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in given.items()]
    done = project.run("start", "loop", *words, "--provider", f"scripted:{project.script}", "--json", "--no-input")
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {"said": done.stderr}
    return {"code": done.returncode, **record}


def sent(project: Project, role: str) -> str:
    """All that a role was sent in the run."""
    found = [path.read_text() for path in sorted(project.folder.artifacts.rglob("*prompt*"))]
    return "".join(text for text in found if f'"agent": "{role}"' in text or f'"agent":"{role}"' in text)


def test_a_given_plan_needs_no_planner_and_notes_reach_the_writers(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("developer", WRONG_PATCH), role("fixer", FIX_PATCH))
    assert start(project, plan="1. 더한다", notes=NOTES)["code"] == 0
    assert (project.folder.artifacts / "plan/iter-0001.md").read_text() == "1. 더한다"
    for one in ("developer", "fixer"):
        for text in ("add(a, b) returns the sum", "계약 R1", "no new files", "1. 더한다"):
            assert text in sent(project, one), (one, text)
    assert not any(event.payload.get("role") == "planner" for event in project.events())
    assert project.run("verify", "last").returncode == 0


def test_the_planner_is_shown_the_notes_too(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    assert start(project, notes=NOTES)["code"] == 0
    assert "add(a, b) returns the sum" in sent(project, "planner")


def test_what_is_out_of_scope_is_refused_unasked_and_the_fixer_is_told(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", OUT), role("fixer", RIGHT_PATCH))
    end = start(project, approval="always", scope={"only": ["*.py"], "never": ["tests/"]})
    assert end["code"] == 3  # the second patch waits: the first one was never asked about
    types = project.types()
    assert types.count("APPROVAL_REQUESTED") == 1 and types.index("PATCH_APPLY_FAILED") < types.index(
        "APPROVAL_REQUESTED"
    )
    told = sent(project, "fixer")
    assert "docs/새.md: out of scope for this run" in told and "only *.py, and never tests/" in told
    assert "what this run may change" in sent(project, "developer")
    assert project.run("approve", "last").returncode == 0
    assert "a + b" in project.calc() and not (project.path / "docs").exists()


def test_patches_that_stay_out_of_scope_use_up_the_fixes(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", OUT), role("fixer", OUT))
    end = start(project, scope={"never": ["docs/"]}, maxFixIterations=1)
    assert (end["code"], end["status"]) == (1, "failed")
    assert not (project.path / "docs").exists()


def test_the_callers_name_is_on_every_call_that_writes_code(tmp_path: Path) -> None:
    named = [
        {"match": {"agent": "implementer", "role": "developer"}, "text": WRONG_PATCH},
        {"match": {"agent": "implementer", "role": "fixer"}, "text": FIX_PATCH},
    ]
    project = Project(tmp_path / "p", role("planner", PLAN), *named)
    assert start(project, agent="implementer")["code"] == 0
    calls = [e.payload for e in project.events() if e.type == "PHASE_STARTED" and e.payload["effect"] == "ModelCall"]
    assert [(call["agent"], call["role"]) for call in calls] == [
        ("planner", "planner"),
        ("implementer", "developer"),
        ("implementer", "fixer"),
    ]


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"scope": {"only": ["*a*b*c*d"]}}, "scope: *a*b*c*d: it is too long, or has more than 3 stars; split it"),
        ({"scope": {"onyl": ["a"]}}, 'scope={"onyl": ["a"]}: Object contains unknown field onyl'),
        ({"notes": [{"name": "x"}]}, 'notes=[{"name": "x"}]: [0].content is missing'),
    ],
)
def test_a_job_that_cannot_be_meant_is_refused_before_a_run_exists(
    tmp_path: Path, params: dict[str, Any], why: str
) -> None:
    project = Project(tmp_path / "p")
    end = start(project, **params)
    assert end["code"] == 2 and why in end["said"]
    assert project.runs == []


def test_a_loop_without_them_records_what_it_always_did(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    assert project.loop().returncode in (0, 3)
    params = project.events()[0].payload["params"]
    assert not {"notes", "plan", "scope", "agent"} & set(params)
    assert params["edition"] == EDITION
    assert msgspec.convert(params, Job).given_notes == ()
