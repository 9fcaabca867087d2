"""orchestra.config.yaml -> one frozen tree, and the policy it amounts to. S2's keys exactly, and our own sections.

Rules
1. Every key has a default, so no file is needed; the defaults are S2's.
2. A wrong type or an unknown key is refused with file, line, key path and the nearest known key (G2-9). All mistakes of
   the file are named at once.
3. Relative paths are relative to the folder of the file (G2-10).
4. Secrets are never in this file: a provider names the environment variable that holds its key.
5. What it opens to tools is judged when it is read, not when a tool runs: folders (borders.py), domains, tool names.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct, field

from orchestra.config.borders import Place, wrong_nesting, wrong_read, wrong_runs, wrong_target, wrong_write
from orchestra.config.yamlfile import Mistake, Origins, read_yaml
from orchestra.core.domains import parse_entry
from orchestra.core.errors import PolicyError, UsageError
from orchestra.policy.decide import Bounds, Decision, Example, Layer, Policy, Rule, Tier, within, wrong_tool_name
from orchestra.policy.inputs import wrong_variable

FILE_NAME = "orchestra.config.yaml"


Count = Annotated[int, Meta(ge=0, le=1000)]
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Patience = Annotated[float, Meta(gt=0, le=86_400)]
Dollars = Annotated[float, Meta(ge=0, le=1e9)]
Mebibytes = Annotated[int, Meta(ge=1, le=1 << 24)]
Words = str | tuple[str, ...]
RUN_ID = "{run_id}"
_RESERVED: tuple[str, ...] = (
    "host",
    "authorization",
    "proxy-",
    "x-api-key",
    "api-key",
    "cookie",
    "content-",
    "transfer-",
    "connection",
)
_RESERVED += ("accept", "te", "trailer", "upgrade", "expect", "idempotency-key", "anthropic-", "openai-", "user-agent")
_HEADER = r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}"  # RFC 9110, "token"


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

    kind: Kind | None = None  # what its name says, if that is a kind
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
    extra: dict[str, Any] = field(default_factory=dict)  # openai_compat: merged into every request


_CLOCKS = ("first_byte_sec", "idle_sec")
_TOKENS = ("model", "context_tokens", "max_output_tokens")
_SERVER = ("base_url", "key_env", "connect_sec", *_CLOCKS, *_TOKENS)
KEYS: dict[Kind, tuple[str, ...]] = {  # what an entry of each kind may say, besides `kind`
    "claude_code": ("program", *_CLOCKS, *_TOKENS),
    "openai_compat": (*_SERVER, "constrain", "think_bypass", "extra"),
    "anthropic": _SERVER,
    "local": ("file", *_CLOCKS, *_TOKENS),
    "scripted": ("file", "model"),
    "replay": (),
}
_OURS = ("model", "messages", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens")


class LoopSection(_Section, frozen=True):
    """Defaults of `orchestra loop`."""

    approval: Literal["always", "risk", "never"] = "always"
    checks: tuple[str, ...] = ()
    max_fix_iterations: Count = 3
    evaluator: bool = True
    timeout_ms: Positive = 600_000
    check_timeout_ms: Positive = 300_000


class Budget(_Section, frozen=True):
    """What a run may cost, and what tokens cost."""

    max_usd: Dollars | None = None
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
    env: tuple[str, ...] = ()  # variables of the person's that commands see; none else are there (S2-136)


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
    sandbox: SandboxSection = SandboxSection()
    tools: dict[str, str] = field(default_factory=dict)  # name -> program, also one inside the workspace
    rules: tuple[RuleSection, ...] = ()
    budget: Budget = Budget()


def at(config: Config, keys: tuple[str, ...]) -> Any:
    """What it says at a key path."""
    found: Any = config
    for key in keys:
        found = getattr(found, key)
    return found


# -- reading ----------------------------------------------------------------------------------------------------------


class Loaded(Struct, frozen=True):
    """A configuration with where it was read."""

    config: Config
    origins: Origins


def find_config(project: Path) -> Path | None:
    """The project's configuration file, if it has one. One that is there and no file is refused, never passed over."""
    path = project / FILE_NAME
    if not os.path.lexists(path):
        return None
    if path.is_file():
        return path
    where = f" leads to {os.readlink(path)}, which" if path.is_symlink() else ""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise UsageError(f"{path}{where} cannot be read: {error.strerror}. Mend the link, or remove it") from error
    kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
    raise UsageError(f"{path}{where} is {kind}; put a file there (orchestra init writes one), or remove it")


