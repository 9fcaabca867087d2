"""The steps of a loop (S1 §4.3): linear code over a durable context. It changes nothing itself; it performs effects.

plan → develop → gate → evaluate ─ pass ──▶ completed
         ▲  ▲                    ├ fixable ▶ fix (at most maxFixIterations)
         │  └──── answer ◀─ ask ◀┴ blocked
         └── rejected, does not apply, unreadable: fix, with the exact reason
"""

from __future__ import annotations

from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from orchestra.core.context import Context, Retry, Verdict
from orchestra.core.errors import ContractError, StepFailed, end_of_run
from orchestra.core.model import Constraints
from orchestra.core.records import ErrorInfo, Role
from orchestra.core.text import checks_changed
from orchestra.core.work import (
    Applied,
    Approval,
    AskPerson,
    CommandOutcome,
    ModelCall,
    ModelReply,
    Note,
    PatchProposal,
    Reply,
    RunCommand,
)
from orchestra.patch.result import Ask, Noop, Patch
from orchestra.workflows.gate import Passage, Ticket, pass_gate
from orchestra.workflows.loop.effects import Diffstat, Evaluate, Evaluation
from orchestra.workflows.loop.shapes import (
    Job,
    Opinion,
    Turn,
    artifact,
    check_results,
    command_line,
    describe_checks,
    prompt,
    read_decision,
    read_result,
)

DECISION_REPAIRS = 2  # new calls after an invalid reply; they do not count as fixes (C-09)
FIX_LIMIT = "FIX_LIMIT"  # the error of a run whose fixes are used up (S1-71)
_NOTHING = Applied(before=(), after=(), digest="sha256:" + "0" * 64)


class Written(Struct, frozen=True):
    """The reply of a writing phase, and the file with its exact text."""

    result: Patch | Ask | Noop
    reply: Reply


class Change(Struct, frozen=True):
    """The applied patch, for the evaluator: its text, its diffstat, and changed files that affect the checks."""

    files: Applied
    diff: str
    checks: tuple[str, ...]


class Problem(Struct, frozen=True):
    """Why a fix is needed: the text goes into the fixer's prompt."""

    kind: str
    text: str
    end: bool = False  # a person's rejection ends the run (S1-77)


async def loop(ctx: Context, job: Job) -> Verdict:
    """Run the loop until the goal is reached or the run fails."""
    plan = await make_plan(ctx, job)
    turn = Turn("execute", 1)
    checks: tuple[str, ...] = ()  # files that affect the checks and that this run changed
    while True:
        try:
            written = await write(ctx, job, plan, turn)
        except StepFailed as failed:
            next_turn = fix_or_end(job, turn, _unreadable(failed))
        else:
            match written.result:
                case Ask() as asked:
                    next_turn = await ask_person(ctx, turn, asked.question, asked.reason, asked.needed_input)
                case Noop() as noop:
                    nothing = Change(_NOTHING, f"nothing was changed: {noop.reason}", checks)
                    next_turn = await judge(ctx, job, plan, turn, nothing)
                case Patch() as patch:
                    applied = await apply(ctx, job, turn, written, patch)
                    if isinstance(applied, Problem):
                        next_turn = fix_or_end(job, turn, applied)
                    else:
                        checks = tuple(dict.fromkeys((*checks, *applied.checks)))
                        next_turn = await judge(ctx, job, plan, turn, replace(applied, checks=checks))
                case unreachable:
                    assert_never(unreachable)
        if isinstance(next_turn, Verdict):
            return next_turn
        turn = next_turn


# -- plan, execute, fix -----------------------------------------------------------------------------------------------


