"""S4, line by line, on one run of the sample shape: phase 1 one agent, phase 2 two in turns, phase 3 one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestra.core.reading import StepEvent, effect_of
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.workflows.team.progress import LogLine, Meta, Progress
from tests.support.runs import read_events
from tests.support.team import STANDARD, TASK, TEAM, TeamProject

SAMPLE = """{
  "id": "2026-02-24_001_planning-team_blog-project",
  "orchestrator": "planning-team",
  "task": "blog-project",
  "status": "completed",
  "startedAt": "2026-02-24T10:30:00Z",
  "completedAt": "2026-02-24T11:00:00Z",
  "agents": ["planner", "research", "tech-architect", "integrator"],
  "phases": [
    { "phase": 1, "status": "completed" },
    { "phase": 2, "status": "completed", "reviewRounds": 1 },
    { "phase": 3, "status": "completed" }
  ],
  "inputRunId": null,
  "totalCostUsd": 0.1234
}"""
LOG = """{
  "timestamp": "2026-02-24T10:30:00Z",
  "agent": "planner",
  "phase": 1,
  "turn": 1,
  "status": "in_progress",
  "message": "요구사항 정의 시작",
  "artifact": "artifacts/project-vision.md"
}"""
_UTC = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z")


class Ran:
    """One finished run, and everything in its folder."""

    def __init__(self, project: TeamProject) -> None:
        self.project = project
        [self.run] = project.teams
        self.events = read_events(self.run.events)
        self.meta: dict[str, Any] = project.meta(self.run)

    def steps(self, native: str) -> list[tuple[str, StepEvent]]:
        """The model calls of a kind, begun and ended, in order."""
        found = ((event, StepEvent.of(event)) for event in self.events if effect_of(event) == "ModelCall")
        return [(event.type, step) for event, step in found if step.native == native]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    priced = [{**reply, "usage": {"inputTokens": 1000, "outputTokens": 100}} for reply in STANDARD]
    project = TeamProject(tmp_path_factory.mktemp("s4") / "project", *priced)
    result = project.orchestrate()
    assert result.returncode == 0, result.stderr
    return Ran(project)


@pytest.mark.spec("S4-02", "S4-07", "S4-12", "S4-14", "S4-15", "S4-16", "S4-59", "S4-98")
def test_the_run_has_its_own_folder_below_runs(ran: Ran) -> None:
    assert ran.run.path.parent == ran.project.path / "runs"
    assert re.fullmatch(rf"\d{{4}}-\d{{2}}-\d{{2}}_001_{TEAM}_{TASK}", ran.run.id)


@pytest.mark.spec("S4-20", "S4-21", "S4-22", "S4-23", "S4-24", "S4-25", "S4-26", "S4-27", "S4-28", "S4-29", "S4-30")
@pytest.mark.spec("S4-09", "S4-31", "S4-99")
def test_run_meta(ran: Ran) -> None:
    meta = ran.meta
    assert (meta["id"], meta["orchestrator"], meta["task"]) == (ran.run.id, TEAM, TASK)
    assert meta["status"] == "completed" and meta["inputRunId"] is None
    assert _UTC.fullmatch(meta["startedAt"]) and _UTC.fullmatch(meta["completedAt"])
    assert meta["agents"] == ["planner", "research", "tech-architect", "integrator"]
    phases = [(phase["phase"], phase["status"], phase.get("reviewRounds")) for phase in meta["phases"]]
    assert phases == [(1, "completed", None), (2, "completed", 2), (3, "completed", None)]
    assert isinstance(meta["totalCostUsd"], float) and meta["totalInputTokens"] == 9_000


@pytest.mark.spec("S4-100", "S4-101")
def test_the_samples_validate_unchanged() -> None:
    meta = msgspec.json.decode(SAMPLE, type=Meta, strict=True)
    assert meta.phases[1].reviewRounds == 1 and meta.totalCostUsd == 0.1234
    line = msgspec.json.decode(LOG, type=LogLine, strict=True)
    assert line.status == "in_progress" and line.artifact == "artifacts/project-vision.md"


@pytest.mark.spec("S4-103")
def test_run_meta_is_true_after_every_event(ran: Ran) -> None:
    progress, seen = Progress(), []
    for event in ran.events:
        progress.add(event)
        meta = progress.meta(0.0, (0, 0))
        assert meta is not None and meta.status == progress.fold.state.status
        seen.append(tuple(phase.status for phase in meta.phases))
    order = list(dict.fromkeys(seen))
    assert order[0] == ("pending",) * 3 and order[-1] == ("completed",) * 3
    assert order[1:] == [
        ("running", "pending", "pending"),
        ("completed", "pending", "pending"),
        ("completed", "running", "pending"),
        ("completed", "completed", "pending"),
        ("completed", "completed", "running"),
        ("completed", "completed", "completed"),
    ]


@pytest.mark.spec("S4-33", "S4-35", "S4-36", "S4-47", "S4-48", "S4-65")
def test_the_run_folder(ran: Ran) -> None:
    folder = ran.run.path
    assert all((folder / name).is_dir() for name in ("logs", "artifacts", "reviews"))
    made = {path.name for path in (folder / "artifacts").iterdir() if path.is_file()}
    expected = {"project-vision.md", "market-analysis.md", "tech-architecture.md", "final-summary.md", "decisions.json"}
    assert made == expected
    assert {path.name for path in (folder / "reviews").iterdir()} == {
        "phase2-research-reviews-tech-architecture.md",
        "phase2-tech-architect-reviews-market-analysis.md",
    }


@pytest.mark.spec("S4-08", "S4-39", "S4-40", "S4-41", "S4-42", "S4-44", "S4-49")
def test_phases_and_turns_in_their_order(ran: Ran) -> None:
    begun = [step for kind, step in _calls(ran.events) if kind == "PHASE_STARTED"]
    order = [(step.stage, step.round, step.turn) for step in begun]
    assert order == sorted(order)
    assert {step.turn for step in begun if step.stage != 2} == {1}
    assert sorted({step.turn for step in begun if step.stage == 2}) == [1, 2, 3]


def _calls(events: list[Event]) -> list[tuple[str, StepEvent]]:
    return [(event.type, StepEvent.of(event)) for event in events if effect_of(event) == "ModelCall"]


@pytest.mark.spec("S4-45", "S4-46", "S4-50")
def test_reviews_and_revisions_run_one_after_another(ran: Ran) -> None:
    for native in ("review", "revise"):
        kinds = [kind for kind, _ in ran.steps(native)]
        assert kinds == ["PHASE_STARTED", "PHASE_COMPLETED"] * (len(kinds) // 2)


@pytest.mark.spec("S4-43")
def test_drafts_run_in_parallel(ran: Ran) -> None:
    kinds = [kind for kind, step in ran.steps("draft") if step.stage == 2]
    assert kinds == ["PHASE_STARTED"] * 2 + ["PHASE_COMPLETED"] * 2


@pytest.mark.spec("S4-51", "S4-53", "S4-54")
def test_at_most_two_rounds_and_the_file_of_a_review_has_both(ran: Ran) -> None:
    text = (ran.run.path / "reviews" / "phase2-research-reviews-tech-architecture.md").read_text(encoding="utf-8")
    assert text.index("서버가 하나뿐이다") < text.index("## Round 2") < text.index("[R1] closed")  # G4-4
    assert max(step.round for _, step in ran.steps("review")) == ran.meta["phases"][1]["reviewRounds"] == 2


@pytest.mark.spec("S4-34", "S4-64", "S4-84", "S4-85", "S4-86", "S4-87", "S4-88", "S4-89", "S4-90", "S4-91", "S4-92")
def test_the_log_of_each_agent(ran: Ran) -> None:
    for agent in ran.meta["agents"]:
        lines = ran.project.log(agent, ran.run)
        decoded = [msgspec.convert(line, LogLine) for line in lines]
        assert all(_UTC.fullmatch(line.timestamp) and line.agent == agent and line.message for line in decoded)
        assert [line.status for line in decoded] == ["in_progress", "completed"] * (len(lines) // 2) and lines
        assert all(line.artifact.startswith("artifacts/") for line in decoded)
    turns = [line["turn"] for line in ran.project.log("research", ran.run)]
    assert turns == [1, 1, 2, 2, 3, 3, 2, 2]


@pytest.mark.spec("S4-10")
def test_the_user_gets_a_report(ran: Ran) -> None:
    report = RunFolder(ran.run.path).report.read_text(encoding="utf-8")
    assert "status: **completed**" in report and "## Deliverables" in report


@pytest.mark.spec("S4-58")
def test_nothing_is_chained_by_itself(ran: Ran) -> None:
    assert len(ran.project.teams) == 1 and json.loads(SAMPLE)["inputRunId"] is None


@pytest.mark.spec("S4-13", "S4-17", "S4-19", "S4-52", "S4-102")
def test_running_again_keeps_the_earlier_run_byte_for_byte(tmp_path: Path) -> None:
    quiet = [
        {**reply, "text": "변경 사항 없음"} if reply["match"].get("phase") == "fix" else reply for reply in STANDARD
    ]
    project = TeamProject(tmp_path / "project", *quiet)
    assert project.orchestrate().returncode == 0
    [first] = project.teams
    assert project.meta(first)["phases"][1]["reviewRounds"] == 1  # nothing changed: final at once
    before = {path: path.read_bytes() for path in first.path.rglob("*") if path.is_file()}
    assert project.orchestrate().returncode == 0
    assert project.teams[1].id == first.id.replace("_001_", "_002_")
    assert {path: path.read_bytes() for path in before} == before