def read_config(path: Path | None, environ: Mapping[str, str] = os.environ) -> Loaded:
    """Read a configuration, with the line of each key; None is all defaults."""
    if path is None:
        return Loaded(Config(), Origins())
    config, origins, mistakes = read_yaml(path, Config)
    # From the folder in which the file is found, also if it is a link: paths are opened from there (rule 3).
    place = Place.of(path.absolute().parent, config.paths.runs, environ)
    told = {mistake.places for mistake in mistakes}
    refuse(path, origins, judged(config, place, told), mistakes)
    return Loaded(config, origins)


def read_own_config(path: Path, environ: Mapping[str, str] = os.environ) -> Loaded:
    """A person's own file: the same keys, read to see what the person agrees to everywhere (config/consent.py).

    What it names lies outside any project, so no folder of it is judged here; the project's own lines are.
    """
    config, origins, mistakes = read_yaml(path, Config)
    refuse(path, origins, (), mistakes)
    return Loaded(config, origins)


Judgement = tuple[tuple[str | int, ...], str]  # key path, what is wrong


def refuse(
    path: Path,
    origins: Origins,
    wrong: Iterable[Judgement],
    mistakes: Iterable[Mistake] = (),
    kind: type[UsageError | PolicyError] = UsageError,
) -> None:
    """An error with every mistake of the file, each with its line; nothing if there is none."""
    lines = [(origins.line(*keys), f"`{'.'.join(origins.places(*keys))}`: {text}") for keys, text in wrong]
    if found := sorted([*lines, *((mistake.line, mistake.text) for mistake in mistakes)]):
        raise kind("\n".join(f"{path}:{line}: {text}" for line, text in found))


def judged(config: Config, place: Place, told: Set[tuple[str, ...]] = frozenset()) -> Iterator[Judgement]:
    """What is of the right type and still wrong (rule 5); not what follows from what was told already."""
    yield from _each(config.whitelist_tools, wrong_tool_name, "whitelist_tools")
    fs = config.security.fs
    if not fs.allow_read:
        yield ("security", "fs", "allow_read"), 'tools would see nothing; write ["./"] for the workspace'
    yield from _each(fs.allow_read, lambda entry: wrong_read(entry, place), "security", "fs", "allow_read")
    yield from _each(fs.allow_write, lambda entry: wrong_write(entry, place), "security", "fs", "allow_write")
    writes = [entry for entry in fs.allow_write if not wrong_write(entry, place)]
    for key, entries in (("allow_read", fs.allow_read), ("allow_write", fs.allow_write)):
        yield from _each(entries, lambda entry: wrong_nesting(entry, writes, place), "security", "fs", key)
    yield from _each(config.security.net.allow_domains, _wrong_domain, "security", "net", "allow_domains")
    if wrong := wrong_runs(config.paths.runs, place):
        yield ("paths", "runs"), wrong
    yield from _placeholders(config.paths, place)
    for name, target in config.tools.items():
        if wrong := wrong_tool_name(name) or wrong_target(target, place) or wrong_nesting(target, writes, place):
            yield ("tools", name), wrong
    for name, entry in config.providers.items():
        kindless = ("providers", name, "kind") in told  # what else its keys mean, nobody can say
        if isinstance(entry, ProviderSection) and not kindless and (wrong := _wrong_provider(name, entry)):
            yield ("providers", name), wrong
    yield from _each(config.sandbox.env, wrong_variable, "sandbox", "env")
    if not re.fullmatch(_HEADER, config.telemetry.trace_id_header):
        yield ("telemetry", "trace_id_header"), "it is no name of an HTTP header: letters, digits and - only"
    elif config.telemetry.trace_id_header.lower().startswith(_RESERVED):
        yield ("telemetry", "trace_id_header"), "this header has a meaning of its own; choose another name"
    for index, rule in enumerate(config.rules):
        if wrong := _wrong_rule(rule):
            yield ("rules", index), wrong


def _each(entries: tuple[str, ...], wrong: Callable[[str], str], *keys: str) -> Iterator[Judgement]:
    for index, entry in enumerate(entries):
        if why := wrong(entry):
            yield (*keys, index), why if repr(entry) in why else f"{entry!r}: {why}"


def _wrong_domain(entry: str) -> str:
    try:
        parse_entry(entry)
    except ValueError as error:
        return str(error)
    return ""


def _placeholders(paths: Paths, place: Place) -> Iterator[Judgement]:
    """S2-73: {run_id} in the three paths of a run, and no other; not in the folder of all runs."""
    for name in ("runs", "logs", "artifacts", "report"):
        text: str = getattr(paths, name)
        unknown = [mark for mark in re.findall(r"\{[^}]*\}?|\}", text) if mark != RUN_ID]
        if unknown:
            yield ("paths", name), f"{text!r}: there is no placeholder {unknown[0]}; there is {RUN_ID}"
        elif name == "runs" and RUN_ID in text:
            yield ("paths", name), f"{text!r} is the folder of all runs: take {RUN_ID} out"
        elif name != "runs" and RUN_ID not in text:
            yield ("paths", name), f"{text!r}: {RUN_ID} is missing, so each run would overwrite the last"
        elif name != "runs" and not any(within(place.real(text), folder) for folder in (place.base, place.runs)):
            yield (
                ("paths", name),
                f"{text!r}: name a place in this folder or where runs are kept, e.g. ./runs/{RUN_ID}/…",
            )


