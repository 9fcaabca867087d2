"""The steps of a task graph (S2): linear code over a durable context. It changes nothing itself; it performs effects.

plan ─ adopt ─ agree ─▶ tasks, each as soon as its last dependency is done ─▶ (replan once) ─▶ summary ─▶ end
▲  │
└──┘ the planner asks to see more: it is shown, and asked again
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Literal

import msgspec
from msgspec import Struct

from orchestra.core.command import NOT_GRANTED, RunCommand, command_digest
from orchestra.core.context import Context, Verdict
from orchestra.core.errors import PolicyError, StepFailed
from orchestra.core.model import Constraints
from orchestra.core.records import ArtifactRef, ErrorInfo
from orchestra.core.text import and_more, some
from orchestra.core.work import TOTAL_TIME, Approval, Approve, AutoApprove, ModelCall, Note
from orchestra.policy.binding import stricter
from orchestra.policy.decide import Ruling, decide
from orchestra.workflows.dag.effects import Adopted, AdoptPlan
from orchestra.workflows.dag.plan import make_plan
from orchestra.workflows.dag.planning import have_plan, no_requests, retry
from orchestra.workflows.dag.shapes import Job, Plan, PlannedTask, summarizer_prompt
from orchestra.workflows.gate import Ticket, pass_gate
from orchestra.workflows.need import Requests

PLAN_REJECTIONS = 3  # new plans after a person's rejection
SHOWN_TASKS = 200  # tasks in a prompt
SHOWN_CHARS = 400  # of each task's output in a prompt


class Done(Struct, frozen=True, gc=False):
    """How a task ended."""

    state: Literal["done", "failed", "not run"]
    message: str = ""
    output: str = ""
    artifacts: tuple[ArtifactRef, ...] = ()
    expired: bool = False  # the run's total time was used up
    refused: bool = False  # by the policy
    rejected: bool = False  # by a person


Ended = dict[str, Done]  # by label, in the plan's order


async def dag(ctx: Context, job: Job) -> Verdict:
    """Run a task graph: plan, tasks, summary."""
    agreed = await agree(ctx, job, no_requests(job))
    plan = agreed.plan
    if plan is None:
        return Verdict(status="canceled", result={"reason": "the plan was rejected"})
    if job.planOnly:
        return Verdict(status="completed", result={"planned": len(plan.tasks)})
    ended = await run_tasks(ctx, job, plan)
    first = ended
    if job.replan and any(done.state == "failed" for done in ended.values()) and not is_expired(ended):
        second = (await agree(ctx, job, agreed.requests, after=describe(plan, ended))).plan
        if second is not None:
            ended = await run_tasks(ctx, job, second)
            plan = make_plan(plan.plan_id, (*plan.tasks, *second.tasks))
    await sum_up(ctx, job, plan, {**first, **ended})
    return verdict(ended)


# -- the plan ---------------------------------------------------------------------------------------------------------


class Agreed(Struct, frozen=True):
    """The plan that was granted, None if it was rejected for good; and what the planner asked to see so far."""

    plan: Plan | None
    requests: Requests


async def agree(ctx: Context, job: Job, requests: Requests, after: str = "") -> Agreed:
    """Get a plan that is recorded, and granted by a person or the policy.

    `after` has the results of an earlier plan; the new plan is for what failed in it (S2-10).
    """
    notes = (Note("what came of your first plan; plan again what failed or was not run", after),) if after else ()
    name = "replan" if after else "plan"
    for turn in range(1, 2 + PLAN_REJECTIONS):
        here = ctx.at("plan", turn)
        made = await have_plan(here, job, notes, name, requests)
        requests = made.requests
        adopted = await here.perform("adopt", AdoptPlan(msgspec.to_builtins(made.plan), added=bool(after)))
        plan = msgspec.convert(adopted.plan, Plan)  # as recorded and redacted, which is what a replay will see
        if job.planOnly:
            return Agreed(plan, requests)
        approval = await approve_plan(here, job, plan, adopted, f"{name}-{turn}")
        if approval.granted:
            return Agreed(plan, requests)
        if (job.plan is not None and not after) or approval.end:
            break
        notes = (*notes, Note("a person rejected your plan", approval.reason or "no reason given"))
    return Agreed(None, requests)


async def approve_plan(ctx: Context, job: Job, plan: Plan, adopted: Adopted, name: str) -> Approval:
    """Have a person approve the plan, if the policy, a rule or the tasks' rights require it."""
    job = msgspec.structs.replace(job, approval=stricter(job.approval, adopted.approval))
    asked = asked_commands(job, plan)
    reasons = plan_reasons(job, plan, asked)
    if not reasons:
        policy = "dry run" if job.dry else job.approval if job.asker == "model" else "a person's own command"
        return await ctx.perform("approve", AutoApprove(adopted.file.sha256, policy))
    request = Approve(
        approvalId=f"approval-{name}",
        digest=adopted.file.sha256,  # covers every command, input and limit of the plan (D-11)
        policy=job.approval,
        reasons=reasons,
        summary=f"{len(plan.tasks)} {'task' if len(plan.tasks) == 1 else 'tasks'}: {job.intent}",
        patch=adopted.file,
        files=(),
        subject="plan",
        commands=tuple(dict.fromkeys(command_digest(command(task), net=_reaches(task)) for task, _ in asked)),
    )
    return await ctx.perform("approve", request)


