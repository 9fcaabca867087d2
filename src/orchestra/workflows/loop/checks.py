"""The checks of a loop: run before the plan (the baseline) and after every patch, and compared. Pure but for the steps.

Rules
1. A check that was green before the plan proves nothing about the goal, and this is said (G1-16). One that was red
   before and is green after proves something.
2. A check that cannot do its work for want of something outside the project (a tool, a runner, a package) says nothing
   about the code. A person is asked, and the checks run again; it is never work for the fixer.
3. What a model claims about checks is ignored (G1-13).
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from orchestra.core.command import CommandOutcome, RunCommand
from orchestra.core.context import Context
from orchestra.core.errors import ContractError, StepFailed
from orchestra.core.work import AskPerson
from orchestra.workflows.loop.effects import CheckResult, Result
from orchestra.workflows.loop.shapes import Job, artifact, command_line

BASELINE = "baseline-"  # the names of the steps that run the checks before the plan
Checks = tuple[tuple[str, ...], ...]
FAILURE_CHARS = 4_000  # of each failing check's output in a prompt: the beginning and the end
_COMPARED: dict[tuple[Result, Result], str] = {
    ("fail", "pass"): "red before, green after",
    ("pass", "pass"): "green before: proves nothing",
    ("not_run", "pass"): "not run before, green after",
    ("fail", "fail"): "red before, red after",
    ("pass", "fail"): "green before, red after",
    ("not_run", "fail"): "not run before, red after",
}


class Baseline(Struct, frozen=True):
    """The checks before the plan. Not `known`: a run of before the baseline, which does not speak of it."""

    outcomes: tuple[CommandOutcome, ...] = ()
    known: bool = False

    def before(self, number: int) -> Result | UnsetType:
        """The result of the check of this number, counted from 0."""
        if self.outcomes:
            return self.outcomes[number].status
        return "not_run" if self.known else UNSET

    def of(self, checks: Checks, changed: Checks) -> Baseline:
        """The same for checks that a person changed since: one that is new was not run before."""
        if checks == changed or not self.outcomes:
            return self
        ran = dict(zip(checks, self.outcomes, strict=True))
        return Baseline(tuple(ran[one] if one in ran else _not_run(one) for one in changed), self.known)


# -- steps ------------------------------------------------------------------------------------------------------------


async def run_baseline(ctx: Context, job: Job) -> Baseline:
    """Run every check before the plan. While something outside the project is missing, ask a person and run again."""
    known = job.edition >= 2
    if job.before:
        return Baseline(job.before, known=known)
    if not job.baseline or not job.checks:
        return Baseline(known=known)
    here, asked = ctx.at("plan", 1), 0
    while True:
        outcomes = tuple([await _before(here, job, number, asked) for number in range(1, len(job.checks) + 1)])
        missing = missing_outside(job, outcomes)
        if not missing:
            return Baseline(outcomes, known=known)
        asked += 1
        file = f"{artifact('ask', 1)}.{BASELINE}{asked}.md"
        await ctx.at("ask", 1).perform("question", ask_for_environment(missing, f"question-{BASELINE}{asked}", file))


async def _before(here: Context, job: Job, number: int, asked: int) -> CommandOutcome:
    """One check before the plan; a check that cannot be run is a failed step (G1-16)."""
    name = f"{BASELINE}{number}"
    stem = artifact("plan", 1)
    check = _check(job, number, f"{stem}.{name}{_again(asked)}.txt")
    try:
        return await here.perform(name, check, accept=_was_run)
    except StepFailed as failed:
        if failed.code != ContractError.code:
            raise
        return _not_run(check.argv, str(failed))


def _not_run(argv: tuple[str, ...], error: str = "") -> CommandOutcome:
    return CommandOutcome(command_line(argv), None, "not_run", 0, False, "", error=error)


def _was_run(outcome: CommandOutcome) -> CommandOutcome:
    if outcome.status == "not_run":
        raise ContractError("not_run", outcome.error or "it could not be run")
    return outcome


async def run_checks(ctx: Context, job: Job, iteration: int, *, again: int) -> tuple[CommandOutcome, ...]:
    """Run every check on the files as they are now. `again`: how often a person was asked in this iteration."""
    here, stem = ctx.at("evaluate", iteration), artifact("evaluate", iteration)
    return tuple(
        [
            await here.perform(f"check-{number}", _check(job, number, f"{stem}.check-{number}{_again(again)}.txt"))
            for number in range(1, len(job.checks) + 1)
        ]
    )


def _check(job: Job, number: int, name: str) -> RunCommand:
    # A person's: `--check` or the configuration; those of a parent run are a model's (workflow.py).
    return RunCommand(
        argv=job.checks[number - 1],
        timeoutMs=job.checkTimeoutMs,
        artifact=name,
        asker=job.asker,
        keeps="layer",
        env=job.testEnv or (),
        files=job.testFiles or (),
        reports=not isinstance(job.testEnv, UnsetType),
    )


def _again(times: int) -> str:
    return f".again-{times + 1}" if times else ""


# -- what is missing (rule 2) -----------------------------------------------------------------------------------------


class Missing(Struct, frozen=True):
    """A check that cannot do its work here, why, and what would help."""

    command: str
    what: str
    cure: str

    def __str__(self) -> str:
        return f"`{self.command}` cannot do its work here: {self.what}"


def missing_outside(job: Job, outcomes: tuple[CommandOutcome, ...]) -> tuple[Missing, ...]:
    """The checks that lack something outside the project."""
    if job.edition < 2:
        return ()
    found: list[Missing] = []
    for argv, done in zip(job.checks, outcomes, strict=True):
        if done.blocked:
            found.append(Missing(command_line(argv), done.blocked, done.cure))
        elif done.status == "not_run" and not _of_the_project(argv[0]):
            found.append(Missing(command_line(argv), done.error, ""))
    return tuple(found)


def _of_the_project(program: str) -> bool:
    """Whether a check is a program of the project's own, which the patch may make."""
    return "/" in program and not program.startswith("/")


