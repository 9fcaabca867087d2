"""The description of contract-driven development (S3)."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from orchestra.core.context import Handlers
from orchestra.core.errors import OddFile, PolicyError, UsageError
from orchestra.core.files import MIB, read_bounded
from orchestra.core.looks import Seen
from orchestra.core.names import CONTRACTS as FOLDER
from orchestra.core.projections import Projection
from orchestra.core.reading import StepEvent, effect_of, key_of, outcome_as
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.core.text import cell, clean, count
from orchestra.policy.decide import decide
from orchestra.providers.choose import Models
from orchestra.providers.contract import Serves
from orchestra.workflows.contracts.effects import Handling, Runs, Settled, Taken
from orchestra.workflows.contracts.files import ContractFiles
from orchestra.workflows.contracts.flow import Result, contracts
from orchestra.workflows.contracts.gates import Passing
from orchestra.workflows.contracts.places import Places, project_hash
from orchestra.workflows.contracts.progress import Merged, Planned, Progress, Recorded, TaskEnded, Verified, results_of
from orchestra.workflows.contracts.proving import Proved, Proving
from orchestra.workflows.contracts.shapes import EXPLORE, JUDGE_DESIGN, ROLES, Job
from orchestra.workflows.contracts.states import TABLE
from orchestra.workflows.contracts.testcommand import TestCommand, detect, given
from orchestra.workflows.contracts.testruns import TestRun
from orchestra.workflows.contracts.verifying import verified
from orchestra.workflows.description import Ended, Hint, Running, ShownLine, Workflow, usual_root
from orchestra.workflows.headline import headline, short
from orchestra.workflows.project import Project
from orchestra.workflows.report import Reported, render

_NO_TESTS = (
    "no test command was found: give --check CMD, or write contracts.test into orchestra.config.yaml"
    " (pytest, unittest, npm test, gradle, go test and cargo test are detected)"
)


# -- starting ---------------------------------------------------------------------------------------------------------


def _defaults(project: Project) -> dict[str, Any]:
    section, loop, retries = project.config.contracts, project.config.loop, project.config.retries
    return {
        "test": tuple(shlex.split(section.test)),
        "approval": section.approval,
        "implementations": section.max_implementations,
        "designs": section.max_designs,
        "reruns": section.reruns,
        "designCommand": tuple(shlex.split(section.design_check)),
        "mutants": section.mutants,
        "timeoutMs": loop.timeout_ms,
        "testTimeoutMs": loop.check_timeout_ms,
        "retries": retries.max,
        "backoffSec": retries.backoff_base_sec,
    }


def prepare(project: Project, job: Job, models: Models) -> tuple[Job, Models]:
    """Complete the job, or refuse it before a run exists."""
    if not job.request.strip():
        raise UsageError('the request is empty; say what to build: orchestra contracts "XX 컨트롤러 구현해줘"')
    command = test_command(project, job)
    for argv in filter(None, (command.argv, job.designCommand)):
        _refuse_command(project, argv, job)
    for role in ROLES:
        writes = role in ("qa-engineer", "implementer")
        capabilities = project.provider(models, "developer" if writes else "planner", role).capabilities
        if writes and not capabilities.supportsPatchFirst:  # S1-31
            raise UsageError(
                f"provider {capabilities.name} cannot write patches; choose another: --role {role}=PROVIDER"
            )
    project.refuse_secrets(*command.argv, *job.designCommand)
    judge = project.provider(models, JUDGE_DESIGN.role, JUDGE_DESIGN.agent)
    named = isinstance(judge, Serves) and not judge.serves(JUDGE_DESIGN.role, JUDGE_DESIGN.phase, JUDGE_DESIGN.agent)
    job = replace(
        job,
        test=command.argv,
        runner=command.runner,
        testOrigin=command.origin,
        projectHash=project_hash(project.path),
        designCheck=bool(job.designCommand) or not named,  # a script without such replies has no judge
        context=project.opened(job.context),
        hidden=(*project.hidden(job.hidden), f"/{FOLDER}/"),
    )
    return job, models


def test_command(project: Project, job: Job) -> TestCommand:
    """The test command of a job: a person's, the configuration's, or detected (G3-9); UsageError if there is none."""
    package = _package(project)
    if job.test:
        configured = job.test == tuple(shlex.split(project.config.contracts.test))
        return given(job.test, "contracts.test of orchestra.config.yaml" if configured else "--check", package)
    found = detect(project.workspace)
    if found is None:
        raise UsageError(_NO_TESTS)
    return found


def _package(project: Project) -> str:
    try:
        return read_bounded(project.workspace / "package.json", MIB).decode("utf-8", "replace")
    except (OSError, OddFile):
        return ""


def _refuse_command(project: Project, argv: tuple[str, ...], job: Job) -> None:
    ruling = decide(argv, project.policy, asker=job.asker)
    if ruling.decision != "allow":
        raise PolicyError(f"{shlex.join(argv)}: {ruling.reason} ({ruling.where}): nobody can be asked about the tests")


def _as_child(project: Project, job: Job, parent: Event) -> Job:
    """The test command of a child is a model's, unless it is the configuration's or detected."""
    own = {(), tuple(shlex.split(project.config.contracts.test))}
    return replace(job, asker="person" if job.test in own else "model")


def _facts(project: Project, job: Job) -> dict[str, Any]:
    return {"approval": job.approval, "policy": msgspec.to_builtins(project.policy), "asker": job.asker}


def _changed(project: Project, params: Mapping[str, Any], wishes: Mapping[str, Any]) -> dict[str, Any]:
    """What a person may change of a request that goes on: the approval mode. Its tests and limits are part of it."""
    if others := sorted(set(wishes) - {"approval"}):
        flags = {"checks": "--check", "maxFixIterations": "--max-fixes"}
        said = " and ".join(flags.get(name, name) for name in others)
        raise UsageError(f"{said}: of a contracts run only --approval can be changed while it goes on")
    return dict(wishes)


def _effects(running: Running) -> Handlers:
    children = usual_root(running.project)
    return {**Handling(running.project, children).handlers, **Proving(running.project, children).handlers}


def _needs_commands(params: Mapping[str, Any]) -> bool:
    return True


def _projections(project: Project, folder: RunFolder) -> tuple[Projection, ...]:
    return (ContractFiles(project.path, project_hash(project.path), project.disk),)


# -- reading ----------------------------------------------------------------------------------------------------------


def _outline(events: Iterable[Event]) -> Iterator[ShownLine]:
    yield from (ShownLine(line) for line in Progress.of(events).outline())


def _headline(event: Event) -> str:
    """One line for an event: which task or subtask, and what happened."""
    step = StepEvent.of(event)
    text = _said(event, step)
    return f"{step.target}: {text}" if text and step.target else text


def _said(event: Event, step: StepEvent) -> str:
    match effect_of(event):
        case "Now" | "LookUp" | "Edition" | "ReadTests" | "Keep" if event.type == "PHASE_COMPLETED":
            return _said_quietly(event, step)
        case "RunCommand" | "ReadCoverage" | "PlanFaults" if step.native == "prove":
            return ""  # what they showed is settled below
        case "TakeRequest" if (taken := outcome_as(event, Taken)) is not None:
            return f"request {taken.request}"
        case "Settle" if (settled := outcome_as(event, Settled)) is not None:
            return _settled(settled.value)
        case "ModelCall" if event.type == "PHASE_COMPLETED":
            return f"{step.native} written by {step.agent}" if step.agent else f"{step.native} written"
        case "ChildRun" if event.type == "PHASE_COMPLETED":
            what = "explored" if step.native == EXPLORE.native else f"implementation, attempt {step.round}"
            return f"{what}: {headline(event)}"
        case "WriteFile" if (seen := outcome_as(event, Seen)) is not None and event.type == "PHASE_COMPLETED":
            kept = f"; what it held could not be used, and is in {seen.replaced.path}" if seen.replaced else ""
            return short(f"{_name(seen.path)} written{kept}")
    text = headline(event)
    return f"{step.native}: {text}" if text and step.native in ("red", "baseline", "verify", "take-back") else text


def _said_quietly(event: Event, step: StepEvent) -> str:
    """The line for a step that gets one only if something noteworthy happened."""
    match effect_of(event), step.native:
        case "Edition", _ if not key_of(event).endswith("@1.1"):
            return headline(event)
        case "Keep", "retry":
            return "designed again" if "-" not in step.target else "its tests are written again"
        case "ReadTests", _ if (read := outcome_as(event, Runs)) and read.found:
            return f"{step.native}: {_run(read.found)}"
    return ""


def _run(run: TestRun) -> str:
    if run.summary is None:
        return f"exit code {run.exitCode}; its report could not be read" if run.unread else f"exit code {run.exitCode}"
    flaky = f", flaky: {', '.join(run.flaky)}" if run.flaky else ""
    return f"{run.summary.passed} passed, {run.summary.failed} failed, {run.summary.skipped} skipped{flaky}"


def _settled(value: Any) -> str:
    """What the flow recorded, in one line."""
    try:
        record: Recorded = msgspec.convert(value, Recorded)
    except msgspec.ValidationError:
        return ""
    match record:
        case Passing():
            return short(f"{record.gate} {record.status}: {record.why}")
        case Verified():
            found = record.result.recommendation
            return short(f"{found.action}: {found.reason}")
        case TaskEnded():
            return "complete"
        case Merged():
            wrong = [one for one in record.assumptions if one.verdict == "wrong"]
            again = "; the planner is called again, with the exploration" if record.replanned else ""
            return f"merged: {len(wrong)} of {count(len(record.assumptions), 'assumption')} wrong{again}"
        case Proved():
            return short("; ".join(record.lines))
        case Planned():
            return f"{'subtasks' if record.task else 'tasks'} {', '.join(record.order)}"


def _name(path: str) -> str:
    """A contract's file as people call it: from its request on."""
    return path.partition("/contracts/")[2] or path


