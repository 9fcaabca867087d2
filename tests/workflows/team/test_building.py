"""The job of a run that builds for an agent: its prompt, its direction, its role and its inputs."""

from __future__ import annotations

import pytest

from orchestra.workflows.team.building import BUILDERS
from orchestra.workflows.team.definitions import Agent, Definition, Phase, Task, Team
from orchestra.workflows.team.shapes import BUILD, NOT_THERE, Brief, Job, Work

GOAL = "블로그를 만든다.\n\n빠르게"


@pytest.mark.parametrize("role", ["프로그래머", ""])
def test_a_child_run_is_told_what_the_agent_would_be_told(role: str) -> None:
    phase = Phase(2, ("builder",), "loop", line=7)
    agent = Agent(name="builder", prompt=" 블로그를 만든다.\n", role=role)
    team = Team(name="t", members=(), phases=(phase,), artifacts=(), source="t.md")
    work = Work(Job(definition=Definition(team, (agent,), Task("블로그", ("t",), "빠르게\n"))))
    brief = Brief(work, agent, BUILD, phase, (), {"a.md": "# 가", "b.md": NOT_THERE})
    notes = [{"name": "role of builder", "content": role}] if role else []
    notes.append({"name": "a.md", "content": "# 가"})
    assert BUILDERS["loop"](brief) == {"goal": GOAL, "notes": notes, "agent": "builder"}
    assert BUILDERS["contracts"](brief) == {"request": GOAL, "notes": notes}
