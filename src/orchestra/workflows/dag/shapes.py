"""The records and texts of a task graph: the job, S2's messages between the three levels, the prompts. Pure.

    L1 orchestrator ── PlanRequest ──▶ L2 coordinator ── Assignment ──▶ L3 worker
                    ◀── Plan ─────────               ◀── TaskResult ──

Field names are S2's own (snake_case), so a record is its JSON. `plan.py` reads what a planner wrote into a `Plan`.
Records that exist for every task are never in a reference cycle, so the garbage collector skips them (`gc=False`).
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from typing import Any, Literal

import msgspec
from msgspec import Struct

from orchestra.core.command import Asker, InputFile
from orchestra.core.model import Prompt
from orchestra.policy.policy import ApprovalPolicy, Policy

FsMode = Literal["read-only", "rw"]
NetMode = Literal["allow", "deny"]
TaskState = Literal["planned", "running", "blocked", "done", "failed"]  # S2-28
LogLevel = Literal["info", "warn", "error"]  # S2-31
EDITION = 2  # the planner may ask to see more


# -- what a task is ---------------------------------------------------------------------------------------------------


class Inputs(Struct, frozen=True, gc=False):
    """The inputs of a tool (S2-19 … S2-21)."""

    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    files: tuple[InputFile, ...] = ()


class SandboxMode(Struct, frozen=True, gc=False):
    """S2-26, S2-27."""

    fs: FsMode = "read-only"
    net: NetMode = "deny"


class Constraints(Struct, frozen=True, gc=False):
    """The limits of one task, never looser than the policy (S2-23 … S2-27, S2-113)."""

    max_duration_sec: float
    max_retries: int
    concurrency: int = 1
    sandbox: SandboxMode = SandboxMode()


class PlannedTask(Struct, frozen=True, gc=False):
    """One task of a plan (S2-97 … S2-100). `task_id` is UUIDv5(run, label), so a replay gives the same (C-03)."""

    task_id: str
    label: str  # the planner's name for the task: used in file names and reports
    intent: str
    tools: tuple[str, ...]
    depends_on: tuple[str, ...]
    inputs: Inputs
    constraints: Constraints


# -- the messages -----------------------------------------------------------------------------------------------------


class RequestConstraints(Struct, frozen=True):
    max_duration_sec: float
    whitelist_tools: tuple[str, ...]


class PlanRequest(Struct, frozen=True):
    """L1 → L2 (S2-90 … S2-94)."""

    intent: str
    constraints: RequestConstraints
    config: dict[str, Any]  # the sections `llm` and `policies` as configured


class Dag(Struct, frozen=True):
    """The graph by ids; an edge is [dependency, dependent] (S2-101 … S2-104)."""

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]


class Plan(Struct, frozen=True):
    """L2 → L1 (S2-95 … S2-104); plan.json."""

    plan_id: str
    tasks: tuple[PlannedTask, ...]
    dag: Dag
    warnings: tuple[str, ...] = ()  # repairs that were made on reading


class Assignment(Struct, frozen=True, gc=False):
    """L2 → L3 (S2-107 … S2-111)."""

    task_id: str
    tools: tuple[str, ...]
    inputs: Inputs
    constraints: Constraints


class TaskArtifact(Struct, frozen=True, gc=False):
    """S2-34 … S2-36. The path is relative to the run's folder; the checksum is `sha256:<hex>` (G2-8)."""

    path: str
    size_bytes: int
    checksum: str


class TaskLog(Struct, frozen=True, gc=False):
    """S2-30 … S2-33."""

    timestamp: str
    level: LogLevel
    message: str
    payload: dict[str, Any] = {}


class TaskMetrics(Struct, frozen=True, gc=False):
    """S2-37 … S2-39."""

    duration_ms: int = 0
    exit_code: int | None = None
    tokens_used: int | None = None


class TaskResult(Struct, frozen=True, gc=False):
    """L3 → L2 (S2-114 … S2-119)."""

    task_id: str
    state: Literal["done", "failed"]
    logs: tuple[TaskLog, ...]
    artifacts: tuple[TaskArtifact, ...]
    metrics: TaskMetrics


class Timestamps(Struct, frozen=True, gc=False):
    """S2-40 … S2-42."""

    created_at: str
    started_at: str | None = None
    completed_at: str | None = None


