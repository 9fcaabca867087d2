"""The description of contract-driven development (S3)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from orchestra.core.context import Handlers
from orchestra.core.errors import PolicyError, UsageError
from orchestra.core.names import CONTRACTS as FOLDER
from orchestra.core.projections import Projection
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.policy.decide import decide
from orchestra.providers.choose import Models
from orchestra.providers.contract import Serves
from orchestra.workflows.contracts.effects import Handling
from orchestra.workflows.contracts.files import ContractFiles
from orchestra.workflows.contracts.flow import Result, contracts
from orchestra.workflows.contracts.places import project_hash
from orchestra.workflows.contracts.shapes import JUDGE_DESIGN, ROLES, Job
from orchestra.workflows.contracts.states import TABLE
from orchestra.workflows.contracts.testcommand import TestCommand, detect, given
from orchestra.workflows.contracts.verifying import verified
from orchestra.workflows.description import Running, Workflow, usual_root
from orchestra.workflows.project import Project

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
    path = project.workspace / "package.json"
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
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


def _effects(running: Running) -> Handlers:
    return Handling(running.project, usual_root(running.project)).handlers


def _needs_commands(params: Mapping[str, Any]) -> bool:
    return True


def _projections(project: Project, folder: RunFolder) -> tuple[Projection, ...]:
    return (ContractFiles(project.path, project.workspace, project_hash(project.path), project.disk),)


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
    needs_commands=_needs_commands,
    forks_open=False,
    verified=verified,
    title="a contracts run",
    start='orchestra contracts "REQUEST"',
    records={
        "contracts-job": (Job, "payload.params of a contracts run's RUN_CREATED"),
        "contracts-result": (Result, "payload.result of its RUN_COMPLETED"),
    },
)