async def make_plan(ctx: Context, job: Job) -> str:
    """Make the plan. A failure ends the run: planning has no fix (G1-6)."""
    name = artifact("plan", 1)
    call = ModelCall(
        role="planner",
        agent="planner",
        prompt=prompt("planner", job, task="Write the plan."),
        notes=(),
        constraints=Constraints(timeoutMs=job.timeoutMs, patchFirst=False),
        artifact=name,
        hints=(job.goal,),
        document=f"{name}.md",
    )
    try:
        reply = await ctx.at("plan", 1).perform("plan", call, accept=_not_empty, retry=_retry(job))
    except StepFailed as failed:
        raise end_of_run(failed) from failed
    return reply.text


async def write(ctx: Context, job: Job, plan: str, turn: Turn) -> Written:
    """Call the developer or fixer and read the reply; StepFailed if the reply has none of the three forms."""
    role: Role = "developer" if turn.phase == "execute" else "fixer"
    task = "Carry out the plan." if turn.phase == "execute" else "Repair what failed."
    call = ModelCall(
        role=role,
        agent=role,
        prompt=prompt(role, job, task=task),
        notes=(Note("plan", plan), *turn.notes),
        constraints=Constraints(timeoutMs=job.timeoutMs, patchFirst=True),  # S1-21
        artifact=artifact(turn.phase, turn.iteration),
        hints=(job.goal, plan, *(note.content for note in turn.notes)),
    )
    try:
        return await ctx.at(turn.phase, turn.iteration).perform(turn.phase, call, accept=_read_reply, retry=_retry(job))
    except StepFailed as failed:
        if failed.code != ContractError.code:
            raise end_of_run(failed) from failed
        raise


def _read_reply(reply: ModelReply) -> Written:
    try:
        result = read_result(reply.text)
    except ContractError as broken:
        if reply.finishReason != "length":
            raise
        limit = "the reply was cut by the length limit (raise the provider's max_output_tokens)"
        raise ContractError("truncated", f"{limit}: {broken}") from broken
    cut = reply.finishReason == "length" and isinstance(result, Patch)
    if cut and "[PATCH_END]" not in reply.text:  # a diff without markers may be cut off, and half of it may still apply
        raise ContractError(
            "truncated", "the reply was cut by the length limit before its closing [PATCH_END] marker"
        )  # G1-7
    return Written(result, Reply(reply.text, reply.raw))


def _not_empty(reply: ModelReply) -> ModelReply:
    if not reply.text.strip():
        raise ContractError("empty", "the planner's reply is empty")
    return reply


# -- the gate ---------------------------------------------------------------------------------------------------------


async def apply(ctx: Context, job: Job, turn: Turn, written: Written, patch: Patch) -> Change | Problem:
    """Apply the patch through the gate; returns a Problem for the fixer if it was not applied."""
    ticket = Ticket(
        artifact=f"{artifact(turn.phase, turn.iteration)}.patch",
        approval_id=f"approval-{turn.iteration:04d}",  # one patch per iteration
        policy=job.approval,
        summary=patch.summary,
    )
    passage = await pass_gate(ctx.at(turn.phase, turn.iteration), written.reply, ticket)
    match passage:
        case Passage(done=Applied(refusal=None) as done, approval=Approval() as approval):
            checks = tuple(file.oldPath or file.path for file in passage.files if file.judges)
            return Change(done, _as_applied(patch.diff, passage.proposal, approval), checks)
        case Passage(done=Applied() as done):
            return _not_applied(done)
        case Passage(approval=Approval(reason=reason, end=end)):
            return Problem("rejected", f"A person rejected the patch. Reason: {reason or 'none given'}", end=end)
    raise AssertionError("a passage ends applied or rejected")


def _as_applied(diff: str, proposal: PatchProposal, approval: Approval) -> str:
    """The patch for the evaluator and the fixer. Files that the person left out are listed first."""
    declined = [file.path for file in proposal.files if approval.accepted and file.path not in approval.accepted]
    note = f"Of this patch a person declined, and it was not applied: {', '.join(declined)}\n\n" if declined else ""
    return note + diff


# -- judgement --------------------------------------------------------------------------------------------------------


