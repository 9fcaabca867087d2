"""The steps of the evidence loop (S5): linear code over a durable context.

    PlanIntent ─▶ AcquireEvidence ⇄ AssessSufficiency ─▶ answer ─▶ Done
                        └── a limit, or no usable reply ──▶ ForcedSynthesis ─▶ Done

Rules
1. One action of the worker is one step, `finalize` too; repairs do not count, and `continue` does not begin anew.
2. No reply of a model ends the loop: planning falls back to gathering, a decision to `continue`, the worker to
   ForcedSynthesis, an answer to fixed words (S5-32, S5-46, S5-55, S5-56). The run fails only if not one reply came.
3. Whatever becomes of a command line is evidence: refused, failed or killed (S5-38).
4. The session is saved before the run's last event (S5-11).
"""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec import UnsetType
from msgspec.structs import replace

from orchestra.core.command import RunCommand
from orchestra.core.context import Context, Verdict
from orchestra.core.errors import ContractError, Refused, StepFailed, end_of_run
from orchestra.core.scopes import Labels
from orchestra.core.work import AskPerson
from orchestra.policy.words import parse_line
from orchestra.workflows.evidence import protocol
from orchestra.workflows.evidence.asking import ACTION, ANSWER, DECISION, FORCED, PLANNING, Asked, call
from orchestra.workflows.evidence.effects import Conclude, Decline, SaveSession
from orchestra.workflows.evidence.memory import Message, tagged
from orchestra.workflows.evidence.prompting import (
    answer_prompt,
    decision_prompt,
    fallback_answer,
    for_main,
    for_worker,
    planning_prompt,
    with_quotes,
    worker_prompt,
)
from orchestra.workflows.evidence.protocol import AskUser, CallTool, Decision, Finalize, Planning
from orchestra.workflows.evidence.shapes import (
    KEPT_CHARACTERS,
    TOOL_TIMEOUT_MS,
    Job,
    Loop,
    Result,
    begin,
    evidence_of,
    refused_evidence,
    steps_left,
)
from orchestra.workflows.gate import run_command


async def evidence(ctx: Context, job: Job) -> Verdict:
    """Answer a goal from evidence."""
    loop = await plan_intent(ctx, job, begin(job))
    answer: str | None = None
    if loop.planning.next == "final_report":  # S5-09
        loop, answer = await write_answer(ctx, job, loop, ANSWER)
    else:
        gather = loop.planning.next == "collect_evidence"
        while answer is None:
            if gather:
                loop, finalized = await acquire(ctx, job, loop)
                if not finalized:
                    break  # S5-46, S5-62
            loop, decision = await assess(ctx, job, loop)
            if decision.decision == "finalize":
                loop, answer = await conclude(ctx, job, loop, decision)
                break
            gather = True
    if answer is None:
        loop, answer = await write_answer(ctx, job, loop, FORCED)
    return await done(ctx, job, loop, answer)


# -- the states -------------------------------------------------------------------------------------------------------


async def plan_intent(ctx: Context, job: Job, loop: Loop) -> Loop:
    """PlanIntent: main reads the request and decides where to begin (S5-02)."""
    loop, planning = await call(ctx, job, loop, PLANNING, planning_prompt, protocol.read_planning)
    if planning is None:
        return replace(loop.heard(tagged("user", "PLANNING_FAIL")), planning=protocol.FALLBACK_PLANNING)
    loop = loop.heard(tagged("assistant", "PLANNING_RESULT", _planned(planning)))  # S5-66
    hints = (planning.guidance,) if planning.guidance else ()
    return replace(loop, planning=planning, guidance=hints)


async def acquire(ctx: Context, job: Job, loop: Loop) -> tuple[Loop, bool]:
    """AcquireEvidence: the worker acts until it hands over to main; False if it cannot (rule 1)."""
    while steps_left(job, loop):
        step = loop.step + 1
        shown = for_worker(loop)
        loop, action = await call(ctx, job, loop, ACTION, worker_prompt, protocol.read_action, shown)
        loop = replace(loop, step=step)
        match action:
            case CallTool():
                loop = await run_tool(ctx, job, loop, action)
            case AskUser():
                loop = await ask_user(ctx, loop, action)
            case Finalize():
                return loop, True
            case _:
                return loop.heard(tagged("user", "WORKER_VALIDATION_FAIL", number=step)), False
    return loop, False


