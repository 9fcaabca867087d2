"""The steps of an undo: compute what restores the files, apply it, return what was restored."""

from __future__ import annotations

from msgspec import UNSET, to_builtins

from orchestra.core.context import Context, Verdict
from orchestra.core.records import ErrorInfo
from orchestra.workflows.gate import take_back
from orchestra.workflows.undo.shapes import Job, Undone

NOT_UNDONE = "NOT_UNDONE"  # the error of an undo that found a file changed since


async def undo(ctx: Context, job: Job) -> Verdict:
    """Take the patches of a run back: all of them, or none."""
    since = UNSET if job.to is None else job.to
    passage = await take_back(ctx.at("execute", 1), job.runs, "undo.patch", since=since)
    refusal = passage.done.refusal if passage.done else None
    if refusal is not None:
        return Verdict(status="failed", error=ErrorInfo(NOT_UNDONE, refusal.message), exit_code=1)
    done = Undone(
        job.run,
        restored=tuple(file.path for file in passage.files),
        removed=tuple(file.path for file in passage.files if file.after is None),
    )
    return Verdict(status="completed", result=to_builtins(done))