def _wrong_provider(name: str, entry: ProviderSection) -> str:
    if ":" in name:
        return "a name cannot hold a colon: what follows one is a model"
    if entry.kind is None and name not in KINDS:
        return f"`kind` is missing; it is one of {', '.join(KINDS)}"
    kind = entry.kind or name
    empty = ProviderSection()
    said = [key for key in ProviderSection.__struct_fields__ if getattr(entry, key) != getattr(empty, key)]
    if unused := [key for key in said if key not in ("kind", *KEYS[kind])]:  # type: ignore[index]  # it is one
        return f"`{unused[0]}` means nothing to {kind}; it has {', '.join(KEYS[kind]) or 'no keys'}"  # type: ignore[index]
    if taken := [key for key in entry.extra if key in _OURS]:
        return f"`extra.{taken[0]}` is orchestra's to say" + ("; use max_output_tokens" if "max" in taken[0] else "")
    return _wrong_variable(entry.key_env) if entry.key_env else ""


def _wrong_variable(name: str) -> str:
    if name.startswith("ORCHESTRA_"):
        return f"`key_env`: {name} is orchestra's own, and no server's"
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return ""
    return "`key_env` is the name of an environment variable, never the key itself"


def _wrong_rule(rule: RuleSection) -> str:
    words = [_alternatives(part) for part in rule.prefix]
    if not words or not all(words):
        return "`prefix` is empty; write the first words of the command, e.g. [git, push]"
    for name in words[0]:
        if wrong := wrong_tool_name(name):
            return f"`prefix`: {wrong}"
    if "" in (word for part in words for word in part):
        return "`prefix` has an empty word"
    for example in (*rule.match, *rule.not_match):
        try:
            if not shlex.split(example):
                return "an example is empty"
        except ValueError as error:
            return f"the example {example!r} cannot be split into words: {error}"
    return ""


def _alternatives(part: Words) -> tuple[str, ...]:
    return (part,) if isinstance(part, str) else part


def to_yaml(config: Config) -> str:
    """The whole configuration as a file would say it."""
    import yaml

    return yaml.safe_dump(msgspec.to_builtins(config), allow_unicode=True, sort_keys=False)


# -- what it amounts to -----------------------------------------------------------------------------------------------


def run_path(template: str, run_id: str, base: Path) -> Path:
    """One of `paths`, for a run (S2-73)."""
    return base / template.replace(RUN_ID, run_id)


def policy_of(config: Config, base: Path, origins: Origins, environ: Mapping[str, str] = os.environ) -> Policy:
    """The policy a configuration amounts to. Its folders are real paths; see `Policy` for those always there."""
    place = Place.of(base, config.paths.runs, environ)
    policies, fs, sandbox = config.policies, config.security.fs, config.sandbox
    writes = (entry for entry in fs.allow_write if not place.private(entry) and not place.narrowed(entry))
    return Policy(
        layers=(
            Layer(
                whitelist=config.whitelist_tools,
                rules=tuple(_rule(rule, index, origins) for index, rule in enumerate(config.rules)),
                where=origins.where("whitelist_tools"),
            ),
        ),
        fs=policies.default_fs_mode,
        # G2-11: both are needed
        domains=tuple(map(parse_entry, config.security.net.allow_domains)) if policies.allow_network else (),
        reads=tuple(place.real(entry) for entry in fs.allow_read if not place.private(entry)),
        writes=tuple(map(place.real, writes)),
        bounds=Bounds(**{name: getattr(sandbox, name) for name in Bounds.__struct_fields__}),
        max_task_sec=policies.max_task_duration_sec,
        max_total_sec=policies.max_total_duration_sec,
        max_retries=config.retries.max,
        max_workers=config.concurrency.max_workers,
        tier=sandbox.tier,
    )


def _rule(rule: RuleSection, index: int, origins: Origins) -> Rule:
    def examples(name: str, texts: tuple[str, ...]) -> tuple[Example, ...]:
        return tuple(Example(text, origins.where("rules", index, name, at)) for at, text in enumerate(texts))

    return Rule(
        prefix=tuple(map(_alternatives, rule.prefix)),
        decision=rule.decision,
        reason=rule.reason,
        match=examples("match", rule.match),
        not_match=examples("not_match", rule.not_match),
        where=origins.where("rules", index),
    )
