"""Phases that build: the agents of a phase of mode `loop` have that workflow write code, as child runs.

Rules
1. A child works on the project, with the planning artifacts as notes. Its patches go through the gate as always: a
   person approves them in the child, under its own checks.
2. Its code-writing calls carry the name of the phase's agent.
3. A child that does not complete is a failure of its agent. `retry` goes on with the child.
"""

from __future__ import annotations

from typing import Any

from orchestra.core.context import Context
from orchestra.core.effects import ChildResult
from orchestra.core.errors import StepFailed
from orchestra.workflows.team.asking import AgentFailed, begin
from orchestra.workflows.team.board import Board
from orchestra.workflows.team.definitions import Phase
from orchestra.workflows.team.shapes import BUILD, NOT_THERE, Brief, Work


async def build(ctx: Context, work: Work, phase: Phase, board: Board) -> Board:
    """Have each agent of a phase build, one after another. The board gets a list of the changed files."""
    for name in phase.agents:
        sources = board.shown(work.definition, name)
        brief = Brief(work, work.definition.agent(name), BUILD, phase, (), sources)
        here = await begin(ctx, f"{name}-build", brief)
        done = await here.call("build", phase.mode, _job(brief))
        if done.status != "completed":
            why = done.error or f"its {phase.mode} run {done.status}"
            raise AgentFailed(brief, StepFailed(here.peek_key("build"), "CHILD_FAILED", why))
        board = board.with_built(name, _told(done))
    return board


def _job(brief: Brief) -> dict[str, Any]:
    """The job of the child run: the agent's prompt as goal, its inputs as notes (rule 1)."""
    direction = brief.work.definition.task.direction.strip()
    notes = [{"name": name, "content": str(text)} for name, text in brief.sources.items() if str(text) != NOT_THERE]
    role = [{"name": f"role of {brief.agent.name}", "content": brief.agent.role}] if brief.agent.role else []
    return {"goal": f"{brief.agent.prompt.strip()}\n\n{direction}", "notes": [*role, *notes], "agent": brief.agent.name}


def _told(done: ChildResult) -> str:
    return "\n".join(f"- {path}" for path in done.paths) or "no file was changed"
