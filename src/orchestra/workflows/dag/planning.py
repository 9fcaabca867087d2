"""The plan of a task graph: a person's own, or the planner's.

Rules
1. A plan that cannot be used goes back to the planner with the reasons, `PLAN_REPAIRS` times (S2-61, F2-08).
2. The planner may ask to see more (workflows/need.py) before a plan, also before the plan after a rejection; the
   requests of the whole run are counted together. A planner that plans at once costs one call.
3. The note on the files (context/about.py) describes the form, and only where not everything is shown: a small model
   copies each example that it sees. There, and as long as a request is left, the schema allows one beside a plan.
"""

from __future__ import annotations

from functools import partial

from msgspec import UNSET, Struct

from orchestra.core.context import Context
from orchestra.core.errors import ContractError, PolicyError, StepFailed, end_of_run
from orchestra.core.model import Constraints
from orchestra.core.retry import Retry
from orchestra.core.shown import Wanted
from orchestra.core.work import ModelCall, ModelReply, Note
from orchestra.workflows.dag.plan import json_values, read_plan
from orchestra.workflows.dag.shapes import Job, Plan, plan_schema, planner_prompt
from orchestra.workflows.need import Requests, need_schema, read_need, read_need_object, shortened

PLAN_REPAIRS = 3  # re-prompts for a plan that cannot be used (F2-08)
AGAIN = "again~"  # a prefix for a second plan's tasks; no planner's label can contain it


class Made(Struct, frozen=True):
    """A plan, and what the planner asked to see so far."""

    plan: Plan
    requests: Requests


def no_requests(job: Job) -> Requests:
    """The requests at the start of a run. Runs of edition 1 know none."""
    return Requests() if job.edition >= 2 else Requests(left=0)


async def have_plan(ctx: Context, job: Job, notes: tuple[Note, ...], name: str, requests: Requests) -> Made:
    """The person's own plan, or the planner's; `name` is `plan`, or `replan` for what failed in the first one."""
    scope = AGAIN if name == "replan" else ""
    if job.plan is not None and not scope:
        try:
            return Made(_read(ctx, job, scope, job.plan), requests)
        except ContractError as broken:
            raise unusable(broken.reason, str(broken)) from broken
    repairs = PLAN_REPAIRS
    while True:
        call = _call(job, notes, name, requests)
        read = partial(_read_reply, ctx=ctx, job=job, scope=scope, requests=requests)
        try:
            reply = await ctx.perform(name, call, accept=read, retry=retry(job, job.retries))
        except StepFailed as failed:
            if failed.code != ContractError.code:
                raise end_of_run(failed) from failed
            if not repairs:
                raise unusable(failed.reason, str(failed)) from failed
            repairs -= 1
            notes = (*notes, Note("your last plan could not be used", str(failed)))
            continue
        if isinstance(reply, Plan):
            return Made(reply, requests)
        requests = requests.with_more(reply)


def _call(job: Job, notes: tuple[Note, ...], name: str, requests: Requests) -> ModelCall:
    asked = (Note("what you asked to see", requests.told),) if requests.told else ()
    return ModelCall(
        role="planner",
        agent="planner",
        prompt=planner_prompt(job),
        notes=(*notes, *asked),
        constraints=Constraints(timeoutMs=job.timeoutMs, patchFirst=False, schema=plan_schema(job)),
        artifact=f"{name}/iter-{len(notes) + requests.made + 1:04d}",
        hints=(job.intent,),
        wanted=requests.wanted or UNSET,
        mayAsk=True if requests.left else UNSET,
        askSchema=need_schema() if requests.left else UNSET,
    )


def _read_reply(
    reply: ModelReply, *, ctx: Context, job: Job, scope: str, requests: Requests
) -> Plan | tuple[Wanted, ...]:
    """A planner's reply: a plan, or what it asks to see."""
    asked = asked_to_see(reply.text) if job.edition >= 2 else None
    if asked is None:
        return _read(ctx, job, scope, reply.text)
    requests.refuse_another()
    return asked


def asked_to_see(text: str) -> tuple[Wanted, ...] | None:
    """What a planner's reply asks to see, in lines or as JSON; None if it does not ask.

    ContractError if it asks for nothing.
    """
    asked = read_need(text)
    if asked is not None or '"need"' not in text:  # most replies are plans, and a plan may be long
        return asked
    values = json_values(text)
    [value] = values if len(values) == 1 else [None]
    if isinstance(value, list) and len(value) == 1:
        [value] = value  # the object in an array, because a plan is one
    is_plan = isinstance(value, dict) and ("tasks" in value or "task_id" in value)
    return None if is_plan else read_need_object(value)


def request_in_words(text: str) -> str:
    """What a planner's reply asks to see, in one line for people; empty if it is a plan."""
    try:
        return shortened(asked_to_see(text) or ())
    except ContractError:
        return ""


def _read(ctx: Context, job: Job, scope: str, text: str) -> Plan:
    # The ids are derived from the run in which this history began, so that a fork keeps the ids in its events (C-03).
    return read_plan(text, ctx.origin, job.policy, scope=scope, asker=job.asker)


def unusable(reason: str, message: str) -> Exception:
    """The verdict of a run without a usable plan: refused by the policy (exit 5), or no plan at all."""
    return PolicyError(message) if reason == "policy" else ContractError(reason, message)


def retry(job: Job, times: int) -> Retry:
    """How often a step that failed for a technical reason is tried again."""
    return Retry(times=times, base_sec=job.backoffSec)