def ask_for_environment(missing: tuple[Missing, ...], question_id: str, file: str) -> AskPerson:
    """The question about what is missing. The checks run again after the answer, whatever it says."""
    cures = [one.cure for one in missing if one.cure]
    return AskPerson(
        questionId=question_id,
        question=f"{'; '.join(map(str, missing))}. Answer when it is cured: the checks run again. Or cancel the run.",
        reason="what is missing lies outside the project, so no patch can mend it",
        needed_input=tuple(dict.fromkeys(cures)),
        artifact=file,
    )


# -- how results are described ----------------------------------------------------------------------------------------


def check_results(job: Job, outcomes: tuple[CommandOutcome, ...], baseline: Baseline) -> tuple[CheckResult, ...]:
    """The rows of evaluate/iter-NNNN.json (G1-9)."""
    return tuple(
        CheckResult(command_line(argv), done.status, done.exitCode, baseline.before(number))
        for number, (argv, done) in enumerate(zip(job.checks, outcomes, strict=True))
    )


def compared(result: CheckResult) -> str:
    """One check before the plan and now, in words; empty if there was no baseline."""
    if isinstance(result.before, UnsetType):
        return ""
    return _COMPARED.get((result.before, result.status), "could not be run")


def prove_nothing(results: tuple[CheckResult, ...], *, untouched: bool = False) -> bool:
    """Whether every check passes and passed before the plan too (rule 1), or one turned green without any change."""
    if untouched and turned_by_itself(results):
        return True
    return bool(results) and all(result.before == result.status == "pass" for result in results)


def turned_by_itself(results: tuple[CheckResult, ...]) -> list[str]:
    """The checks that were red and are green, for a run that has changed nothing: they give two results."""
    return [result.command for result in results if (result.before, result.status) == ("fail", "pass")]


def describe_checks(job: Job, outcomes: tuple[CommandOutcome, ...]) -> str:
    """The results of the checks, for a prompt: exit codes, and the output of failed checks."""
    if not outcomes:
        return "No checks are configured.\n"
    parts: list[str] = []
    for argv, done in zip(job.checks, outcomes, strict=True):
        how = "timed out" if done.timedOut else done.error or f"exit code {done.exitCode}"
        parts.append(f"$ {command_line(argv)}\n[{done.status}: {how}]\n")
        if done.status != "pass":
            parts.append(_excerpt(done.output) + "\n")
    return "".join(parts)


def failing_output(outcomes: tuple[CommandOutcome, ...]) -> tuple[str, ...]:
    """The output of the checks that fail: the files it names are what a model must see."""
    return tuple(done.output for done in outcomes if done.status == "fail" and done.output)


def _excerpt(text: str) -> str:
    if len(text) <= FAILURE_CHARS:
        return text
    half = FAILURE_CHARS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
