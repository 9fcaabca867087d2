"""The description of the task graph (S2)."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from orchestra.config.settings import to_yaml
from orchestra.core.context import Handlers
from orchestra.core.errors import ContractError, PolicyError, UsageError
from orchestra.core.projections import Document, Projection
from orchestra.core.reading import Request, StepEvent, StepOutcome, branch_of, effect_of, key_of, outcome_of
from orchestra.core.records import FINAL, Event, utf8
from orchestra.core.run import RunFolder
from orchestra.core.text import and_more, count
from orchestra.providers.choose import Models
from orchestra.providers.contract import Serves
from orchestra.workflows.dag import shapes
from orchestra.workflows.dag.board import Line
from orchestra.workflows.dag.effects import AdoptPlan
from orchestra.workflows.dag.files import TaskFiles, adopt, read_plan_file
from orchestra.workflows.dag.flow import dag
from orchestra.workflows.dag.history import Moment
from orchestra.workflows.dag.lines import plan_lines, whole_plan
from orchestra.workflows.dag.plan import read_plan
from orchestra.workflows.dag.planfile import check_plan_file
from orchestra.workflows.dag.planning import request_in_words
from orchestra.workflows.dag.report import metrics, report
from orchestra.workflows.dag.scenario import EvalReport, Scenario
from orchestra.workflows.dag.shapes import Job, Plan
from orchestra.workflows.dag.states import TABLE, TASK
from orchestra.workflows.dag.verify import verify_tasks
from orchestra.workflows.description import MIXED, Ended, Findings, Hint, Inner, Pace, Running, ShownLine, Workflow
from orchestra.workflows.headline import again, headline, how_it_ended, short
from orchestra.workflows.project import Project
from orchestra.workflows.report import ended


def configured_job(project: Project, intent: str) -> Job:
    """The job with the configuration's values and this intent."""
    config = project.config
    return Job(
        intent=intent,
        policy=project.policy,
        prompts={"planner": config.llm.prompts.planner, "summarizer": config.llm.prompts.summarizer},
        config=shown_config(project),
        approval=config.dag.approval,
        replan=config.dag.replan,
        maxWorkers=config.concurrency.max_workers,
        retries=config.retries.max,
        backoffSec=config.retries.backoff_base_sec,
        timeoutMs=config.loop.timeout_ms,
        edition=shapes.EDITION,
    )


def _defaults(project: Project) -> dict[str, Any]:
    job: dict[str, Any] = msgspec.to_builtins(configured_job(project, ""))
    return {name: value for name, value in job.items() if name != "intent"}


def shown_config(project: Project) -> dict[str, Any]:
    """The part of the configuration for the L1 → L2 message (S2-93, S2-94)."""
    config: dict[str, Any] = msgspec.to_builtins({"llm": project.config.llm, "policies": project.config.policies})
    return config


# -- starting ---------------------------------------------------------------------------------------------------------


def prepare(project: Project, job: Job, models: Models) -> tuple[Job, Models]:
    """Refuse a wrong plan, or a planner whose provider does not work, before a run exists."""
    job = msgspec.structs.replace(job, context=project.opened(job.context), hidden=project.hidden(job.hidden))
    if job.plan is not None:
        _refuse_bad_plan(job, job.plan)
        project.refuse_secrets(job.plan)
    else:
        _refuse_planner(project, models)
    if not models.spec("summarizer", "planner") or not _can_summarize(project, models):
        job = msgspec.structs.replace(job, summarizer=False)  # a report needs no summary (S2-133)
    return job, models


def _refuse_bad_plan(job: Job, plan: str) -> None:
    """Raise if a person's own plan is wrong, before a run exists."""
    check_plan_file(plan, job.source)
    try:
        read_plan(plan, "", job.policy, asker=job.asker, source=job.source)
    except ContractError as wrong:
        raise (PolicyError if wrong.reason == "policy" else UsageError)(str(wrong)) from wrong


def _refuse_planner(project: Project, models: Models) -> None:
    """UsageError if the planner's provider is wrong. The message suggests a plan of the person's own."""
    try:
        project.provider(models, "planner")
    except UsageError as error:
        if models.spec("planner", "planner"):
            raise
        raise UsageError(f"{error}. Without a model: --plan FILE carries out a plan of your own") from error


