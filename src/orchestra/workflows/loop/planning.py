"""The plan of a loop. The planner sees the goal, the files that were found and what the checks say before any change.

Rules
1. The planner may ask to see more (workflows/need.py), a few times, and then plans. A planner that plans at once
   costs one call. What it asked for is shown to all later calls of the run too.
2. A request is no plan: it gets no document.
3. A plan that the job brings along is recorded like a planner's, and no planner is called.
"""

from __future__ import annotations

import functools

from msgspec import UNSET, Struct
from msgspec.structs import replace

from orchestra.core.context import Context
from orchestra.core.errors import ContractError, StepFailed, end_of_run
from orchestra.core.shown import Wanted
from orchestra.core.work import ModelCall, ModelReply, Note
from orchestra.workflows.loop.checks import Baseline, describe_checks, failing_output
from orchestra.workflows.loop.effects import KeepPlan
from orchestra.workflows.loop.exploring import Explored
from orchestra.workflows.loop.shapes import Job, artifact, prompt
from orchestra.workflows.need import AGAIN, NO_ITEM, WORD, Requests, read_need

PLAN_REPAIRS = 1  # a new call after a planner's reply that is neither a plan nor a request


class Plan(Struct, frozen=True):
    """The plan, and what the planner asked to see: later calls are shown it too."""

    text: str
    wanted: tuple[Wanted, ...] = ()


async def make_plan(ctx: Context, job: Job, baseline: Baseline, explored: Explored) -> Plan:
    """Make the plan. The planner may ask to see more first. A failure ends the run: planning has no fix (G1-6)."""
    if job.plan:
        kept = await ctx.at("plan", 1).perform("plan", KeepPlan(job.plan, f"{artifact('plan', 1)}.md"))
        return Plan(kept.text)
    notes = (*job.given_notes, *before_notes(job, baseline), *explored.notes)
    requests, repairs = (Requests(), PLAN_REPAIRS) if job.edition >= 2 else (Requests(left=0), 0)
    while True:
        call = ModelCall(
            role="planner",
            agent="planner",
            prompt=prompt("planner", job, task=f"{requests.told} Write the plan.".lstrip()),
            notes=notes,
            constraints=job.constraints("plan"),
            artifact=artifact("plan", 1),
            hints=(job.goal, *(note.content for note in job.given_notes)),
            document=f"{artifact('plan', 1)}.md",
            traces=failing_output(baseline.outcomes) or UNSET,
            wanted=(*explored.wanted, *requests.wanted) or UNSET,
            asking=WORD if job.edition >= 2 else UNSET,
            mayAsk=True if requests.left else UNSET,
        )
        read = functools.partial(_read_plan, requests=requests, edition=job.edition)
        try:
            plan = await ctx.at("plan", 1).perform("plan", call, accept=read, retry=job.retry)
        except StepFailed as failed:
            if failed.reason not in (NO_ITEM, AGAIN) or not repairs:
                raise end_of_run(failed) from failed
            repairs -= 1
            notes = (*notes, Note("your last reply could not be used", str(failed)))
            continue
        if plan.text:
            return replace(plan, wanted=(*explored.wanted, *requests.wanted))
        requests = requests.with_more(plan.wanted)


def _read_plan(reply: ModelReply, *, requests: Requests, edition: int) -> Plan:
    """A planner's reply: a plan, or what it asks to see (then the text is empty)."""
    if not reply.text.strip():
        raise ContractError("empty", "the planner's reply is empty")
    asked = read_need(reply.text) if edition >= 2 else None
    if asked is None:
        return Plan(reply.text)
    requests.refuse_another()
    return Plan("", asked)


def before_notes(job: Job, baseline: Baseline) -> tuple[Note, ...]:
    """The results of the checks before any change, for planner and developer."""
    if not baseline.outcomes:
        return ()
    return (Note("the checks before any change", describe_checks(job, baseline.outcomes)),)
