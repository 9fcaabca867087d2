"""The plan of a loop. The planner sees the goal, the files that were found and what the checks say before any change.

Rules
1. The planner may ask to see more (need.py), at most NEED_ROUNDS times, and then plans. A planner that plans at once
   costs one call. What it asked for is shown to all later calls of the run too.
2. A request is no plan: it gets no document.
"""

from __future__ import annotations

import functools

from msgspec import UNSET, Struct
from msgspec.structs import replace

from orchestra.core.context import Context
from orchestra.core.errors import ContractError, StepFailed, end_of_run
from orchestra.core.model import Constraints
from orchestra.core.shown import Wanted
from orchestra.core.text import count
from orchestra.core.work import ModelCall, ModelReply, Note
from orchestra.workflows.loop.checks import Baseline, describe_checks, failing_output
from orchestra.workflows.loop.need import NO_ITEM, WORD, read_need
from orchestra.workflows.loop.shapes import Job, artifact, prompt

NEED_ROUNDS = 3  # how often the planner may ask to see more before it plans
AGAIN = "need_again"  # the reason of a request after the last round
PLAN_REPAIRS = 1  # a new call after a planner's reply that is neither a plan nor a request


class Plan(Struct, frozen=True):
    """The plan, and what the planner asked to see: later calls are shown it too."""

    text: str
    wanted: tuple[Wanted, ...] = ()


async def make_plan(ctx: Context, job: Job, baseline: Baseline) -> Plan:
    """Make the plan. The planner may ask to see more first. A failure ends the run: planning has no fix (G1-6)."""
    notes = before_notes(job, baseline)
    wanted: tuple[Wanted, ...] = ()
    rounds, repairs = (NEED_ROUNDS, PLAN_REPAIRS) if job.edition >= 2 else (0, 0)
    while True:
        call = ModelCall(
            role="planner",
            agent="planner",
            prompt=prompt("planner", job, task=_plan_task(job, rounds, wanted)),
            notes=notes,
            constraints=Constraints(timeoutMs=job.timeoutMs, patchFirst=False),
            artifact=artifact("plan", 1),
            hints=(job.goal,),
            document=f"{artifact('plan', 1)}.md",
            traces=failing_output(baseline.outcomes) or UNSET,
            wanted=wanted or UNSET,
            asking=WORD if job.edition >= 2 else UNSET,
            mayAsk=True if rounds else UNSET,
        )
        read = functools.partial(_read_plan, may_ask=bool(rounds), edition=job.edition)
        try:
            plan = await ctx.at("plan", 1).perform("plan", call, accept=read, retry=job.retry)
        except StepFailed as failed:
            if failed.reason not in (NO_ITEM, AGAIN) or not repairs:
                raise end_of_run(failed) from failed
            repairs -= 1
            notes = (*notes, Note("your last reply could not be used", str(failed)))
            continue
        if plan.text:
            return replace(plan, wanted=wanted)
        rounds -= 1
        wanted = tuple(dict.fromkeys((*wanted, *plan.wanted)))


def _read_plan(reply: ModelReply, *, may_ask: bool, edition: int) -> Plan:
    """A planner's reply: a plan, or what it asks to see (then the text is empty)."""
    if not reply.text.strip():
        raise ContractError("empty", "the planner's reply is empty")
    asked = read_need(reply.text) if edition >= 2 else None
    if asked is None:
        return Plan(reply.text)
    if not may_ask:
        raise ContractError(AGAIN, f"the planner asked for files {NEED_ROUNDS} times already; it must plan now")
    return Plan("", asked)


def _plan_task(job: Job, rounds: int, wanted: tuple[Wanted, ...]) -> str:
    if not wanted:
        return "Write the plan."
    asked = "".join(f"- {item}\n" for item in wanted)
    left = f"You may ask {count(rounds, 'more time')}." if rounds else "You cannot ask again."
    return f"You asked to see:\n\n{asked}\nWhat could be shown is above. {left} Write the plan."


def before_notes(job: Job, baseline: Baseline) -> tuple[Note, ...]:
    """The results of the checks before any change, for planner and developer."""
    if not baseline.outcomes:
        return ()
    return (Note("the checks before any change", describe_checks(job, baseline.outcomes)),)
