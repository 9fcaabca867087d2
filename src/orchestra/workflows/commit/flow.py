"""The steps of an apply: compute what the commit changes, write it, return its name."""

from __future__ import annotations

from msgspec import to_builtins

from orchestra.core.context import Context, Verdict
from orchestra.core.records import ErrorInfo
from orchestra.core.work import AutoApprove, ProposeCommit, RefusePatch, WriteCommit
from orchestra.workflows.commit.shapes import Committed, Job

NOT_COMMITTED = "NOT_COMMITTED"  # the error of an apply that could not be done


async def commit(ctx: Context, job: Job) -> Verdict:
    """Write the net change of a run as a commit: the whole of it, or nothing."""
    assert job.to is not None  # refused when the run is prepared
    ctx = ctx.at("execute", 1)
    proposal = await ctx.perform("patch", ProposeCommit(job.runs, job.to, "commit.patch"))
    if proposal.refusal is not None:
        done = await ctx.perform("apply", RefusePatch(proposal.refusal, proposal.digest))
    else:
        await ctx.perform("approve", AutoApprove(proposal.digest, "apply"))
        done = await ctx.perform("apply", WriteCommit(job.runs, job.to, proposal.digest, proposal.files))
    if done.refusal is not None:
        return Verdict(status="failed", error=ErrorInfo(NOT_COMMITTED, done.refusal.message), exit_code=1)
    files = tuple(file.path for file in proposal.files)
    return Verdict(status="completed", result=to_builtins(Committed(job.run, done.commit, job.to.branch, files)))
