"""The sections of orchestra.config.yaml, each a frozen struct with its defaults. Data only.

S2's keys are as S2 has them; `providers`, `roles`, `loop`, `dag`, `evidence`, `contracts`, `team`, `context`,
`workflows`, `sandbox`, `environment`, `tools`, `rules` and `budget` are ours. Unknown keys are refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct, field

from orchestra.policy.policy import Decision, Tier

Count = Annotated[int, Meta(ge=0, le=1000)]
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Patience = Annotated[float, Meta(gt=0, le=86_400)]
Dollars = Annotated[float, Meta(ge=0, le=1e9)]
Mebibytes = Annotated[int, Meta(ge=1, le=1 << 24)]
Port = Annotated[int, Meta(ge=1, le=65_535)]
Words = str | tuple[str, ...]
RUN_ID = "{run_id}"


class _Section(Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all sections: unknown keys are refused."""


class Policies(_Section, frozen=True):
    allow_network: bool = False
    default_fs_mode: Literal["read-only", "rw"] = "read-only"
    max_task_duration_sec: Positive = 300
    max_total_duration_sec: Positive = 1800


class Prompts(_Section, frozen=True):
    planner: str = (
        "You are L2 Coordinator. Given this task:\n{intent}\n\nConstraints: {constraints}\n\n"
        "Produce a JSON array of sub-tasks with dependencies. Each task must:\n- have unique task_id\n"
        "- specify tools from whitelist: {whitelist_tools}\n- declare dependencies (parent_id or depends_on[])\n\n"
        "Output only valid JSON, no explanation.\n"
    )
    summarizer: str = (
        "You are L1 Orchestrator. Summarize this run:\nTasks: {tasks_summary}\nArtifacts: {artifacts_list}\n\n"
        "Produce a concise Markdown report.\n"
    )


class Llm(_Section, frozen=True):
    backend: Literal["claude_code"] = "claude_code"  # S2-53
    model: str = "claude-sonnet-4-5-20250929"
    prompts: Prompts = Prompts()


class Retries(_Section, frozen=True):
    max: Count = 2
    backoff_base_sec: Seconds = 2


class Concurrency(_Section, frozen=True):
    max_workers: Positive = 4


class Paths(_Section, frozen=True):
    runs: str = "./runs"
    logs: str = "./runs/{run_id}/tasks.jsonl"
    artifacts: str = "./runs/{run_id}/artifacts"
    report: str = "./runs/{run_id}/report.md"


class FsRules(_Section, frozen=True):
    allow_read: tuple[str, ...] = ("./", "/tmp")
    allow_write: tuple[str, ...] = ("./runs",)


class NetRules(_Section, frozen=True):
    allow_domains: tuple[str, ...] = ()


class Security(_Section, frozen=True):
    fs: FsRules = FsRules()
    net: NetRules = NetRules()
    redact_secrets: bool = True


class Telemetry(_Section, frozen=True):
    level: Literal["debug", "info", "warn", "error"] = "info"
    format: Literal["jsonl"] = "jsonl"
    trace_id_header: str = "X-Orchestra-Trace-ID"


class ModelPrice(_Section, frozen=True):
    """US dollars per million tokens."""

    input: Dollars = 0.0
    output: Dollars = 0.0
    cache_read: Dollars | None = None  # the input's, if not given
    cache_write: Dollars | None = None


