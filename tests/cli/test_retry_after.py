"""What happens when a server asks to be left alone: for a while, for long, into another day."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from orchestra.core.records import Event, utc
from orchestra.core.retry import Retry
from orchestra.workflows.headline import headline
from tests.support.modelserver import Fail, ModelServer
from tests.support.project import PLAN, RIGHT_PATCH, Project, conforms, role

SIX_HOURS = 6 * 3600.0
DAY_AND_TIME = r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2} UTC"


def refusal(seconds: float) -> dict[str, Any]:
    busy = {"code": "RATE_LIMIT", "message": "자리가 없다", "retriable": True, "retryAfterSec": seconds}
    return {"match": {"role": "planner"}, "error": busy}


def test_a_long_wait_stops_the_run_and_a_resume_is_the_next_try(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", refusal(SIX_HOURS), role("planner", PLAN), role("developer", RIGHT_PATCH))
    stopped = project.loop("--approval", "never")
    assert stopped.returncode == 6
    failed = project.events()[-1]
    assert (failed.type, "retryAt" in failed.payload, project.state()["status"]) == ("PHASE_FAILED", False, "running")
    waited = datetime.fromisoformat(failed.payload["notBefore"]) - datetime.fromisoformat(failed.ts)
    assert abs(waited - timedelta(seconds=SIX_HOURS)) < timedelta(seconds=2)
    resumed = project.run("resume", "last", "--no-input")
    assert resumed.returncode == 0, resumed.stderr
    conforms(project)


def test_what_is_said_names_the_day_and_the_way_on(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *[refusal(SIX_HOURS)] * 3)
    arguments = ("loop", "g", "--check", "true", "--provider", f"scripted:{project.script}", "--no-input")
    stopped = project.run(*arguments)
    assert re.search(
        f"stopped: step plan.1: 자리가 없다. It asks not to be called before {DAY_AND_TIME}", stopped.stderr
    )
    assert f"go on: orchestra resume {project.folder.id}" in stopped.stderr
    again = project.run("resume", "last", "--no-input")  # a person's word is a try; it is not counted anew
    assert again.returncode == 6 and "step plan.2: " in again.stderr and project.types()[-1] == "PHASE_FAILED"
    last = project.run("resume", "last", "--no-input")
    assert last.returncode == 6 and project.types()[-1] == "RUN_FAILED"


def test_another_provider_need_not_wait(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    with ModelServer(default=Fail(429, headers={"retry-after": str(int(SIX_HOURS))})) as server:
        project.configure(f"providers: {{it: {{kind: openai_compat, model: m, base_url: {server.url}/v1}}}}\n")
        assert project.loop("--approval", "never", "--role", "planner=it").returncode == 6
        assert len(server.seen) == 1
        other = ("--role", f"planner=scripted:{project.script}")
        assert project.run("resume", "last", "--no-input", *other).returncode == 0
        assert len(server.seen) == 1


def test_how_long_we_want_to_wait_ourselves_is_our_own_affair() -> None:
    assert [Retry().waits(1, seconds) for seconds in (0, 7, 600, 601, 1e9)] == [True, True, True, False, False]
    assert Retry(base_sec=3600).waits(1, 3000) and not Retry(base_sec=3600).waits(1, 3601)


def test_a_moment_of_another_day_is_shown_with_its_day() -> None:
    late = datetime(2026, 1, 31, 23, 59, 58, tzinfo=UTC)
    error = {"error": {"code": "RATE_LIMIT", "message": "busy"}}
    shown = [
        headline(
            Event("1", "r", utc(late), "PHASE_FAILED", {**error, name: utc(late + timedelta(seconds=s))}, "plan", 1)
        )
        for name, s in (("retryAt", 1), ("retryAt", 5), ("notBefore", 700))
    ]
    assert shown == [
        "plan failed: busy; next attempt at 23:59:59 UTC",
        "plan failed: busy; next attempt at 2026-02-01 00:00:03 UTC",
        "plan failed: busy; asks not to be called before 2026-02-01 00:11:38 UTC",
    ]
