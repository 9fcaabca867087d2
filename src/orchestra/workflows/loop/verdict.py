"""The verdict of an iteration, from exit codes, the baseline and the evaluator's opinion. Pure.

Rules
1. A command's exit code outranks a model's opinion (C-23).
2. A check that cannot do its work here says nothing about the code: the verdict is blocked, and no patch can change it.
3. A pass says of each check what it proves: red before and green after, or green before already. A check that
   turned green although the run changed nothing proves nothing either.
"""

from __future__ import annotations

from orchestra.core.command import CommandOutcome
from orchestra.workflows.loop.checks import Baseline, Missing, check_results, compared, prove_nothing, turned_by_itself
from orchestra.workflows.loop.effects import CheckResult
from orchestra.workflows.loop.shapes import Job, command_line
from orchestra.workflows.replies import Opinion

NOTHING_PROVED = "every check was green before the plan too: they do not show that the goal is reached"
TWO_RESULTS = "It gives two results for the same files, or somebody else changed them meanwhile"


def decide(
    checks: tuple[CommandOutcome, ...],
    opinion: Opinion | None,
    job: Job,
    baseline: Baseline,
    *,
    untouched: bool = False,
) -> Opinion:
    """The verdict: pass, fixable or blocked, with its grounds. `untouched`: no patch of the run has been applied."""
    results = check_results(job, checks, baseline)
    unstarted = [command_line(a) for a, c in zip(job.checks, checks, strict=True) if c.status == "not_run"]
    failing = [_named(result) for result in results if result.status == "fail"]
    said = opinion.grounds if opinion else ""
    if unstarted and (opinion is None or opinion.decision == "pass"):
        what = ", ".join(unstarted)
        return Opinion("blocked", f"Check could not be started: {what}. {said}", f"How can `{what}` be run here?")
    if failing and (opinion is None or opinion.decision == "pass"):
        overruled = " (the evaluator said PASS; exit codes outrank it)" if opinion else ""
        return Opinion("fixable", f"Failing: {', '.join(failing)}{overruled}. {said}".strip())
    if opinion is not None and opinion.decision != "pass":
        return opinion
    return Opinion("pass", "\n\n".join(filter(None, (_passed(results, opinion, untouched=untouched), said))))


def blocked(missing: tuple[Missing, ...]) -> Opinion:
    """The verdict on checks that lack something outside the project (rule 2)."""
    return Opinion("blocked", f"{'; '.join(map(str, missing))}. This is not the code's fault: no fix is tried.")


def _passed(results: tuple[CheckResult, ...], opinion: Opinion | None, *, untouched: bool) -> str:
    """What the passing checks prove (rule 3). Without a baseline, only an opinion has more to say."""
    told = [f"`{result.command}`: {text}" for result in results if (text := compared(result))]
    passed = "The check passes" if len(results) == 1 else f"All {len(results)} checks pass"
    if not told:
        return "" if opinion else f"{passed}."
    if untouched and (turned := turned_by_itself(results)):
        what = ", ".join(f"`{command}`" for command in turned)
        return f"{passed}, which proves nothing: this run changed no file, and {what} was red before. {TWO_RESULTS}."
    if prove_nothing(results):
        return f"{passed} (green before: proves nothing)."
    return f"{passed}: {compared(results[0]) if len(told) == 1 else '; '.join(told)}."


def _named(result: CheckResult) -> str:
    """A failing check by its command, and that it passed before, if it did."""
    broken = f" ({compared(result)})" if result.before == "pass" else ""
    return result.command + broken
