"""The steps of a loop (S1 §4.3): linear code over a durable context. It changes nothing itself; it performs effects.

checks ─ explore ─ plan → develop → gate → evaluate ─ pass ──▶ completed
          ▲ │     ▲  ▲              ▲      ├ fixable ▶ fix (at most maxFixIterations)
          └NEED   │  └── answer ◀───┼─ ask ◀┴ blocked
          (shown) │                 └ answer ◀ a check lacks its environment: evaluate again, never fix
                  └── rejected, does not apply, unreadable: fix, with the exact reason

A person's rejection leads to the next iteration too, but it is no fix: it uses up nothing of maxFixIterations.
"""

from __future__ import annotations

from typing import Any, assert_never

from msgspec import UNSET, Struct, to_builtins
from msgspec.structs import replace

from orchestra.core.command import CommandOutcome
from orchestra.core.context import Context, Verdict
from orchestra.core.errors import ContractError, StepFailed, end_of_run
from orchestra.core.records import ErrorInfo, Role
from orchestra.core.shown import ShownLines
from orchestra.core.text import checks_changed
from orchestra.core.work import (
    Applied,
    Approval,
    AskPerson,
    AskWorkspace,
    ModelCall,
    ModelReply,
    Note,
    PatchProposal,
    Reply,
)
from orchestra.patch.result import Ask, Noop, Patch
from orchestra.workflows.gate import Passage, Ticket, pass_gate
from orchestra.workflows.loop.checks import (
    Baseline,
    ask_for_environment,
    check_results,
    describe_checks,
    failing_output,
    missing_outside,
    prove_nothing,
    run_baseline,
    run_checks,
)
from orchestra.workflows.loop.effects import Diffstat, Evaluate, Evaluation
from orchestra.workflows.loop.evaluator import hear_evaluator, write_question
from orchestra.workflows.loop.exploring import explore
from orchestra.workflows.loop.planning import Plan, before_notes, make_plan
from orchestra.workflows.loop.shapes import Change, Job, Turn, artifact, as_changed, prompt
from orchestra.workflows.loop.verdict import blocked, decide
from orchestra.workflows.need import read_needed
from orchestra.workflows.replies import Opinion, read_result

FIX_LIMIT = "FIX_LIMIT"  # the error of a run whose fixes are used up (S1-71)
_NOTHING = Applied(before=(), after=(), digest="sha256:" + "0" * 64)


class Written(Struct, frozen=True):
    """The reply of a writing phase, and the file with its exact text."""

    result: Patch | Ask | Noop
    reply: Reply
    shown: ShownLines | None  # what its writer was shown of the files


class Problem(Struct, frozen=True):
    """Why a fix is needed: the text goes into the fixer's prompt."""

    kind: str
    text: str
    end: bool = False  # a person's rejection ends the run (S1-77)
    rejected: str = ""  # the digest of the patch that a person rejected
    patch: str = ""  # more text for the fixer; a person has seen the patch, and `diff` shows it


async def loop(ctx: Context, job: Job) -> Verdict:
    """Run the loop until the goal is reached or the run fails."""
    baseline = await run_baseline(ctx, job)
    plan = await make_plan(ctx, job, baseline, await explore(ctx, job))
    turn = first_turn(job, plan, baseline)
    checks: tuple[str, ...] = ()  # files that affect the checks and that this run changed
    untouched = True
    while True:
        job, baseline = _now(ctx, job, baseline)
        try:
            written = await write(ctx, job, plan, turn)
        except StepFailed as failed:
            next_turn = fix_or_end(ctx, job, turn, _unreadable(failed))
        else:
            match written.result:
                case Ask() as asked:
                    next_turn = await answer(ctx, job, turn, asked)
                case Noop() as noop:
                    nothing = Change(_NOTHING, f"nothing was changed: {noop.reason}", checks, untouched)
                    next_turn = await judge(ctx, job, plan, turn, nothing, baseline)
                case Patch() as patch:
                    applied = await apply(ctx, job, turn, written, patch)
                    if isinstance(applied, Problem):
                        next_turn = fix_or_end(ctx, job, turn, applied)
                    else:
                        turn = turn.told(applied.said) if job.edition >= 3 else turn
                        untouched = False
                        checks = tuple(dict.fromkeys((*checks, *applied.checks)))
                        next_turn = await judge(ctx, job, plan, turn, replace(applied, checks=checks), baseline)
                case unreachable:
                    assert_never(unreachable)
        if isinstance(next_turn, Verdict):
            return next_turn
        turn = next_turn