class Task(Struct, frozen=True, gc=False):
    """S2's task record, as tasks.jsonl shows it (S2-15 … S2-42)."""

    task_id: str
    parent_id: str | None
    level: Literal[1, 2, 3]
    intent: str
    inputs: Inputs
    tools: tuple[str, ...]
    constraints: Constraints
    state: TaskState
    timestamps: Timestamps
    label: str
    depends_on: tuple[str, ...] = ()  # our addition; only in the first line of a task
    retries: int = 0
    logs: tuple[TaskLog, ...] = ()
    artifacts: tuple[TaskArtifact, ...] = ()
    metrics: TaskMetrics = TaskMetrics()
    policy: str = ""  # digest of the policy it ran under


# -- the job ----------------------------------------------------------------------------------------------------------


class Job(Struct, frozen=True, kw_only=True):
    """A task graph's parameters, frozen in RUN_CREATED."""

    intent: str
    policy: Policy
    prompts: dict[str, str]  # `planner` and `summarizer`, from the configuration (S2-55, S2-62)
    config: dict[str, Any]  # for the L1 → L2 message: `llm`, `policies`
    plan: str | None = None  # a person's own plan, as text; None: the planner makes one
    asker: Asker = "model"  # a person's own commands (`tool run`) need no whitelist and no approval
    approval: ApprovalPolicy = "risk"
    planOnly: bool = False
    dry: bool = False
    replan: bool = False
    summarizer: bool = True
    maxWorkers: int = 4  # S2-68
    retries: int = 2  # S2-65
    backoffSec: float = 2.0  # S2-66
    timeoutMs: int = 600_000  # of one model call
    # files a person opened, `path` or `path:A-B`: shown to every model of the run, even if they look like secrets
    context: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()  # globs of files that no model of the run is shown
    source: str = "the plan"  # the name of the person's plan in messages
    edition: int = 1  # of the planner's prompt: runs of an older edition keep theirs, so that they can go on (EDITION)


# -- prompts ----------------------------------------------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def fill(template: str, values: dict[str, str]) -> str:
    """Fill a prompt's placeholders in one pass, so that braces in a value stay unchanged (S2-56, S2-63)."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)


def system_text(agent: str, edition: int = EDITION) -> str:
    """The system text of the planner or the summarizer."""
    parts = ("planner", "need") if agent == "planner" and edition >= 2 else (agent,)
    return "".join(map(_template, parts))


@functools.cache
def _template(name: str) -> str:
    return importlib.resources.files(__package__).joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")


def plan_request(job: Job) -> PlanRequest:
    """The L1 → L2 message of this job."""
    limits = RequestConstraints(job.policy.max_total_sec, job.policy.whitelist)
    return PlanRequest(job.intent, limits, job.config)


def planner_prompt(job: Job) -> Prompt:
    """The configured planner prompt, filled in. The system text defines the form of a task (S2-55 … S2-61)."""
    request = plan_request(job)
    values = {
        "intent": job.intent,
        "constraints": msgspec.json.encode(request.constraints).decode(),
        "whitelist_tools": ", ".join(job.policy.whitelist),
    }
    return Prompt(system=system_text("planner", job.edition), user=fill(job.prompts["planner"], values))


def plan_schema(job: Job) -> dict[str, Any]:
    """A JSON Schema for plans, for providers that can enforce one (S2-57 … S2-61). plan.py checks the reply anyway.

    Every text and list has a maximal length, because a small model that must follow a schema may never end one.
    """
    name = {"type": "string", "pattern": "^[a-z][a-z0-9-]{0,30}$"}
    task = {
        "task_id": name,
        "intent": {"type": "string", "maxLength": 200},
        "tools": {"type": "array", "items": {"enum": list(job.policy.whitelist)}, "minItems": 1, "maxItems": 1},
        "depends_on": {"type": "array", "items": name, "maxItems": 8},
        "inputs": {
            "type": "object",
            "properties": {"args": {"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 8}},
            "required": ["args"],
            "additionalProperties": False,
        },
    }
    item = {"type": "object", "properties": task, "required": list(task), "additionalProperties": False}
    return {"type": "array", "items": item, "minItems": 1, "maxItems": 12}


def summarizer_prompt(job: Job, tasks: str, artifacts: str) -> Prompt:
    """The configured summarizer prompt, filled in (S2-62, S2-63)."""
    return Prompt(
        system=system_text("summarizer"),
        user=fill(job.prompts["summarizer"], {"tasks_summary": tasks, "artifacts_list": artifacts}),
    )
