"""The agents of a task graph: S2's three levels, and the roles that models have. Their duties, messages and prompts.

Rules
1. Duties are those of the specification (S2-01 … S2-14). The fields of messages are read from the records, so they
   cannot differ.
2. The model of an agent is found in the same way as in a run (providers/choose.py): by agent, by role, by default.
3. Each configured value is shown with the line of its file.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from orchestra.config.sections import Config, at
from orchestra.config.yamlfile import Origins
from orchestra.core.errors import UsageError
from orchestra.providers.choose import Models, Providers
from orchestra.providers.offers import offer as described
from orchestra.workflows.dag.board import Component
from orchestra.workflows.dag.flow import PLAN_REJECTIONS
from orchestra.workflows.dag.planning import PLAN_REPAIRS
from orchestra.workflows.dag.shapes import Assignment, Plan, PlanRequest, TaskResult, system_text
from orchestra.workflows.need import ROUNDS

Keys = tuple[str, ...]


class Level(Struct, frozen=True):
    """One of the three levels, as the specification defines it, whatever the configuration."""

    name: Component
    title: str
    does: str
    duties: tuple[str, ...]
    agent: str = ""  # the agent whose model works for this level, with the role planner
    limits: tuple[tuple[str, Keys], ...] = ()  # its limits, each with its configuration key


_CALLS = (
    ("seconds for one model call", ("loop", "timeout_ms")),
    ("retries of a model call", ("retries", "max")),
    ("US dollars for the run", ("budget", "max_usd")),
)
LEVELS: dict[Component, Level] = {
    "L1": Level(
        "L1",
        "orchestrator",
        "takes the intent, applies the policy, has L2 plan, writes the report",
        (
            "reads the command line and the configuration",
            "applies security and resource policies",
            "creates the run folder and gathers the logs",
            "asks L2 for a plan and gathers the results",
            "writes the Markdown report; a model's summary is one section of it",
        ),
        "summarizer",
        (
            ("seconds for the whole run", ("policies", "max_total_duration_sec")),
            ("when a person is asked first", ("dag", "approval")),
            ("secrets are masked", ("security", "redact_secrets")),
            *_CALLS,
        ),
    ),
    "L2": Level(
        "L2",
        "coordinator",
        "plans the tasks and their order, hands each to L3",
        (
            "has a model break the intent down into a graph of tasks",
            "resolves dependencies: no circles, nothing unknown, an order",
            "gives each task to a worker the moment its last dependency is done",
            "plans once more what failed, if that is asked for (--replan)",
        ),
        "planner",
        (
            ("a new plan after a failure", ("dag", "replan")),
            *_CALLS,
        ),
    ),
    "L3": Level(
        "L3",
        "worker",
        "runs one whitelisted tool in the sandbox; no model",
        (
            "runs whitelisted tools and nothing else, never by a shell",
            "keeps what they print and hand over, with checksums",
            "tries again after a failure, waiting twice as long each time",
            "measures duration and exit code",
        ),
        limits=(
            ("seconds for one task", ("policies", "max_task_duration_sec")),
            ("retries of a task", ("retries", "max")),
            ("seconds before the first retry", ("retries", "backoff_base_sec")),
            ("workers at once", ("concurrency", "max_workers")),
            ("sandbox tier", ("sandbox", "tier")),
            ("most a task may do to files", ("policies", "default_fs_mode")),
            ("network at all", ("policies", "allow_network")),
            ("domains it may reach", ("security", "net", "allow_domains")),
            ("folders it may read", ("security", "fs", "allow_read")),
            ("folders it may write", ("security", "fs", "allow_write")),
            ("MiB of memory", ("sandbox", "memory_mb")),
            ("processes", ("sandbox", "processes")),
            ("MiB written", ("sandbox", "disk_mb")),
            ("variables of yours it sees", ("sandbox", "env")),
        ),
    ),
}
MESSAGES: tuple[tuple[str, str, str, type[Struct]], ...] = (  # from, to, its name in `orchestra schema`
    ("L1", "L2", "plan-request", PlanRequest),
    ("L2", "L1", "plan", Plan),
    ("L2", "L3", "assignment", Assignment),
    ("L3", "L2", "task-result", TaskResult),
)
CAST: dict[str, tuple[str, str]] = {  # name -> the role it is routed by, what it does
    "planner": ("planner", "plans: the steps of a loop, the tasks of a graph (for L2)"),
    "developer": ("developer", "writes a loop's patch"),
    "evaluator": ("evaluator", "judges whether a loop has reached its goal"),
    "fixer": ("fixer", "mends a loop's patch after a failed check or a rejection"),
    "asker": ("planner", "words a loop's question to a person"),
    "summarizer": ("planner", "sums up a graph for its report (for L1)"),
    "code-explore": ("planner", "writes down what an exploration found for a request"),
    "architect": ("planner", "designs a task of a request, and judges whether its design was kept"),
    "qa-engineer": ("planner", "writes a subtask's test contract and tests, and tells why a test fails"),
    "implementer": ("developer", "writes a subtask's code until its tests pass"),
    "worker": ("planner", "gathers evidence for a question: one command or one yes/no question at a time"),
    "main": ("planner", "plans the search for evidence, judges what was found, and answers"),
}
_OFFERED = {
    "claude_code": "the claude CLI is logged in",
    "openai_compat": "OPENAI_BASE_URL or OPENAI_API_KEY is set",
    "anthropic": "ANTHROPIC_API_KEY is set",
}


# -- what is told -----------------------------------------------------------------------------------------------------


class Answerer(Struct, frozen=True, kw_only=True):
    """The model of an agent or role, and why it was chosen."""

    agent: str
    role: str
    provider: str = ""  # empty: there is no provider
    model: str = ""
    why: str
    ready: bool = False
    state: str = ""


class Agent(Struct, frozen=True, kw_only=True):
    """One line of `orchestra agent ls`."""

    name: str
    kind: Literal["level", "role"]
    title: str = ""
    does: str
    answers: Answerer | None = None  # None: it uses no model
    tools: tuple[str, ...] = ()


class Told(Struct, frozen=True, kw_only=True):
    """A message between two levels; `fields` as in its record."""

    sender: str = msgspec.field(name="from")
    receiver: str = msgspec.field(name="to")
    record: str
    fields: str


class PromptText(Struct, frozen=True):
    """The prompt of a level's model: the configured text, and the fixed text before it."""

    key: str
    where: str
    text: str
    system: str