def _report(run: Reported) -> Iterator[str]:
    yield from render(run, headline=_headline)
    progress = Progress.of(run.whole)
    yield from ("", "## Request", "", "```text", *map(clean, progress.outline()), "```")
    yield from ("", "## Tests", "", "| subtask | command | result | tests | flaky | tree |")
    yield "|---|---|---|---|---|---|"
    for subtask, results in results_of(progress):
        for one in results:
            found, tree = one.result, one.run.tree.removeprefix("sha256:")[:12]
            tests, flaky = f"{found.summary.passed} of {found.summary.total}", ", ".join(one.run.flaky)
            cells = (subtask, found.execution.command, found.recommendation.action, tests, flaky, tree)
            yield f"| {' | '.join(map(cell, cells))} |"


def _results(ended: Ended) -> Iterator[Hint]:
    progress = Progress.of(ended.events)
    if progress.request:
        place = Places(str(ended.params.get("projectHash", ""))).request(progress.request)
        yield Hint("the contracts", path=place)
        yield Hint("request, tasks, tests and changes", command=("trace", progress.request))
        yield Hint("is the tree what the specification says?", command=("verify", place))
    if any(event.type == "PATCH_APPLIED" for event in ended.events):
        yield Hint("what changed", command=("diff", ended.folder.id))


CONTRACTS = Workflow(
    name="contracts",
    params=Job,
    flow=contracts,
    goal=lambda job: str(job.request),
    table=TABLE,
    returns=Result,
    root=lambda project: project.runs_folder,  # D-06
    defaults=_defaults,
    prepare=prepare,
    reserved=frozenset({"asker", "projectHash", "runner", "testOrigin", "designCheck"}),
    as_child=_as_child,
    facts=_facts,
    agents=ROLES,
    effects=_effects,
    projections=_projections,
    approval=lambda config: config.contracts.approval,
    changed=_changed,
    needs_commands=_needs_commands,
    forks_open=False,
    verified=verified,
    headline=_headline,
    pace=lambda params: Progress().pace,
    outline=_outline,
    report=_report,
    results=_results,
    after_no=lambda params, subject: "goes back to its writer",
    title="a contracts run",
    start='orchestra contracts "REQUEST"',
    records={
        "contracts-job": (Job, "payload.params of a contracts run's RUN_CREATED"),
        "contracts-result": (Result, "payload.result of its RUN_COMPLETED"),
    },
)