def first_turn(job: Job, plan: Plan, baseline: Baseline) -> Turn:
    """The first turn: the developer's; the fixer's, if the job brings along what an earlier attempt left to repair."""
    notes, traces = before_notes(job, baseline), failing_output(baseline.outcomes)
    if job.problem:
        return Turn("fix", 1, (*notes, Note("what failed", job.problem)), traces=traces, wanted=plan.wanted)
    return Turn("execute", 1, notes, traces=traces, wanted=plan.wanted)


def _now(ctx: Context, job: Job, baseline: Baseline) -> tuple[Job, Baseline]:
    """The job as a person has changed it since the run began, and the results before the plan of its checks."""
    changed = as_changed(job, ctx.changes)
    return changed, baseline.of(job.checks, changed.checks)


# -- plan, execute, fix -----------------------------------------------------------------------------------------------


async def write(ctx: Context, job: Job, plan: Plan, turn: Turn) -> Written:
    """Call the developer or fixer and read the reply; StepFailed if the reply has none of the three forms."""
    role: Role = "developer" if turn.phase == "execute" else "fixer"
    task = "Carry out the plan." if turn.phase == "execute" else "Repair what failed."
    call = ModelCall(
        role=role,
        agent=job.writer(role),
        prompt=prompt(role, job, task=task),
        notes=(*job.given_notes, Note("plan", plan.text), *turn.notes),
        constraints=job.constraints("result"),
        artifact=artifact(turn.phase, turn.iteration),
        hints=(job.goal, plan.text, *(note.content for note in (*turn.notes, *job.given_notes))),
        traces=turn.traces or UNSET,
        wanted=turn.wanted or UNSET,
    )
    try:
        return await ctx.at(turn.phase, turn.iteration).perform(turn.phase, call, accept=_read_reply, retry=job.retry)
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
    return Written(result, Reply(reply.text, reply.raw), reply.shown)


# -- the gate ---------------------------------------------------------------------------------------------------------


async def apply(ctx: Context, job: Job, turn: Turn, written: Written, patch: Patch) -> Change | Problem:
    """Apply the patch through the gate; returns a Problem for the fixer if it was not applied."""
    ticket = Ticket(
        artifact=f"{artifact(turn.phase, turn.iteration)}.patch",
        approval_id=f"approval-{turn.iteration:04d}",  # one patch per iteration
        policy=job.approval,
        summary=patch.summary,
        shown=written.shown if job.edition >= 2 else None,
        scope=job.scope or None,
        rejected=turn.rejected,
    )
    passage = await pass_gate(ctx.at(turn.phase, turn.iteration), written.reply, ticket)
    match passage:
        case Passage(done=Applied(refusal=None) as done, approval=Approval() as approval):
            checks = tuple(file.oldPath or file.path for file in passage.files if file.judges)
            return Change(done, _as_applied(patch.diff, passage.proposal, approval), checks, said=_said(passage))
        case Passage(done=Applied() as done):
            return _not_applied(done)
        case Passage(approval=Approval(reason=reason, end=end)):
            same = "It is the same patch that the person rejected before. Write another one. "
            again = same if passage.proposal.digest in turn.rejected else ""
            why = f"A person rejected the patch. {again}Reason: {reason or 'none given'}"
            return Problem("rejected", why, end=end, rejected=passage.proposal.digest)
    raise AssertionError("a passage ends applied or rejected")


def _said(passage: Passage) -> tuple[Note, ...]:
    """What a person said with their own version of a patch, for the fixer."""
    own = passage.proposal.revision
    if own is None:
        return ()
    notes: list[Note] = []
    if own.declined:
        why = f"Reason: {own.reason or 'none given'}\n\n"
        notes.append(Note("a person declined", f"Do not bring this change again as it is. {why}{own.declined}"))
    if own.edited:
        notes.append(Note("a person edited", "The patch was applied as a person edited it. Keep what they wrote.\n"))
    return tuple(notes)


