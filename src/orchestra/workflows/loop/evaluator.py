"""The evaluator of a loop: its opinion on a change, and the question if it is blocked and has none."""

from __future__ import annotations

from orchestra.core.command import CommandOutcome
from orchestra.core.context import Context
from orchestra.core.errors import ContractError, StepFailed, end_of_run
from orchestra.core.model import Constraints
from orchestra.core.text import checks_changed
from orchestra.core.work import ModelCall, ModelReply, Note
from orchestra.workflows.loop.checks import describe_checks
from orchestra.workflows.loop.planning import Plan
from orchestra.workflows.loop.shapes import Change, Job, Turn, artifact, prompt
from orchestra.workflows.replies import Opinion, read_decision

DECISION_REPAIRS = 2  # new calls after an invalid reply; they do not count as fixes (C-09)


async def hear_evaluator(
    ctx: Context, job: Job, plan: Plan, turn: Turn, change: Change, checks: tuple[CommandOutcome, ...]
) -> Opinion | None:
    """The evaluator's opinion, given the results of the checks; None if no evaluator is configured."""
    if not job.evaluator:
        return None
    changed = checks_changed(change.checks)
    results = f"{changed}\n{describe_checks(job, checks)}" if changed else describe_checks(job, checks)
    notes = (Note("plan", plan.text), Note("patch", change.diff), Note("check results", results))
    call = ModelCall(
        role="evaluator",
        agent="evaluator",
        prompt=prompt("evaluator", job, task="Judge the result."),
        notes=notes,
        constraints=job.constraints("decision"),
        artifact=artifact("evaluate", turn.iteration),
        hints=(job.goal, change.diff),
    )
    here = ctx.at("evaluate", turn.iteration)
    repairs = DECISION_REPAIRS
    while True:
        try:
            return await here.perform("evaluate", call, accept=read_decision, retry=job.retry)
        except StepFailed as failed:
            if failed.code != ContractError.code:
                raise end_of_run(failed) from failed
            if repairs == 0:
                raise
            repairs -= 1


async def write_question(ctx: Context, job: Job, turn: Turn, verdict: Opinion) -> str:
    """If the evaluator is blocked without a question, have the planner write one, once (G1-14)."""
    call = ModelCall(
        role="planner",
        agent="asker",
        prompt=prompt("asker", job, task=f"The evaluator's grounds:\n\n{verdict.grounds}"),
        notes=(),
        constraints=Constraints(timeoutMs=job.timeoutMs, patchFirst=False),
        artifact=artifact("ask", turn.iteration),
        files=False,
    )
    try:
        reply = await ctx.at("ask", turn.iteration).perform("ask", call, accept=_not_empty)
        return reply.text.strip().splitlines()[0]
    except StepFailed:
        return f"What is missing to go on? The evaluator says: {verdict.grounds}"


def _not_empty(reply: ModelReply) -> ModelReply:
    if not reply.text.strip():
        raise ContractError("empty", "the reply is empty")
    return reply