async def judge(ctx: Context, job: Job, plan: str, turn: Turn, change: Change) -> Turn | Verdict:
    """Run the checks, call the evaluator, record the verdict, and return the next turn or the end."""
    checks = await run_checks(ctx, job, turn)
    verdict = decide(checks, await hear_evaluator(ctx, job, plan, turn, change, checks), job)
    if changed := checks_changed(change.checks):
        verdict = replace(verdict, grounds=f"{changed}. {verdict.grounds}")
    here = ctx.at("evaluate", turn.iteration)
    evaluation = Evaluation(
        decision=verdict.decision,
        grounds=verdict.grounds,
        checks=check_results(job, checks),
        diffstat=Diffstat(before=change.files.before, after=change.files.after),
        question=verdict.question,
        checksChanged=change.checks,
    )
    await here.perform("verdict", Evaluate(evaluation, f"{artifact('evaluate', turn.iteration)}.json"))
    match verdict.decision:
        case "pass":
            result = {"iterations": turn.iteration, "grounds": verdict.grounds}
            return Verdict(status="completed", result=result | ({"checksChanged": change.checks} if changed else {}))
        case "fixable":
            problem = Problem(
                "evaluation", f"{verdict.grounds}\n\n{describe_checks(job, checks)}\nThe patch was:\n{change.diff}"
            )
            return fix_or_end(job, turn, problem)
        case "blocked" if fixes_used_up(job, turn):
            return fix_or_end(job, turn, Problem("evaluation", verdict.grounds))  # an answer would not help
        case "blocked":
            question = verdict.question or await write_question(ctx, job, turn, verdict)
            answered = await ask_person(ctx, turn, question, verdict.grounds, ())
            problem = Problem("evaluation", f"{verdict.grounds}\n\n{describe_checks(job, checks)}")
            return fix_or_end(job, answered, problem)
        case unreachable:
            assert_never(unreachable)


async def run_checks(ctx: Context, job: Job, turn: Turn) -> tuple[CommandOutcome, ...]:
    """Run every check. What a model claims about checks is ignored (G1-13)."""
    here = ctx.at("evaluate", turn.iteration)
    outcomes: list[CommandOutcome] = []
    for number, argv in enumerate(job.checks, start=1):
        name = f"{artifact('evaluate', turn.iteration)}.check-{number}.txt"
        check = RunCommand(
            argv=argv, timeoutMs=job.checkTimeoutMs, artifact=name, asker=job.asker, keeps="layer"
        )  # a person's: `--check` or the configuration; a parent's are a model's (workflow.py)
        outcomes.append(await here.perform(f"check-{number}", check))
    return tuple(outcomes)


async def hear_evaluator(
    ctx: Context, job: Job, plan: str, turn: Turn, change: Change, checks: tuple[CommandOutcome, ...]
) -> Opinion | None:
    """The evaluator's opinion, given the results of the checks; None if no evaluator is configured."""
    if not job.evaluator:
        return None
    changed = checks_changed(change.checks)
    results = f"{changed}\n{describe_checks(job, checks)}" if changed else describe_checks(job, checks)
    notes = (Note("plan", plan), Note("patch", change.diff), Note("check results", results))
    call = ModelCall(
        role="evaluator",
        agent="evaluator",
        prompt=prompt("evaluator", job, task="Judge the result."),
        notes=notes,
        constraints=Constraints(timeoutMs=job.timeoutMs, patchFirst=False),
        artifact=artifact("evaluate", turn.iteration),
        hints=(job.goal, change.diff),
    )
    here = ctx.at("evaluate", turn.iteration)
    repairs = DECISION_REPAIRS
    while True:
        try:
            return await here.perform("evaluate", call, accept=read_decision, retry=_retry(job))
        except StepFailed as failed:
            if failed.code != ContractError.code:
                raise end_of_run(failed) from failed
            if repairs == 0:
                raise
            repairs -= 1


