"""The description of the patch loop (S1)."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from orchestra.commands.runners import refused_runner
from orchestra.commands.tools import NoTool
from orchestra.core.changing import change_in
from orchestra.core.command import Asker, typed
from orchestra.core.context import Handlers
from orchestra.core.effects import ChildResult
from orchestra.core.errors import ContractError, PolicyError, UsageError
from orchestra.core.reading import RunCreated, StepOutcome, key_of, outcome_as, outcome_of
from orchestra.core.records import Event, Finding
from orchestra.core.run import RunFolder
from orchestra.core.text import brief, cell, checks_changed, clean, count
from orchestra.policy.decide import decide
from orchestra.providers.choose import ROLES, Models
from orchestra.providers.contract import Serves
from orchestra.workflows.description import Ended, Findings, Hint, Pace, Running, ShownLine, Workflow
from orchestra.workflows.headline import VERDICTS, headline, how_it_ended, short
from orchestra.workflows.loop.checks import BASELINE
from orchestra.workflows.loop.effects import Evaluate, Evaluation, KeepPlan
from orchestra.workflows.loop.evaluation import keep_plan, record_evaluation
from orchestra.workflows.loop.exploring import EXPLORE, told
from orchestra.workflows.loop.flow import FIX_LIMIT, loop
from orchestra.workflows.loop.shapes import EDITION, Job
from orchestra.workflows.loop.states import TABLE
from orchestra.workflows.loop.verdict import NOTHING_PROVED
from orchestra.workflows.need import read_need, shortened
from orchestra.workflows.project import Project
from orchestra.workflows.replies import noop_reason
from orchestra.workflows.report import Reported, render

_LINES_SHOWN, _LINES_REPORTED = 15, 60  # of a failing check's output
_LINES_ABOUT, _CHARACTERS_ABOUT, _INDENT_ABOUT = 4, 160, 20  # of a plan, or of what failed, before a decision


def _defaults(project: Project) -> dict[str, Any]:
    section, retries = project.config.loop, project.config.retries
    return {
        "checks": tuple(tuple(shlex.split(check)) for check in section.checks),
        "approval": section.approval,
        "maxFixIterations": section.max_fix_iterations,
        "evaluator": section.evaluator,
        "timeoutMs": section.timeout_ms,
        "checkTimeoutMs": section.check_timeout_ms,
        "retries": retries.max,
        "backoffSec": retries.backoff_base_sec,
        "baseline": section.baseline,
        "edition": EDITION,
    }


def prepare(project: Project, job: Job, models: Models) -> tuple[Job, Models]:
    """Refuse a loop that cannot succeed, before a run exists: nothing judges it, or no provider writes patches."""
    job = msgspec.structs.replace(job, context=project.opened(job.context), hidden=project.hidden(job.hidden))
    judge = project.provider(models, "evaluator")
    if isinstance(judge, Serves) and not judge.serves("evaluator", "evaluate"):
        job = msgspec.structs.replace(job, evaluator=False)  # a script without evaluator replies has no evaluator
    if not job.checks and not job.evaluator:
        raise UsageError(
            'nothing can decide whether the goal is reached: give --check "CMD", or configure an evaluator'
        )
    if job.scope:
        job.scope.check()
    if job.before and len(job.before) != len(job.checks):
        raise UsageError(f"`before` has {len(job.before)} outcomes for {len(job.checks)} checks; give one for each")
    for role in ROLES:
        writes = role in ("developer", "fixer")
        capabilities = project.provider(models, role, job.writer(role) if writes else "").capabilities
        if writes and not capabilities.supportsPatchFirst:  # S1-31
            raise UsageError(
                f"provider {capabilities.name} cannot write patches; choose another: --role {role}=PROVIDER"
            )
    project.refuse_secrets(*(word for argv in job.checks for word in argv))
    for argv in job.checks:
        _refuse_check(project, argv, job.asker)
    return job, models


def _as_child(project: Project, job: Job, parent: Event) -> Job:
    """The checks of a child count as a model's, which need the whitelist.

    Those of the configuration are a person's. So are those of a parent whose workflow makes them of a person's command,
    and has recorded that.
    """
    named = {tuple(shlex.split(check)) for check in project.config.loop.checks}
    persons = named.issuperset(job.checks) or RunCreated.of(parent).asker == "person"
    return msgspec.structs.replace(job, asker="person" if persons else "model")


def _refuse_check(project: Project, argv: tuple[str, ...], asker: Asker) -> None:
    ruling = decide(argv, project.policy, asker=asker)
    if ruling.decision == "forbid":
        raise PolicyError(f"--check {argv[0]}: {ruling.reason} ({ruling.where})")
    if ruling.decision == "ask":
        raise PolicyError(f"--check {argv[0]}: {ruling.reason} ({ruling.where}): nobody can be asked about a check")
    if "/" not in argv[0] and isinstance(tool := project.workshop.toolbox.resolve(argv[0]), NoTool):
        how = "It is started directly, not by a shell: no built-ins, no variables"
        raise UsageError(f"--check {argv[0]}: {tool.reason}. {how}")  # a check given by a path may be made by the patch

    if refused := refused_runner(argv, project.environment, str(project.workspace)):
        raise UsageError(f"--check {shlex.quote(shlex.join(argv))}: {refused}")


def _facts(project: Project, job: Job) -> dict[str, Any]:
    return {
        "approval": job.approval,
        "maxFixIterations": job.maxFixIterations,
        "policy": msgspec.to_builtins(project.policy),
    }


def _raised(params: Mapping[str, Any], fixes: int | None) -> dict[str, Any]:
    """A higher limit of fixes for a run that goes on: without a number, as many again (S1-71 holds for the new run)."""
    had = int(params.get("maxFixIterations", 3))
    if fixes is not None and fixes <= had:
        raise UsageError(
            f"--max-fixes {fixes}: the limit was {had}, and fixes that are kept count; give more than {had}"
        )
    return {"maxFixIterations": had + max(had, 1) if fixes is None else fixes}


def _changed(project: Project, params: Mapping[str, Any], wishes: Mapping[str, Any]) -> dict[str, Any]:
    """What a person may change of a loop that goes on: more fixes, other checks, another approval mode."""
    if (fixes := wishes.get("maxFixIterations")) is not None:
        _raised(params, fixes)
    for argv in wishes.get("checks", ()):
        project.refuse_secrets(*argv)
        _refuse_check(project, tuple(argv), "person")
    return dict(wishes)


def _effects(running: Running) -> Handlers:
    return {Evaluate: record_evaluation, KeepPlan: keep_plan}


def _pace(params: Mapping[str, Any]) -> Pace:
    """The patch that is worked on, and how many there may be: the first, and the fixes."""
    most = params.get("maxFixIterations")
    if not isinstance(most, int):
        return lambda event: None
    return lambda event: (event.iteration, most + 1) if isinstance(event.iteration, int) else None


def _headline(event: Event) -> str:
    outcome = outcome_of(event)
    if event.type == "PHASE_COMPLETED" and event.phase == "plan" and (asked := _asked_to_see(outcome.text)):
        return f"the planner asks to see {short(asked)} ({key_of(event)})"
    if event.type == "PHASE_COMPLETED" and key_of(event).startswith(f"{EXPLORE}."):
        child = outcome_as(event, ChildResult)
        return told(child.result) if child and child.status == "completed" else headline(event)
    if event.type == "PHASE_COMPLETED" and event.phase in ("execute", "fix") and (why := noop_reason(outcome.text)):
        return f"nothing to change: {short(why)} ({key_of(event)})"
    if event.type != "PHASE_COMPLETED" or not outcome.is_command:
        return headline(event)
    if not key_of(event).startswith(BASELINE):
        return f"check {headline(event)}"
    green = "; it is green already, so it cannot show that the goal is reached" if outcome.status == "pass" else ""
    return f"before any change: {headline(event)}{green}"


def _asked_to_see(text: str) -> str:
    """What a planner's reply asks to see, in one line; empty if the reply is a plan."""
    try:
        return shortened(read_need(text) or ())
    except ContractError:
        return ""


