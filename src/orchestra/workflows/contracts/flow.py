"""What a contracts run does (S3): linear code over a durable context.

    explore ∥ plan ∥ baseline ─▶ merge ─▶ for each task: brief ─▶ design ─▶ for each subtask:
                                                test contract ─▶ test code ─▶ red ─▶ implementation ─▶ verification

Rules
1. Tasks run in task_order, subtasks in subtask_order, one at a time (S3-37, S3-53).
2. Contracts are files that the run looks at; a person may edit them. What depends on an edited contract is done again
   (docs/design/0012-contracts.md).
3. A request is complete when all its tasks are (S3-133): by tests that ran, not by a model's word.
"""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec import Struct

from orchestra.core.context import Context, Verdict
from orchestra.core.records import ErrorInfo
from orchestra.workflows.contracts.designing import do_task
from orchestra.workflows.contracts.discovery import Discovered, discover, take_request
from orchestra.workflows.contracts.knowledge import Known
from orchestra.workflows.contracts.shapes import Job, Work
from orchestra.workflows.contracts.subtasks import Stopped


class Result(Struct, frozen=True):
    """The result of a run, for the person or the parent run."""

    request: str
    tasks: tuple[str, ...]
    subtasks: tuple[str, ...]
    redBefore: tuple[str, ...] = ()  # tests that failed before the request began; they are not counted


async def contracts(ctx: Context, job: Job) -> Verdict:
    """Carry out a request."""
    taken = await take_request(ctx, job)
    work, known = Work(job, taken.request), Known(taken.knowledge)
    found = await discover(ctx, work, taken)
    tasks = {task.id: task for task in found.breakdown.tasks}
    for task_id in found.breakdown.task_order:
        try:
            await ctx.fan_out({task_id: partial(do_task, work, found, tasks[task_id], known)})
        except Stopped as stopped:
            return Verdict(status="failed", error=ErrorInfo(stopped.code, str(stopped)), exit_code=stopped.exit_code)
    return Verdict(status="completed", result=msgspec.to_builtins(_result(work, found)))


def _result(work: Work, found: Discovered) -> Result:
    subtasks = (one.id for task in found.breakdown.tasks for one in task.subtasks)
    return Result(work.request, found.breakdown.task_order, tuple(subtasks), found.red)