def asked_commands(job: Job, plan: Plan) -> tuple[tuple[PlannedTask, Ruling], ...]:
    """The tasks whose command needs a person's grant. Without the grant it is refused (commands/sandbox.py)."""
    if job.dry or job.asker == "person" or not job.policy.rules:  # only rules ask, and only about a model's commands
        return ()
    ruled = ((task, decide(command(task), job.policy, asker="model")) for task in plan.tasks)
    return tuple((task, ruling) for task, ruling in ruled if ruling.decision == "ask")


def _reaches(task: PlannedTask) -> bool:
    """Whether it runs with network."""
    return task.constraints.sandbox.net == "allow"


def plan_reasons(job: Job, plan: Plan, commands: tuple[tuple[PlannedTask, Ruling], ...]) -> tuple[str, ...]:
    """Why a person must approve this plan first. A rule with `ask` applies under every approval mode."""
    if job.dry or job.asker == "person":
        return ()
    asked = tuple(
        f"task {task.label}{' with network' if _reaches(task) else ''}: {ruling.reason} ({ruling.where})"
        for task, ruling in commands
    )
    if job.approval == "never":
        return asked
    writes = [task.label for task in plan.tasks if task.constraints.sandbox.fs == "rw"]
    reaches = [task.label for task in plan.tasks if _reaches(task)]
    risks = (
        *((f"may change the workspace: {some(writes)}",) if writes else ()),
        *((f"may reach the network: {some(reaches)}",) if reaches else ()),
    )
    always = ("policy: every plan is approved by a person",) if job.approval == "always" else ()
    return (*always, *asked, *risks)


# -- the tasks --------------------------------------------------------------------------------------------------------


async def run_tasks(ctx: Context, job: Job, plan: Plan) -> Ended:
    """Run each task as soon as its last dependency is done. Tasks that depend on a failed one are not run (G2-1)."""
    labels = {task.task_id: task.label for task in plan.tasks}
    after = {task.label: tuple(labels[one] for one in task.depends_on) for task in plan.tasks}
    over: list[bool] = []  # not empty: the run's time is used up, so no task begins

    async def run(task: PlannedTask, here: Context) -> Done:
        if over:
            return Done("not run", "the run's time was over")
        done = await run_task(here, job, task, after[task.label])
        if done.expired:
            over.append(True)
        return done

    branches = {task.label: partial(run, task) for task in plan.tasks}
    here = ctx.at("execute", 1)
    ended = await here.graph(branches, after, limit=job.maxWorkers, go_on=lambda done: done.state == "done")
    return {label: ended.get(label, Done("not run", "a task it depends on did not succeed")) for label in branches}