def _details(params: Mapping[str, Any], folder: RunFolder, event: Event) -> Iterator[ShownLine]:
    """The last lines that a failing check printed: who decides about the next patch must know what failed."""
    for line in _last_lines(event, _LINES_SHOWN):
        yield ShownLine(f"    {line}", "dim")


def _about(params: Mapping[str, Any], events: Iterable[Event], whole: bool) -> Iterator[ShownLine]:
    """What a person decides on a patch with: the plan, what failed last, and which checks run next."""
    plan, failed, changes = "", StepOutcome(), dict[str, Any]()
    for event in events:
        changes |= change_in(event)
        outcome = outcome_of(event)
        if event.type == "PHASE_COMPLETED" and key_of(event).startswith("plan.") and not _asked_to_see(outcome.text):
            plan = outcome.text
        if event.type == "PHASE_COMPLETED" and outcome.is_command:
            failed = (
                outcome if outcome.status != "pass" else failed if failed.command != outcome.command else StepOutcome()
            )
    yield from _folded("plan", plan or str(params.get("plan", "")), whole, last=False)
    if failed.command:
        title = f"failed last: `{failed.command}` ({how_it_ended(failed)})"
        yield from _folded(title, failed.output or "it printed nothing", whole, last=True)
    checks = [typed(map(str, argv)) for argv in changes.get("checks", params.get("checks", ()))]
    yield ShownLine(clean(f"  then runs: {'; '.join(checks) or 'no check'}"), "dim")


