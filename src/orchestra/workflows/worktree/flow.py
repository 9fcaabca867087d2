"""The steps of a run in a worktree: have the work done in a copy of the project, bring its result to the project."""

from __future__ import annotations

from orchestra.core.context import Context, Verdict
from orchestra.core.effects import ChildResult
from orchestra.core.errors import StepFailed
from orchestra.core.records import ErrorInfo
from orchestra.core.work import TakeOver
from orchestra.workflows.gate import Passage, Ticket, pass_gate
from orchestra.workflows.worktree.shapes import WorktreeJob

WORK_FAILED, NOT_BROUGHT = "WORK_FAILED", "NOT_BROUGHT"  # the work itself; its result did not come to the project


async def worktree(ctx: Context, job: WorktreeJob) -> Verdict:
    """Have the work done beside the project's files, then bring its net change to them."""
    ctx = ctx.at("execute", 1)
    try:
        done = await ctx.call("work", job.workflow, job.params, copied=True)
        if done.status != "completed":
            return _not_done(done)
        taken = await ctx.perform("result", TakeOver(done.childRunId, "result.md"))
    except StepFailed as failed:
        return Verdict(status="failed", error=ErrorInfo(failed.code, str(failed)), exit_code=1)
    if taken.reply is not None:
        told = f"the result of: {job.goal}"
        ticket = Ticket("result.patch", "approval-result", job.approval, told, risks=taken.risks)
        kept = _not_brought(await pass_gate(ctx, taken.reply, ticket), done.childRunId)
        if kept is not None:
            return kept
    return Verdict(status="completed", result=done.result)


def _not_done(done: ChildResult) -> Verdict:
    if done.status == "canceled":
        return Verdict(status="canceled", result={"reason": done.error or "the work was canceled"})
    return Verdict(status="failed", error=ErrorInfo(WORK_FAILED, done.error or "the work failed"), exit_code=1)


def _not_brought(passage: Passage, child: str) -> Verdict | None:
    """The end of a run whose result did not come to the project; None if it came."""
    if passage.done is not None and passage.done.refusal is not None:
        why = f"the result does not fit the project's files as they are now: {passage.done.refusal.message}"
    elif passage.approval is not None and not passage.approval.granted:
        why = f"a person rejected the result: {passage.approval.reason or 'no reason given'}"
        if passage.approval.end:
            return Verdict(status="canceled", result={"reason": why})
    else:
        return None
    message = f"{why}. The result is kept in run {child}; as a branch: orchestra apply {child} --branch NAME"
    return Verdict(status="failed", error=ErrorInfo(NOT_BROUGHT, message), exit_code=1)