async def run_task(ctx: Context, job: Job, task: PlannedTask, after: tuple[str, ...]) -> Done:
    """Run one task: its command, with retries, and then its changes through the gate."""
    limits = task.constraints
    wanted = RunCommand(
        argv=command(task),
        timeoutMs=round(limits.max_duration_sec * 1000),
        artifact=task.label,
        asker=job.asker,
        keeps="files",
        task=task.label,
        taskId=task.task_id,
        env=tuple(sorted(task.inputs.env.items())),
        files=task.inputs.files,
        fs=limits.sandbox.fs,
        net=limits.sandbox.net == "allow",
        after=after,
        mustPass=True,
        dry=job.dry,
    )
    try:
        outcome = await ctx.perform("run", wanted, retry=retry(job, limits.max_retries))
    except StepFailed as failed:
        refused = failed.code in (PolicyError.code, NOT_GRANTED)
        return Done("failed", str(failed), expired=failed.code == TOTAL_TIME, refused=refused)
    if outcome.changes is None:
        return Done("done", output=outcome.output, artifacts=outcome.artifacts)
    ticket = Ticket(f"{task.label}/changes.patch", f"approval-task-{task.label}", job.approval, task.intent)
    passage = await pass_gate(ctx, outcome.changes, ticket)
    if passage.done is not None and passage.done.refusal is None:
        return Done("done", output=outcome.output, artifacts=outcome.artifacts)
    refusal = passage.done.refusal if passage.done else None
    why = refusal.message if refusal else f"rejected: {passage.approval.reason if passage.approval else ''}"
    return Done("failed", f"its changes were not applied: {why}", artifacts=outcome.artifacts, rejected=refusal is None)


def command(task: PlannedTask) -> tuple[str, ...]:
    """The argv of a task: `tools: ["echo"]` with `args: ["Hello"]` is `echo Hello` (S2-112)."""
    return (*task.tools[:1], *task.inputs.args)


# -- the end ----------------------------------------------------------------------------------------------------------


async def sum_up(ctx: Context, job: Job, plan: Plan, ended: Ended) -> None:
    """Have the summarizer write a text for the report. If that fails, the run goes on without it."""
    if not job.summarizer or job.dry:
        return
    artifacts = "".join(
        f"- {ref.path} ({ref.bytes} bytes)\n" for done in list(ended.values())[:SHOWN_TASKS] for ref in done.artifacts
    )
    call = ModelCall(
        role="planner",
        agent="summarizer",
        prompt=summarizer_prompt(job, describe(plan, ended), artifacts or "none\n"),
        notes=(),
        constraints=Constraints(timeoutMs=job.timeoutMs, patchFirst=False),
        artifact="summary/iter-0001",
        files=False,
    )
    try:
        await ctx.at("evaluate", 1).perform("summary", call, retry=retry(job, job.retries))
    except StepFailed:
        pass  # the failure is recorded, and report.md shows it


def describe(plan: Plan, ended: Ended) -> str:
    """The goal and result of every task, shortened, for a model."""
    lines: list[str] = []
    for task in plan.tasks[:SHOWN_TASKS]:
        done = ended.get(task.label, Done("not run"))
        said = (done.message or done.output).strip()
        lines.append(f"- {task.label} [{done.state}] {task.intent} (`{' '.join(command(task))[:200]}`)")
        if said:
            lines.append(f"  {said[-SHOWN_CHARS:]}")
    if more := and_more(plan.tasks, SHOWN_TASKS, "- "):
        lines.append(more)
    return "\n".join(lines) + "\n"


def verdict(ended: Ended) -> Verdict:
    """The run's verdict: completed if every task is done, else failed."""
    counted = Counter(done.state for done in ended.values())
    counts = {state: counted[state] for state in ("done", "failed", "not run")}
    if counts["done"] == len(ended):
        return Verdict(status="completed", result=counts)
    if is_expired(ended):
        error = ErrorInfo(TOTAL_TIME, "the run's total time limit was reached (policies.max_total_duration_sec)")
    else:
        failed = [label for label, done in ended.items() if done.state == "failed"]
        rejected = [label for label, done in ended.items() if done.rejected]
        why = f"; a person rejected the changes of {some(rejected)}" if rejected else ""
        error = ErrorInfo("TASKS_FAILED", f"{len(failed)} of {len(ended)} tasks failed: {some(failed)}{why}")
    refused = any(done.refused for done in ended.values())
    return Verdict(status="failed", result=counts, error=error, exit_code=PolicyError.exit_code if refused else 1)


def is_expired(ended: Ended) -> bool:
    """Whether the run's total time limit ended it (S2-50)."""
    return any(done.expired for done in ended.values())