def _folded(title: str, text: str, whole: bool, *, last: bool) -> Iterator[ShownLine]:
    """A text under its title: whole, or its first or last lines and how to see all of it."""
    lines = [line for line in clean(text).splitlines() if line.strip()]
    if not lines:
        return
    most = _LINES_REPORTED if whole else _LINES_ABOUT
    shown = lines[-most:] if last else lines[:most]
    more = f" ({count(len(lines) - len(shown), 'more line')}: i)" if len(lines) > len(shown) and not whole else ""
    yield ShownLine(clean(f"  {title}{more}"), "dim")
    for line in shown:
        indent = line[: len(line) - len(line.lstrip())][:_INDENT_ABOUT]
        yield ShownLine(f"    {line if whole else indent + brief(line, _CHARACTERS_ABOUT)}", "dim")


def _last_lines(event: Event, most: int) -> list[str]:
    outcome = outcome_of(event)
    if event.type != "PHASE_COMPLETED" or not outcome.is_command or outcome.status == "pass":
        return []
    lines = outcome.output.rstrip().splitlines()
    return [f"… {count(len(lines) - most, 'line')} before", *lines[-most:]] if len(lines) > most else lines


def _warning(events: Iterable[Event]) -> str:
    """What a person must know about the verdict: changed checks, checks that prove nothing."""
    last = StepOutcome()
    for event in events:
        if event.type in VERDICTS:
            last = outcome_of(event)
    rows = last.check_results
    nothing = bool(rows) and all(row.before == row.status == "pass" for row in rows)
    return "; ".join(filter(None, (checks_changed(last.changed_checks), NOTHING_PROVED if nothing else "")))


def _report(run: Reported) -> Iterator[str]:
    yield from render(run, headline=_headline, warnings=(_warning(run.events),))
    verdicts = [outcome_of(event).check_results for event in run.events if event.type in VERDICTS]
    if verdicts and verdicts[-1]:
        yield from ("", "## Checks", "", "| check | before the plan | at the end |", "|---|---|---|")
        yield from (f"| `{cell(row.command)}` | {cell(row.before)} | {cell(row.status)} |" for row in verdicts[-1])
    failed = [event for event in run.events if _last_lines(event, _LINES_REPORTED)]
    if failed:
        yield from ("", "## Output of failing checks")
    for event in failed:
        yield from ("", f"### {cell(_headline(event))}", "")
        yield from (f"    {clean(line)}" for line in _last_lines(event, _LINES_REPORTED))


def _results(ended: Ended) -> Iterator[Hint]:
    if any(event.type == "PATCH_APPLIED" for event in ended.events):
        yield Hint("what changed", command=("diff", ended.folder.id))


class _FixLimit:
    """Checks that a run has no more fixes than allowed (S1-71): after a failed evaluation or apply, not a rejection."""

    _FAILED = ("EVALUATION_FAILED_FIXABLE", "EVALUATION_FAILED_BLOCKED", "PATCH_APPLY_FAILED")

    def __init__(self, folder: RunFolder) -> None:
        self._limit = 3
        self._fixes = 0
        self._failed = False  # the last patch was not applied, or its evaluation failed
        self._over = False

    def see(self, number: int, event: Event) -> Findings:
        if number == 1:
            self._limit = RunCreated.of(event).maxFixIterations
        elif isinstance(limit := change_in(event).get("maxFixIterations"), int):
            self._limit = max(self._limit, limit)
        if event.type in self._FAILED:
            self._failed = True
        elif event.type == "PHASE_STARTED" and event.phase == "fix":
            self._fixes += self._failed
            self._failed = False
        if self._fixes > self._limit and not self._over:
            self._over = True
            yield Finding(
                "S1-71", f"events.ndjson:{number}", f"fix {self._fixes} is more than maxFixIterations {self._limit}"
            )

    def end(self) -> Findings:
        return iter(())


def _needs_commands(params: Mapping[str, Any]) -> bool:
    return bool(params.get("checks"))


LOOP = Workflow(
    name="loop",
    params=Job,
    flow=loop,
    goal=lambda job: str(job.goal),
    table=TABLE,
    defaults=_defaults,
    reserved=frozenset({"asker", "edition"}),
    as_child=_as_child,
    prepare=prepare,
    facts=_facts,
    agents=("asker",),
    effects=_effects,
    approval=lambda config: config.loop.approval,
    uncommitted="uncommitted changes will mix with the run's (to keep them apart: commit first, or --worktree)",
    needs_commands=_needs_commands,
    headline=_headline,
    pace=_pace,
    about=_about,
    after_no=lambda params, subject: "goes to the fixer",
    details=_details,
    warning=_warning,
    results=_results,
    limits=frozenset({FIX_LIMIT}),
    raised=_raised,
    changed=_changed,
    report=_report,
    checks=lambda folder: (_FixLimit(folder),),
    title="a loop",
    start='orchestra loop "GOAL" --check "CMD"',
    records={
        "loop-job": (Job, "payload.params of a loop's RUN_CREATED"),
        "evaluation": (Evaluation, "artifacts/evaluate/iter-NNNN.json"),
    },
)