def _as_applied(diff: str, proposal: PatchProposal, approval: Approval) -> str:
    """The patch for the evaluator and the fixer: a person's own version of it, or what they left out listed first."""
    if proposal.revision is not None:
        own = read_result(proposal.revision.reply.text)
        left = "\n\nA person declined this part of it:\n" + proposal.revision.declined
        said = f"The patch as a person changed it:\n{own.diff if isinstance(own, Patch) else ''}"
        return said + (left if proposal.revision.declined else "")
    declined = [file.path for file in proposal.files if approval.accepted and file.path not in approval.accepted]
    note = f"Of this patch a person declined, and it was not applied: {', '.join(declined)}\n\n" if declined else ""
    return note + diff


# -- judgement --------------------------------------------------------------------------------------------------------


async def judge(ctx: Context, job: Job, plan: Plan, turn: Turn, change: Change, baseline: Baseline) -> Turn | Verdict:
    """Run the checks, call the evaluator, record the verdict, and return the next turn or the end."""
    job, baseline = _now(ctx, job, baseline)
    checks, turn = await run_with_environment(ctx, job, turn, change, baseline)
    opinion = await hear_evaluator(ctx, job, plan, turn, change, checks)
    verdict = decide(checks, opinion, job, baseline, untouched=change.untouched)
    if changed := checks_changed(change.checks):
        verdict = replace(verdict, grounds=f"{changed}. {verdict.grounds}")
    evaluation = _evaluation(job, verdict, checks, change, baseline)
    name = f"{artifact('evaluate', turn.iteration)}.json"
    await ctx.at("evaluate", turn.iteration).perform("verdict", Evaluate(evaluation, name))
    match verdict.decision:
        case "pass":
            return Verdict(status="completed", result=_result(turn, evaluation, change))
        case "fixable":
            problem = Problem(
                "evaluation",
                f"{verdict.grounds}\n\n{describe_checks(job, checks)}",
                patch=f"\nThe patch was:\n{change.diff}",
            )
            return fix_or_end(ctx, job, turn, problem, failing_output(checks))
        case "blocked" if fixes_used_up(job, turn):
            return fix_or_end(ctx, job, turn, Problem("evaluation", verdict.grounds))  # an answer would not help
        case "blocked":
            question = verdict.question or await write_question(ctx, job, turn, verdict)
            answered = await ask_person(ctx, turn, question, verdict.grounds, ())
            problem = Problem("evaluation", f"{verdict.grounds}\n\n{describe_checks(job, checks)}")
            return fix_or_end(ctx, job, answered, problem, failing_output(checks))
        case unreachable:
            assert_never(unreachable)


async def run_with_environment(
    ctx: Context, job: Job, turn: Turn, change: Change, baseline: Baseline
) -> tuple[tuple[CommandOutcome, ...], Turn]:
    """Run the checks. While something outside the project is missing, a person is asked and the checks run again."""
    again = 0
    while True:
        checks = await run_checks(ctx, job, turn.iteration, again=again)
        missing = missing_outside(job, checks)
        if not missing:
            return checks, turn
        again += 1
        stem = artifact("evaluate", turn.iteration)
        evaluation = _evaluation(job, blocked(missing), checks, change, baseline)
        record = Evaluate(evaluation, f"{stem}.blocked-{again}.json", copy=f"{stem}.json")
        await ctx.at("evaluate", turn.iteration).perform("verdict", record)
        number = turn.asked + 1
        request = ask_for_environment(missing, _question_id(turn, number), _question_file(turn, number))
        await ctx.at("ask", turn.iteration).perform("question", request)
        turn = replace(turn, asked=number)


def _evaluation(
    job: Job, verdict: Opinion, checks: tuple[CommandOutcome, ...], change: Change, baseline: Baseline
) -> Evaluation:
    return Evaluation(
        decision=verdict.decision,
        grounds=verdict.grounds,
        checks=check_results(job, checks, baseline),
        diffstat=Diffstat(before=change.files.before, after=change.files.after),
        question=verdict.question,
        checksChanged=change.checks,
    )