def decide(checks: tuple[CommandOutcome, ...], opinion: Opinion | None, job: Job) -> Opinion:
    """The verdict from exit codes and opinion. A command's exit code outranks a model's opinion (C-23)."""
    unstarted = [command_line(a) for a, c in zip(job.checks, checks, strict=True) if c.status == "not_run"]
    failing = [command_line(a) for a, c in zip(job.checks, checks, strict=True) if c.status == "fail"]
    said = opinion.grounds if opinion else ""
    if unstarted and (opinion is None or opinion.decision == "pass"):
        what = ", ".join(unstarted)
        return Opinion("blocked", f"Check could not be started: {what}. {said}", f"How can `{what}` be run here?")
    if failing and (opinion is None or opinion.decision == "pass"):
        overruled = " (the evaluator said PASS; exit codes outrank it)" if opinion else ""
        return Opinion("fixable", f"Failing: {', '.join(failing)}{overruled}. {said}".strip())
    if opinion is not None:
        return opinion
    return Opinion("pass", "The check passes." if len(checks) == 1 else f"All {len(checks)} checks pass.")


# -- people -----------------------------------------------------------------------------------------------------------


async def write_question(ctx: Context, job: Job, turn: Turn, verdict: Opinion) -> str:
    """If the evaluator is blocked without a question, have the planner write one, once (G1-14)."""
    call = ModelCall(
        role="planner",
        agent="asker",
        prompt=prompt("asker", job, task=f"The evaluator's grounds:\n\n{verdict.grounds}"),
        notes=(),
        constraints=Constraints(timeoutMs=job.timeoutMs, patchFirst=False),
        artifact=artifact("ask", turn.iteration),
        files=False,
    )
    try:
        reply = await ctx.at("ask", turn.iteration).perform("ask", call, accept=_not_empty)
        return reply.text.strip().splitlines()[0]
    except StepFailed:
        return f"What is missing to go on? The evaluator says: {verdict.grounds}"


async def ask_person(ctx: Context, turn: Turn, question: str, reason: str, needed: tuple[str, ...]) -> Turn:
    """Ask the person, wait, and return the turn with the answer (G1-3)."""
    number = turn.asked + 1
    name = artifact("ask", turn.iteration)
    request = AskPerson(
        questionId=f"question-{turn.iteration:04d}-{number}",
        question=question,
        reason=reason,
        needed_input=needed,
        artifact=f"{name}.md" if number == 1 else f"{name}.question-{number}.md",
    )
    answer = await ctx.at("ask", turn.iteration).perform("question", request)
    return turn.answered(question, answer.text)


# -- what a failure leads to ------------------------------------------------------------------------------------------


def fix_or_end(job: Job, turn: Turn, problem: Problem) -> Turn | Verdict:
    """The next fix, with the problem; or the end, if a person ended the run or the fixes are used up."""
    if problem.end:
        return Verdict(status="canceled", result={"reason": problem.text})
    if turn.iteration > job.maxFixIterations:  # iteration 1 is no fix: the fixes done are iteration - 1 (S1-71, S1-72)
        fixes = "1 fix" if job.maxFixIterations == 1 else f"{job.maxFixIterations} fixes"
        error = ErrorInfo(FIX_LIMIT, f"still failing after {fixes}. Last problem: {problem.text}")
        return Verdict(status="failed", error=error, exit_code=1)
    return turn.fixing(Note(f"what failed ({problem.kind})", problem.text))


def fixes_used_up(job: Job, turn: Turn) -> bool:
    """Iteration 1 is no fix, so the fixes done are iteration - 1: the third is allowed, the fourth is not (S1-72)."""
    return turn.iteration > job.maxFixIterations


def _unreadable(failed: StepFailed) -> Problem:
    return Problem("reply", f"Your reply could not be used ({failed.reason}): {failed}")


def _not_applied(done: Applied) -> Problem:
    assert done.refusal is not None
    return Problem("patch", f"The patch was not applied ({done.refusal.reason}): {done.refusal.message}")


def _retry(job: Job) -> Retry:
    return Retry(times=job.retries, base_sec=job.backoffSec)
