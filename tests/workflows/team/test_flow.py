"""A team's phases, on replies of the test: what is brought in, written, looked at again, and how a run ends."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from orchestra.core.context import Context, Step, Verdict
from orchestra.core.errors import StepFailed
from orchestra.core.looks import WriteFile
from orchestra.core.records import ArtifactRef, Event
from orchestra.core.run import RunFolder
from orchestra.core.work import ModelCall, ModelReply
from orchestra.patch.looked import LookedFiles
from orchestra.workflows.team.definitions import Agent, Artifact, Definition, Member, Phase, Task, Team
from orchestra.workflows.team.effects import HANDLERS
from orchestra.workflows.team.flow import team
from orchestra.workflows.team.shapes import Given, Job
from orchestra.workflows.team.workflow import TEAM
from tests.support.core import live
from tests.support.runs import paces, read_events

RAW = ArtifactRef("artifacts/x.raw.txt", 1, "sha256:" + "0" * 64)
DECISION = {"id": "D1", "title": "큐", "options": ["둔다", "없다"], "chosen": "없다", "rationale": "작다"}
DECIDED = json.dumps({"decisions": [DECISION]})


def never(globs: tuple[str, ...]) -> NoReturn:
    raise AssertionError(globs)


def definition(last: str = "planner") -> Definition:
    """Phase 1: the planner; phase 2: two who read what the planner wrote; phase 3: the planner again, or the judge."""
    made = {"planner": "plan.md", "a": "a.md", "b": "b.md", "judge": "decisions.json"}
    given = {"planner": ("old.md",), "a": ("plan.md", "b.md"), "b": ("plan.md",), "judge": ()}
    agents = tuple(
        Agent(
            name=one,
            role="역할",
            prompt="써라",
            inputs=tuple(f"artifacts/{path}" for path in given[one]),
            outputs=(f"artifacts/{made[one]}",),
        )
        for one in made
    )
    phases = (Phase(1, ("planner",)), Phase(2, ("a", "b")), Phase(3, (last,)))
    rows = tuple(Artifact(f"artifacts/{path}", one) for one, path in made.items())
    members = tuple(Member(one) for one in made)
    of_all = Team(name="t", members=members, phases=phases, artifacts=rows, source="t.md")
    return Definition(of_all, agents, Task("블로그", ("t",), "빠르게"))


class Agents:
    """Replies for the agents of a team, and what each was sent."""

    def __init__(self, failing: str = "") -> None:
        self.failing = failing
        self.sent: list[tuple[str, str]] = []

    async def reply(self, effect: ModelCall, step: Step) -> ModelReply:
        self.sent.append((effect.agent, effect.prompt.user))
        if effect.agent == self.failing:
            raise StepFailed(step.key, "TIMEOUT", "no server", retriable=False)
        text = f"# {effect.agent} {sum(name == effect.agent for name, _ in self.sent)}"
        text = DECIDED if effect.agent == "judge" else text
        return ModelReply(text=text, raw=RAW, finishReason="stop", durationMs=1, provider="test")


def lived(path: Path, job: Job, agents: Agents) -> Verdict:
    files = LookedFiles(path, RunFolder(path), refused=str, hash_of=never)
    return live(path, partial(_flow, job), {**HANDLERS, ModelCall: agents.reply, WriteFile: files})


async def _flow(job: Job, ctx: Context) -> Verdict:
    return await team(ctx, job)


def read(path: Path) -> dict[str, str]:
    return {one.name: one.read_text(encoding="utf-8") for one in (path / "artifacts").glob("*.*")}


def steps(path: Path) -> list[str]:
    """The keys of the steps that ended, without those that say which edition is meant."""
    ended: list[Event] = [one for one in read_events(path / "events.ndjson") if one.type == "PHASE_COMPLETED"]
    assert {(one.phase, one.iteration) for one in ended} == {("execute", 1)}
    keys = [str(one.payload["key"]) for one in ended]
    return [key for key in keys if not key.endswith("@1.1") or key.endswith("-file@1.1")]


PHASES = [
    "phase1/planner/draft@1/draft.1",
    "phase1/settled@1/settle.1",
    "phase2/a/draft@1/draft.1",
    "phase2/b/draft@1/draft.1",
    "phase2/settled@1/settle.1",
    "phase2/a.md-file@1.1",
    "phase2/b.md-file@1.1",
    "phase3/planner/draft@1/draft.1",
    "phase3/settled@1/settle.1",
    "phase3/plan.md-file@1.1",  # only where it was written last
]
MADE = {"plan.md": "# planner 2\n", "a.md": "# a 1\n", "b.md": "# b 1\n"}


@pytest.mark.spec("S4-57")
def test_given_files_are_brought_in_and_those_of_the_team_s_own_are_shown_only(tmp_path: Path) -> None:
    texts = {"old.md": "예전", "plan.md": "# 옛 계획", "decisions.json": DECIDED}
    given = tuple(Given(f"artifacts/{name}", text) for name, text in texts.items())
    agents = Agents()
    ended = lived(tmp_path / "r", Job(definition=definition(), given=given), agents)
    assert (ended.status, ended.exit_code) == ("completed", 0)
    assert steps(tmp_path / "r") == ["old.md-file@1.1", *PHASES, "decisions.json-file@1.1"]
    found = read(tmp_path / "r")
    assert json.loads(found.pop("decisions.json"))["decisions"][0]["chosen"] == "없다"
    assert found == {**MADE, "old.md": "예전"}
    prompts = [prompt for _, prompt in agents.sent]
    assert [name for name, _ in agents.sent] == ["planner", "a", "b", "planner"]
    assert "예전" in prompts[0] and "# 옛 계획" in prompts[0]
    assert "# planner 1" in prompts[1] and "`artifacts/b.md`: not created yet" in prompts[1]


def test_a_team_that_is_given_nothing_and_decides_nothing_writes_its_own_files_only(tmp_path: Path) -> None:
    ended = lived(tmp_path / "r", Job(definition=definition()), Agents())
    assert ended.status == "completed" and isinstance(ended.result, dict)
    assert [one["path"] for one in ended.result["artifacts"]] == [f"artifacts/{name}" for name in MADE]
    assert steps(tmp_path / "r") == PHASES and read(tmp_path / "r") == MADE
    journal = tmp_path / "r" / "events.ndjson"
    assert paces(TEAM, journal, Job(definition=definition())) == [(1, 3), (2, 3), (3, 3)]
    assert paces(TEAM, journal, {"of": "another version"}) == []


@pytest.mark.parametrize(
    ("failing", "code", "said"),
    [
        ("planner", 6, "agent planner failed in phase 1 (draft)"),
        ("b", 1, "agent b failed in phase 2 (draft)"),  # a provider was reached before
    ],
)
def test_a_phase_with_an_agent_that_failed_for_good_is_the_last(
    tmp_path: Path, failing: str, code: int, said: str
) -> None:
    ended = lived(tmp_path / "r", Job(definition=definition(), retries=0), Agents(failing))
    assert (ended.status, ended.exit_code) == ("failed", code)
    assert ended.error is not None and ended.error.message.startswith(said)
    assert "orchestra retry" in ended.error.message


def test_decisions_that_an_agent_wrote_are_looked_at_once_at_the_end(tmp_path: Path) -> None:
    ended = lived(tmp_path / "r", Job(definition=definition("judge")), Agents())
    assert ended.status == "completed", ended.error
    first = "phase1/plan.md-file@1.1"
    assert steps(tmp_path / "r") == [
        *(*PHASES[:2], first, *PHASES[2:7]),
        *("phase3/judge/draft@1/draft.1", PHASES[8], "decisions.json-file@1.1"),
    ]
    looks = [one for one in read_events(tmp_path / "r" / "events.ndjson") if one.payload.get("key") == first]
    assert {(one.payload["stage"], one.payload["round"], one.payload["native"]) for one in looks} == {(1, 0, "settle")}