async def run_tool(ctx: Context, job: Job, loop: Loop, action: CallTool) -> Loop:
    """Run the worker's command line; whatever becomes of it is evidence (S5-38)."""
    line, step = action.args.cmd, loop.step
    loop = loop.heard(tagged("assistant", "WORKER_TOOL", line, number=step))
    here = ctx.at("execute", 1, Labels({"state": ACTION.state, "native": "tool-start", "step": step},
                                       {"state": ACTION.state, "native": "tool-result", "step": step}))  # fmt: skip
    try:
        first, *then = parse_line(line)
    except ContractError as unreadable:
        declined = await here.perform("declined", Decline(line, str(unreadable)))
        return loop.with_evidence(refused_evidence(step, line, declined.why))
    try:
        command = RunCommand(
            argv=first.argv,
            errors=first.errors,
            then=tuple(then),
            timeoutMs=TOOL_TIMEOUT_MS,
            artifact=f"tool/step-{step:04d}",
            asker="model",
            keeps="nothing",
            keep=KEPT_CHARACTERS,
        )
        outcome = await run_command(here, "tool", command)
    except (Refused, StepFailed) as refused:  # rule 3
        return loop.with_evidence(refused_evidence(step, line, str(refused)))
    return loop.with_evidence(evidence_of(step, line, outcome, job.contextTokens))


async def ask_user(ctx: Context, loop: Loop, action: AskUser) -> Loop:
    """Ask the user; the answer is YES or NO, and the loop goes on (S5-39, S5-40, S5-77, S5-78)."""
    step = loop.step
    here = ctx.at("ask", 1, Labels({"state": ACTION.state, "native": "ask", "step": step},
                                   {"state": ACTION.state, "native": "ask-answer", "step": step}))  # fmt: skip
    question = AskPerson(
        questionId=f"ask-{step}",
        question=action.question,
        reason="",
        needed_input=(),
        artifact=f"ask/step-{step:04d}.md",
        kind="yes_no",
        options=("YES", "NO"),
    )
    answer = await here.perform("ask", question)
    loop = loop.heard(
        tagged("assistant", "WORKER_ASK", action.question, number=step),
        tagged("user", "WORKER_ASK_ANSWER", answer.text, number=step),
    )
    return replace(loop, answers=(*loop.answers, (action.question, answer.text)))


async def assess(ctx: Context, job: Job, loop: Loop) -> tuple[Loop, Decision]:
    """AssessSufficiency: main decides whether the evidence is enough (S5-05)."""
    loop, decision = await call(ctx, job, loop, DECISION, decision_prompt, protocol.read_decision, for_main(loop))
    if decision is None:
        loop = loop.heard(tagged("user", "MAIN_DECISION_FAIL", number=loop.step))
        decision = protocol.FALLBACK_DECISION
    if not isinstance(decision.forced_synthesis_enable_think, UnsetType):
        loop = replace(loop, think=decision.forced_synthesis_enable_think)
    if decision.decision == "continue":  # S5-50, S5-76
        loop = loop.heard(tagged("assistant", "MAIN_GUIDANCE", decision.guidance, number=loop.step))
        hints = (*loop.guidance, decision.guidance) if decision.guidance else loop.guidance
        loop = replace(loop, guidance=hints, needed=decision.needed_evidence)
    return loop, decision


async def conclude(ctx: Context, job: Job, loop: Loop, decision: Decision) -> tuple[Loop, str]:
    """The answer of main's decision, or another call for it if that is empty or JSON (S5-51, S5-59)."""
    try:
        return loop, with_quotes(protocol.read_answer(decision.answer), decision.summary_evidence, loop)
    except ContractError:
        return await write_answer(ctx, job, loop, ANSWER, draft=decision.answer)


async def write_answer(ctx: Context, job: Job, loop: Loop, asked: Asked, *, draft: str = "") -> tuple[Loop, str]:
    """Have main write the final answer; fixed words if it does not (S5-56, S5-61)."""
    forced = asked.state == "ForcedSynthesis"
    prompt = partial(answer_prompt, draft=draft, forced=forced)
    loop, answer = await call(ctx, job, loop, asked, prompt, protocol.read_answer, for_main(loop))
    if answer is not None:
        return loop, answer
    if not loop.replies:
        assert loop.failure is not None
        raise end_of_run(loop.failure)  # rule 2: no model answered at all
    if forced:
        loop = loop.heard(tagged("user", "MAIN_FORCE_FINALIZE_FAIL"))
    return loop, fallback_answer(job, loop)


async def done(ctx: Context, job: Job, loop: Loop, answer: str) -> Verdict:
    """Done: the result. The session is saved before the run's last event (S5-07, S5-11)."""
    state = {"state": "Done", "step": loop.step}
    here = ctx.at("execute", 1, Labels(state, {**state, "native": "final-answer"}))
    found = await here.perform("conclude", Conclude(answer, loop.evidence))
    if job.session:
        loop = loop.heard(Message("assistant", found.answer))
        here = ctx.at("execute", 1, Labels(state, {**state, "native": "complete"}))
        saving = SaveSession(job.session, job.turn, job.goal, found.answer, loop.messages, job.previous)
        await here.perform("save", saving)
    result = Result(found.answer, loop.evidence, found.files)
    return Verdict(status="completed", result=msgspec.to_builtins(result))


def _planned(planning: Planning) -> str:
    goals = "".join(f"\n- {goal}" for goal in planning.evidence_goals)
    return f"{planning.next}: {planning.reason}{goals}"


def is_answer(key: str) -> bool:
    """Whether the call with this key writes the answer, as it is."""
    return key.rpartition(".")[0] == ANSWER.name