def _result(turn: Turn, evaluation: Evaluation, change: Change) -> dict[str, Any]:
    """What a completed run returns: how many iterations, on what grounds, and what each check proves."""
    result: dict[str, Any] = {"iterations": turn.iteration, "grounds": evaluation.grounds}
    if evaluation.checksChanged:
        result["checksChanged"] = evaluation.checksChanged
    if any(check.before for check in evaluation.checks):
        result["checks"] = to_builtins(evaluation.checks)
        result["provesNothing"] = prove_nothing(evaluation.checks, untouched=change.untouched)
    return result


# -- people -----------------------------------------------------------------------------------------------------------


async def answer(ctx: Context, job: Job, turn: Turn, asked: Ask) -> Turn:
    """Answer a model's question: from the workspace, if it only asks to see files and has not yet; else by a person."""
    wanted = read_needed(asked.needed_input) if job.edition >= 2 and turn.phase not in turn.looked else None
    if wanted is None:
        return await ask_person(ctx, turn, asked.question, asked.reason, asked.needed_input)
    number = turn.asked + 1
    request = AskWorkspace(
        questionId=_question_id(turn, number),
        question=asked.question,
        reason=asked.reason,
        needed_input=asked.needed_input,
        artifact=_question_file(turn, number),
    )
    await ctx.at("ask", turn.iteration).perform("question", request)
    return turn.shown(wanted)


async def ask_person(ctx: Context, turn: Turn, question: str, reason: str, needed: tuple[str, ...]) -> Turn:
    """Ask the person, wait, and return the turn with the answer (G1-3)."""
    number = turn.asked + 1
    request = AskPerson(
        questionId=_question_id(turn, number),
        question=question,
        reason=reason,
        needed_input=needed,
        artifact=_question_file(turn, number),
    )
    said = await ctx.at("ask", turn.iteration).perform("question", request)
    return turn.answered(question, said.text)


def _question_id(turn: Turn, number: int) -> str:
    return f"question-{turn.iteration:04d}-{number}"


def _question_file(turn: Turn, number: int) -> str:
    """The name of a question's readable copy: `ask/iter-0002.md`, then `ask/iter-0002.question-2.md` (S1-109)."""
    name = artifact("ask", turn.iteration)
    return f"{name}.md" if number == 1 else f"{name}.question-{number}.md"


# -- what a failure leads to ------------------------------------------------------------------------------------------


def fix_or_end(ctx: Context, job: Job, turn: Turn, problem: Problem, traces: tuple[str, ...] = ()) -> Turn | Verdict:
    """The next fix, with the problem; or the end, if a person ended the run or the fixes are used up."""
    job = as_changed(job, ctx.changes)
    if problem.end:
        return Verdict(status="canceled", result={"reason": problem.text})
    if not problem.rejected and fixes_used_up(job, turn):
        fixes = "1 fix" if job.maxFixIterations == 1 else f"{job.maxFixIterations} fixes"
        error = ErrorInfo(FIX_LIMIT, f"still failing after {fixes}. Last problem: {problem.text}")
        return Verdict(status="failed", result=dict(ctx.changes), error=error, exit_code=1)
    failed = Note(f"what failed ({problem.kind})", problem.text + problem.patch)
    if problem.rejected:
        return turn.rejecting(failed, problem.rejected, job.edition)
    return turn.fixing(failed, traces=traces if job.edition >= 2 else ())


def fixes_used_up(job: Job, turn: Turn) -> bool:
    """Whether no fix is left: the third is allowed, the fourth not (S1-71, S1-72)."""
    return turn.fixes >= job.maxFixIterations


def _unreadable(failed: StepFailed) -> Problem:
    return Problem("reply", f"Your reply could not be used ({failed.reason}): {failed}")


def _not_applied(done: Applied) -> Problem:
    assert done.refusal is not None
    return Problem("patch", f"The patch was not applied ({done.refusal.reason}): {done.refusal.message}")
