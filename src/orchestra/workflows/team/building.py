"""Phases that build: the agent of such a phase has another workflow write code, as a child run.

Rules
1. The child works in its own copy of the project (core/copies.py), with the planning artifacts as notes. Its calls that
   write code carry the agent's name. Its patches go through the gate there, under its own checks.
2. When it has completed, everything it changed comes to the project as one patch, through the gate again. What was
   granted in the copy is not asked again; guesses are, and files that orchestra obeys (workflows/gate.py). Until then
   the project is as it was.
3. A child that does not complete, and a result that the project cannot take, are failures of the agent. `retry` goes on
   with the child, or with its result.
4. BUILDERS are the workflows that build, each with the job that it is given. To let another one build, add its line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from orchestra.core.context import Context
from orchestra.core.errors import StepFailed
from orchestra.core.looks import file_name
from orchestra.core.names import shortened
from orchestra.core.text import clean
from orchestra.core.work import TakeOver
from orchestra.patch.takeover import NOT_TAKEN
from orchestra.workflows.gate import Ticket, pass_gate
from orchestra.workflows.team.asking import AgentFailed, begin
from orchestra.workflows.team.board import Board
from orchestra.workflows.team.definitions import Phase
from orchestra.workflows.team.shapes import BUILD, NOT_THERE, Brief, Work


def _loop_job(brief: Brief) -> dict[str, Any]:
    """The job of a loop: the agent's prompt as goal, its inputs as notes (rule 1)."""
    notes = [{"name": name, "content": text} for name, text in _notes(brief)]
    return {"goal": _goal(brief), "notes": notes, "agent": brief.agent.name}


def _contracts_job(brief: Brief) -> dict[str, Any]:
    """The job of a contracts run: the same, as a request. Its roles have their own names."""
    job = _loop_job(brief)
    return {"request": job["goal"], "notes": job["notes"]}


def _goal(brief: Brief) -> str:
    return f"{brief.agent.prompt.strip()}\n\n{brief.work.definition.task.direction.strip()}"


def _notes(brief: Brief) -> Iterator[tuple[str, str]]:
    """The agent's role and its inputs, by name."""
    if brief.agent.role:
        yield f"role of {brief.agent.name}", brief.agent.role
    yield from ((name, str(text)) for name, text in brief.sources.items() if str(text) != NOT_THERE)


BUILDERS: Mapping[str, Callable[[Brief], dict[str, Any]]] = MappingProxyType(
    {"loop": _loop_job, "contracts": _contracts_job}
)


async def build(ctx: Context, work: Work, phase: Phase, board: Board) -> Board:
    """Have each agent of a phase build, one after another. The board gets a list of the changed files."""
    for name in phase.agents:
        brief = Brief(work, work.definition.agent(name), BUILD, phase, (), board.shown(work.definition, name))
        here = await begin(ctx, f"{name}-build", brief)
        try:
            done = await here.call("build", phase.mode, BUILDERS[phase.mode](brief), copied=True)
        except StepFailed as refused:  # the job could not begin: no checks, no provider that writes patches
            raise AgentFailed(brief, refused) from refused
        if done.status != "completed":
            why = done.error or f"its {phase.mode} run {done.status}"
            raise AgentFailed(brief, StepFailed(here.peek_key("build"), "CHILD_FAILED", why))
        files = await take_over(here, brief, done.childRunId)
        board = board.with_built(name, "\n".join(f"- {path}" for path in files) or "no file was changed")
    return board


async def take_over(here: Context, brief: Brief, child: str) -> tuple[str, ...]:
    """Bring what a child run changed in its copy into the project (rule 2); the paths of the changed files."""
    name = file_name(here.peek_key("result"))
    try:
        taken = await here.perform("result", TakeOver(child, f"execute/{name}.md"))
    except StepFailed as failed:
        raise AgentFailed(brief, failed) from failed
    if taken.reply is None:
        return ()
    ticket = Ticket(
        artifact=f"execute/{name}.patch",
        approval_id=f"approval-{shortened(name)}",
        policy="never",
        summary=f"what {brief.agent.name} built in {child}",
        granted=f"as granted in {child}",
    )
    passage = await pass_gate(here, taken.reply, ticket)
    if passage.done is None:
        reason = passage.approval.reason if passage.approval else ""
        raise _not_taken(here, brief, f"a person rejected it: {clean(reason) or 'no reason given'}")
    if passage.done.refusal is not None:
        raise _not_taken(here, brief, passage.done.refusal.message)
    return tuple(file.path for file in passage.files)


def _not_taken(here: Context, brief: Brief, why: str) -> AgentFailed:
    failed = StepFailed(here.peek_key("result"), NOT_TAKEN, f"its result is not in the project: {why}")
    return AgentFailed(brief, failed)