class Limit(Struct, frozen=True):
    """A limit of a level, and where it is configured."""

    what: str
    value: Any
    key: str
    where: str


class Inspected(Struct, frozen=True, kw_only=True):
    """`orchestra agent inspect`: one level in full."""

    name: str
    title: str
    does: str
    duties: tuple[str, ...]
    hears: tuple[Told, ...]
    says: tuple[Told, ...]
    answers: Answerer | None
    prompt: PromptText | None
    limits: tuple[Limit, ...]
    tools: dict[str, str | None] = {}  # whitelisted name -> program; None: not found
    sandbox: dict[str, Any] = {}


class Flags(NamedTuple):
    """The flags of the command line that choose models."""

    provider: str  # --provider, or its variable; empty: not said
    model: str
    roles: Mapping[str, str]


class Agents:
    """The agents of one project."""

    def __init__(self, config: Config, origins: Origins, providers: Providers, models: Models, flags: Flags) -> None:
        self._config = config
        self._origins = origins
        self._providers = providers
        self._models = models
        self._flags = flags

    def everyone(self, tools: tuple[str, ...]) -> Iterator[Agent]:
        """The levels, then the roles; `tools` are the tools that L3 may run."""
        for level in LEVELS.values():
            answers = self.answerer(level.agent, "planner") if level.agent else None
            mine = tools if level.name == "L3" else ()
            yield Agent(name=level.name, kind="level", title=level.title, does=level.does, answers=answers, tools=mine)
        for name, (role, does) in CAST.items():
            yield Agent(name=name, kind="role", does=does, answers=self.answerer(name, role))

    def inspect(self, level: Level) -> Inspected:
        """Everything about a level, except what depends on this machine."""
        messages = [(a, b, Told(sender=a, receiver=b, record=r, fields=shape(kind))) for a, b, r, kind in MESSAGES]
        return Inspected(
            name=level.name,
            title=level.title,
            does=level.does,
            duties=level.duties,
            hears=tuple(told for _, to, told in messages if to == level.name),
            says=tuple(told for sender, _, told in messages if sender == level.name),
            answers=self.answerer(level.agent, "planner") if level.agent else None,
            prompt=self._prompt(level.agent) if level.agent else None,
            limits=tuple(self._limits(level)),
        )

    def answerer(self, agent: str, role: str) -> Answerer:
        """The model of an agent, and why it was chosen (rule 2)."""
        spec, why = self._models.spec(agent, role), self._why(agent, role)
        if not spec:
            return Answerer(agent=agent, role=role, why=why, state="no model is configured; see: orchestra models")
        try:
            choice = self._providers.choice_for(self._models, agent, role)
        except UsageError as error:
            return Answerer(agent=agent, role=role, provider=spec, why=why, state=str(error))
        offer = described(self._providers, choice, choice.spec)
        return Answerer(
            agent=agent,
            role=role,
            provider=choice.spec,
            model=offer.model,
            why=f"{why}, {self._flags.model}" if self._flags.model and offer.model == self._models.model else why,
            ready=offer.ready,
            state=offer.state,
        )

    def _why(self, agent: str, role: str) -> str:
        for name in dict.fromkeys((agent, role)):
            if not self._models.roles.get(name):
                continue
            return f"--role {name}" if name in self._flags.roles else self._line("roles", name)
        if self._flags.provider:
            return self._flags.provider
        if "default" in self._config.providers:
            return self._line("providers", "default")
        return f"default: {_OFFERED.get(self._models.default, 'none is configured or offered')}"

    def _line(self, *keys: str) -> str:
        return f"{'.'.join(keys)}, {self._origins.where(*keys)}"

    def _prompt(self, agent: str) -> PromptText:
        keys = ("llm", "prompts", agent)
        return PromptText(".".join(keys), self._origins.where(*keys), at(self._config, keys), system_text(agent))

    def _limits(self, level: Level) -> Iterator[Limit]:
        for what, keys in level.limits:
            value = at(self._config, keys)
            shown = value / 1000 if keys[-1] == "timeout_ms" else value
            yield Limit(what, shown, ".".join(keys), self._origins.where(*keys))
        if level.name == "L2":
            yield Limit("new plans after a useless one", PLAN_REPAIRS, "", "built in")
            yield Limit("new plans after a person's no", PLAN_REJECTIONS, "", "built in")
            yield Limit("requests to see more files", ROUNDS, "", "built in")