Kind = Literal["claude_code", "openai_compat", "anthropic", "local", "scripted", "replay"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class ProviderSection(_Section, frozen=True):
    """A model's server or program, by a name of yours."""

    kind: Kind | None = None  # without it the entry's name is the kind
    model: str = ""
    base_url: str = ""
    key_env: str = ""  # the variable that holds the key
    file: str = ""  # scripted: the replies; local: a GGUF file
    program: str = ""  # claude_code: the CLI's name or path
    context_tokens: Positive | None = None
    max_output_tokens: Positive | None = None
    connect_sec: Patience = 10
    first_byte_sec: Patience = 120
    idle_sec: Patience = 60
    constrain: bool = False  # openai_compat: the server takes `response_format` with a JSON Schema
    think_bypass: bool = False  # openai_compat: begin every reply with an empty think block
    thinking_switch: bool = False  # openai_compat: the server takes `enable_thinking`; false where it is bypassed
    extra: dict[str, Any] = field(default_factory=dict)  # openai_compat: merged into every request


_CLOCKS = ("first_byte_sec", "idle_sec")
_TOKENS = ("model", "context_tokens", "max_output_tokens")
_SERVER = ("base_url", "key_env", "connect_sec", *_CLOCKS, *_TOKENS)
KEYS: dict[Kind, tuple[str, ...]] = {  # what an entry of each kind may say, besides `kind`
    "claude_code": ("program", *_CLOCKS, *_TOKENS),
    "openai_compat": (*_SERVER, "constrain", "think_bypass", "thinking_switch", "extra"),
    "anthropic": _SERVER,
    "local": ("file", *_CLOCKS, *_TOKENS),
    "scripted": ("file", "model"),
    "replay": (),
}


class LoopSection(_Section, frozen=True):
    """Defaults of `orchestra loop`."""

    approval: Literal["always", "risk", "never"] = "always"
    checks: tuple[str, ...] = ()
    max_fix_iterations: Count = 3
    baseline: bool = True  # run the checks once before the plan
    evaluator: bool = True
    timeout_ms: Positive = 600_000
    check_timeout_ms: Positive = 300_000


class ContextSection(_Section, frozen=True):
    """What models are shown of the project."""

    bytes: Positive = 200_000  # of files in a prompt at most; the model's own context limits it too
    show: tuple[str, ...] = ()  # files that are always shown; never a secret by its name
    hide: tuple[str, ...] = ()  # globs as in .gitignore: neither shown nor listed
    rules: bool = True  # AGENTS.md, else CLAUDE.md, of each folder is told to every model


class Budget(_Section, frozen=True):
    """What a run, with the runs below it, may cost and how long it may work; and what tokens cost."""

    max_usd: Dollars | None = None
    max_sec: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    prices: dict[str, ModelPrice] = field(default_factory=dict)


class SandboxSection(_Section, frozen=True):
    """How tools are contained, and what one command may use."""

    tier: Tier = "strict"
    run_as: Annotated[int, Meta(ge=1, le=(1 << 32) - 2)] | None = None  # a uid, if orchestra runs as root
    memory_mb: Mebibytes = 2048
    processes: Annotated[int, Meta(ge=1, le=1 << 22)] = 256
    file_mb: Mebibytes = 1024
    disk_mb: Mebibytes = 2048
    tmp_mb: Mebibytes = 512
    loopback: Annotated[tuple[Port, ...], Meta(max_length=16)] = ()  # services of this machine that commands may reach
    env: tuple[str, ...] = ()  # the person's variables that commands see, and no others (S2-136)


class RuleSection(_Section, frozen=True):
    """A rule about commands that begin with the same words."""

    prefix: tuple[Words, ...]
    decision: Decision
    reason: str = ""
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()


class DagSection(_Section, frozen=True):
    """Defaults of `orchestra dag`."""

    approval: Literal["always", "risk", "never"] = "risk"
    replan: bool = False


class EvidenceAgent(_Section, frozen=True):
    """An agent of the evidence loop: who gathers, who decides, and for how long."""

    mode: Literal["main-worker", "single-main"] = "main-worker"
    main: str = ""  # PROVIDER[:ARG]; empty: as `roles` and `providers` say
    worker: str = ""
    max_steps: Annotated[int, Meta(ge=1, le=1000)] = 12
    stream: bool = True


class EvidenceSection(_Section, frozen=True):
    """The evidence loop: `agent:run`, `chat:turn`."""

    tools: tuple[str, ...] = (
        *("grep", "rg", "find", "ls", "cat", "head", "tail", "wc", "sort", "uniq", "cut", "sed", "diff", "stat"),
        *("file", "echo"),
    )  # programs that its worker may start besides whitelist_tools
    agents: dict[str, EvidenceAgent] = field(default_factory=dict)  # besides `default`, which always exists


class TeamSection(_Section, frozen=True):
    """Where the definitions of teams are: folders and a file inside the project."""

    orchestrators: str = "./orchestrators"  # teams
    agents: str = "./agents"  # and then .claude/agents
    tasks: str = "./tasks"
    rules: str = "./orchestrator.md"  # common rules for every agent, if the file is there


class ContractsSection(_Section, frozen=True):
    """Contract-driven development: `orchestra contracts`."""

    test: str = ""  # the test command; empty: detected
    approval: Literal["always", "risk", "never"] = "always"
    max_implementations: Count = 3  # retries of an implementation, per subtask
    max_designs: Count = 2  # retries of a design, per task
    reruns: Annotated[int, Meta(ge=0, le=5)] = 1  # of failing tests on the same files, to find flaky ones
    design_check: str = ""  # a command that judges whether the design is kept; empty: the architect does
    mutants: Annotated[int, Meta(ge=0, le=20)] = 5  # small faults per subtask that the tests should notice


class Config(_Section, frozen=True):
    """The whole file."""

    version: Literal["1.0"] = "1.0"
    policies: Policies = Policies()
    whitelist_tools: tuple[str, ...] = ("echo", "ls", "cat", "node", "python", "poetry", "pnpm", "git")
    llm: Llm = Llm()
    retries: Retries = Retries()
    concurrency: Concurrency = Concurrency()
    paths: Paths = Paths()
    security: Security = Security()
    telemetry: Telemetry = Telemetry()
    providers: dict[str, str | ProviderSection] = field(default_factory=dict)  # `default` is used for all roles
    roles: dict[str, str] = field(default_factory=dict)  # role or agent -> PROVIDER[:ARG], or a name from `providers`
    loop: LoopSection = LoopSection()
    dag: DagSection = DagSection()
    evidence: EvidenceSection = EvidenceSection()
    contracts: ContractsSection = ContractsSection()
    team: TeamSection = TeamSection()
    context: ContextSection = ContextSection()
    workflows: dict[str, str] = field(default_factory=dict)  # your own: name -> "file.py:function"
    notify: tuple[str, ...] = ()  # your command for when a run waits for you or has ended, as argv
    sandbox: SandboxSection = SandboxSection()
    environment: str = ""  # the virtual environment that commands use, or `none`; empty: found in the project
    tools: dict[str, str] = field(default_factory=dict)  # name -> program, also one inside the workspace
    rules: tuple[RuleSection, ...] = ()
    budget: Budget = Budget()


def at(config: Config, keys: tuple[str, ...]) -> Any:
    """The value at a key path."""
    found: Any = config
    for key in keys:
        found = getattr(found, key)
    return found


def alternatives(part: Words) -> tuple[str, ...]:
    """A word of a rule's prefix, and its alternatives."""
    return (part,) if isinstance(part, str) else part