def _can_summarize(project: Project, models: Models) -> bool:
    provider = project.provider(models, "planner", "summarizer")
    return not isinstance(provider, Serves) or provider.serves("planner", "evaluate", "summarizer")


def _facts(project: Project, job: Job) -> dict[str, Any]:
    scenario = {"scenario": str(project.overlay.path.absolute())} if project.overlay is not None else {}
    return {"approval": job.approval, **scenario}


def _files(project: Project, job: Job) -> Mapping[str, bytes]:
    return {"config.yaml": utf8(project.redactor.text(to_yaml(project.config)))}


# -- driving ----------------------------------------------------------------------------------------------------------


def _effects(running: Running) -> Handlers:
    return {AdoptPlan: functools.partial(adopt, approval=running.approval)}


def _projections(project: Project, folder: RunFolder) -> tuple[Projection, ...]:
    def figures(events: Sequence[Event]) -> bytes:
        return project.redactor.data(metrics(ended(folder, events)))

    return (
        TaskFiles(folder, project.disk, project.config.telemetry.level),
        Document(folder.path / "metrics.json", project.disk, figures, written="ended"),
    )


_ALLOW = "security.net.allow_domains in orchestra.config.yaml, with policies.allow_network"
_CURES = (  # a part of the reason -> what to do
    ("this task has none", f'give the task "sandbox": {{"net": "allow"}} in the plan, and name its domains: {_ALLOW}'),
    ("not in allow_domains", f"name the domain: {_ALLOW}"),
    ("which is not public", "no setting opens a private address: fetch it before, or let a task bring it as a file"),
)

# -- reading ----------------------------------------------------------------------------------------------------------


def _pace(params: Mapping[str, Any]) -> Pace:
    """How many tasks began, and how many are planned."""
    planned, begun = 0, set[str]()

    def at(event: Event) -> tuple[int, int] | None:
        nonlocal planned
        if event.type == "PHASE_COMPLETED" and effect_of(event) == AdoptPlan.__name__:
            outcome = outcome_of(event)
            tasks = outcome.plan.get("tasks")
            if not outcome.added:  # it replaces the plan before, of which nothing began
                planned = 0
                begun.clear()
            planned += len(tasks) if isinstance(tasks, list) else 0
        elif event.type == "PHASE_STARTED" and event.phase == "execute":
            begun.add(branch_of(event))
        return (len(begun), planned) if planned else None

    return at


def _headline(event: Event) -> str:
    match event.type:
        case "PHASE_STARTED" if (step := StepEvent.of(event)).task:
            return f"{step.task} begins" + (f", attempt {step.attempt}" if step.attempt > 1 else "")
        case "PHASE_COMPLETED" if effect_of(event) == AdoptPlan.__name__:
            tasks = outcome_of(event).plan.get("tasks")
            return f"plan: {count(len(tasks), 'task')}" if isinstance(tasks, list | tuple) else "plan: plan.json has it"
        case "PHASE_COMPLETED" if (outcome := outcome_of(event)).is_command:
            left = "".join(f"; not taken over: {note.what} ({note.why})" for note in outcome.untaken[:3])
            seconds = f"{outcome.durationMs / 1000:.1f} s"
            return f"{branch_of(event)} done ({how_it_ended(outcome)}, {seconds}){left}{_denied(outcome)}"
        case "PHASE_COMPLETED" if event.phase == "plan" and (asked := request_in_words(outcome_of(event).text)):
            return f"the planner asks to see {short(asked)} ({key_of(event)})"
        case "PHASE_COMPLETED" if event.phase == "evaluate" and key_of(event).startswith("summary."):
            return "summary done"
        case "PHASE_FAILED" if event.phase == "execute" and "/" in key_of(event):
            denied = _denied(outcome_of(event))
            return f"{branch_of(event)} failed: {short(StepEvent.of(event).message)}{denied}{again(event)}"
        case _:
            return headline(event)


def _denied(outcome: StepOutcome) -> str:
    """The end of a task's line: which connections were refused, and what to do about it."""
    said = "".join(f"; refused: {short(one.what)} ({short(one.why)})" for one in outcome.denials[:3])
    more = and_more(outcome.denials, 3)
    cures = dict.fromkeys(cure for one in outcome.denials for reason, cure in _CURES if reason in one.why)
    return said + more + "".join(f"; {cure}" for cure in cures)