def find_level(name: str) -> Level:
    """A level by its name or title, in upper or lower case; UsageError suggests the nearest for any other."""
    wanted = name.strip().casefold()
    for level in LEVELS.values():
        if wanted in (level.name.casefold(), level.title):
            return level
    names = [*LEVELS, *(level.title for level in LEVELS.values()), *CAST]
    if wanted in CAST:
        speaks = next((level.name for level in LEVELS.values() if level.agent == wanted), "")
        hint = f"it speaks for {speaks}: orchestra agent inspect {speaks}" if speaks else "it is a role of the loop"
        raise UsageError(f"{wanted} is a role, no level; {hint}. Who answers for it: orchestra agent ls")
    near = difflib.get_close_matches(wanted, [known.casefold() for known in names], n=1, cutoff=0.5)
    meant = next((known for known in names if near and known.casefold() == near[0]), "")
    hint = f"did you mean {meant}?" if meant else f"there are {', '.join(LEVELS)}"
    raise UsageError(f"there is no agent {name!r}; {hint} (orchestra agent ls)")


def shape(kind: type[Struct]) -> str:
    """A record's fields, and those of the records in it, as one line (rule 1)."""
    parts: list[str] = []
    for name, hint in get_type_hints(kind).items():
        inner = next(
            (part for part in (hint, *get_args(hint)) if isinstance(part, type) and issubclass(part, Struct)), None
        )
        if inner is None:
            parts.append(name)
        else:
            parts.append(f"{name} [{{{shape(inner)}}}]" if get_origin(hint) is tuple else f"{name} {{{shape(inner)}}}")
    return ", ".join(parts)
