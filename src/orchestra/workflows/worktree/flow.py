"""The steps of a run in a worktree: make the folder, have the work done there, bring its result to the project."""

from __future__ import annotations

from typing import Any

from orchestra.core.context import Context, Verdict
from orchestra.core.effects import ChildResult
from orchestra.core.errors import StepFailed
from orchestra.core.records import ErrorInfo
from orchestra.core.work import KeepNet
from orchestra.workflows.gate import Passage, Ticket, pass_gate
from orchestra.workflows.worktree.effects import MakeWorktree, RemoveWorktree
from orchestra.workflows.worktree.shapes import Job

WORK_FAILED, NOT_BROUGHT = "WORK_FAILED", "NOT_BROUGHT"  # the work itself; its result did not come to the project


async def worktree(ctx: Context, job: Job) -> Verdict:
    """Have the work done beside the project's files, then bring its net change to them."""
    ctx = ctx.at("execute", 1)
    try:
        made = await ctx.perform("worktree", MakeWorktree(job.commit))
        done = await ctx.call("work", job.workflow, job.params, workspace=made.folder)
        if done.status != "completed":
            return _not_done(done, made.folder)
        net = await ctx.perform("result", KeepNet(done.childRunId, made.folder, "result.reply"))
    except StepFailed as failed:
        return Verdict(status="failed", error=ErrorInfo(failed.code, str(failed)), exit_code=1)
    if net.reply is not None:
        ticket = Ticket("result.patch", "approval-result", job.approval, f"the result of: {job.goal}")
        passage = await pass_gate(ctx, net.reply, ticket)
        if (kept := _not_brought(passage, made.folder)) is not None:
            return kept
    await ctx.perform("remove", RemoveWorktree(made.folder))
    return Verdict(status="completed", result=_result(done))


def _not_done(done: ChildResult, folder: str) -> Verdict:
    if done.status == "canceled":
        return Verdict(status="canceled", result={"reason": done.error or "the work was canceled"})
    error = ErrorInfo(WORK_FAILED, f"{done.error or 'the work failed'} (its files: {folder})")
    return Verdict(status="failed", error=error, exit_code=1)


def _not_brought(passage: Passage, folder: str) -> Verdict | None:
    """The end of a run whose result did not come to the project; None if it came."""
    if passage.done is not None and passage.done.refusal is not None:
        why = f"the result does not fit the project's files as they are now: {passage.done.refusal.message}"
    elif passage.approval is not None and not passage.approval.granted:
        why = f"a person rejected the result: {passage.approval.reason or 'no reason given'}"
        if passage.approval.end:
            return Verdict(status="canceled", result={"reason": why})
    else:
        return None
    return Verdict(status="failed", error=ErrorInfo(NOT_BROUGHT, f"{why} (it is kept in {folder})"), exit_code=1)


def _result(done: ChildResult) -> Any:
    return done.result