def _details(params: Mapping[str, Any], folder: RunFolder, event: Event) -> Iterable[ShownLine]:
    """The lines of the plan, below the event's line; none for a single command that a person typed (`tool run`)."""
    if event.type != "PHASE_COMPLETED" or effect_of(event) != AdoptPlan.__name__:
        return ()
    plan = msgspec.convert(outcome_of(event).plan, Plan)
    if params.get("asker") == "person" and not plan.warnings:
        return ()
    return plan_lines(plan, folder.path / "plan.json")


def _shown(folder: RunFolder, request: Event, whole: bool) -> Iterable[ShownLine] | None:
    """The lines of the plan that a person must approve; None for a patch of a task, which is shown like any patch."""
    asked = Request.of(request)
    if asked.subject != "plan":
        return None
    plan = read_plan_file(folder, asked.patch)
    return (whole_plan if whole else plan_lines)(plan, folder.path / "plan.json")


def _after_no(params: Mapping[str, Any], subject: str) -> str:
    if subject != "plan":
        return "kept in the run; the task fails"
    return "goes to the planner" if params.get("plan") is None else "kept in the run, which ends"


def _results(ended: Ended) -> Iterator[Hint]:
    params, folder = ended.params, ended.folder
    if any(event.type == "PATCH_APPLIED" for event in ended.events):
        yield Hint("what changed", command=("diff", folder.id))
    plan = folder.path / "plan.json"
    if params.get("planOnly") and plan.exists():
        yield Hint("plan", path=str(plan))
        yield Hint("carry it out", command=("dag", str(params.get("intent", "")), "--plan", str(plan)))
    elif params.get("asker") != "person" and _ran(ended.events):
        yield Hint("what the tasks printed and left", path=str(folder.artifacts))


def _ran(events: Sequence[Event]) -> bool:
    """Whether a command was started."""
    return any(event.type == "PHASE_STARTED" and StepEvent.of(event).process for event in events)


_ABOUT_TASKS = """\
A task that waits for others is `blocked` until the last of them is done. While it has retries left, a failing task
stays `running`; a task that may write is `done` when its changes are applied. `done` and `failed` are final. A task
that is `planned` or `blocked` when the run ends was not run, and the report says so.
"""


class _TaskFilesCheck:
    """Checks the files of a graph's tasks (S2)."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._executed = False
        self._ended = False

    def see(self, number: int, event: Event) -> Findings:
        self._executed = self._executed or event.phase == "execute"
        self._ended = event.type in FINAL
        return iter(())

    def end(self) -> Findings:
        yield from verify_tasks(self._folder, ended=self._ended, executed=self._executed)


DAG = Workflow(
    name="dag",
    params=Job,
    flow=dag,
    goal=lambda job: str(job.intent),
    table=TABLE,
    root=lambda project: project.runs_folder,  # D-06
    defaults=_defaults,
    reserved=frozenset({"asker", "edition"}),
    prepare=prepare,
    facts=_facts,
    files=_files,
    agents=("summarizer",),
    effects=_effects,
    projections=_projections,
    limit=lambda policy: policy.max_total_sec,  # S2-50
    approval=lambda config: config.dag.approval,
    uncommitted=MIXED,
    headline=_headline,
    pace=_pace,
    details=_details,
    shown=_shown,
    after_no=_after_no,
    results=_results,
    report=report,
    checks=lambda folder: (_TaskFilesCheck(folder),),
    title="a task graph",
    start='orchestra dag "INTENT"',
    inner=(Inner("A task", _ABOUT_TASKS, "planned", {str(state): states for state, states in TASK.items()}),),
    records={
        "dag-job": (Job, "payload.params of a task graph's RUN_CREATED"),
        "plan": (Plan, "plan.json; L2 → L1"),
        "plan-request": (shapes.PlanRequest, "messages.jsonl: L1 → L2"),
        "assignment": (shapes.Assignment, "messages.jsonl: L2 → L3"),
        "task-result": (shapes.TaskResult, "messages.jsonl: L3 → L2"),
        "task": (shapes.Task, "S2's task record"),
        "task-line": (Line, "one line of tasks.jsonl: a task as it is now, and what happened to it"),
        "trace-line": (Moment, "one line of `orchestra trace --json`: what a level did, or told another"),
        "scenario": (Scenario, "a golden scenario: what `eval run` takes"),
        "eval-report": (EvalReport, "what `eval run --report json` prints"),
    },
)
