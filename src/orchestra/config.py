"""orchestra.config.yaml -> one frozen tree. S2's keys exactly, and our own sections (design §8).

Rules
1. Every key has a default, so no file is needed; the defaults are S2's.
2. A wrong type or an unknown key is refused with file, line, key path and the nearest known key (G2-9).
3. Relative paths are relative to the folder of the file (G2-10).
4. Secrets are never in this file: a provider names the environment variable that holds its key.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct, field

from orchestra.core.errors import UsageError

FILE_NAME = "orchestra.config.yaml"


Count = Annotated[int, Meta(ge=0, le=1000)]
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Dollars = Annotated[float, Meta(ge=0, le=1e9)]


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
    providers: dict[str, str] = field(default_factory=dict)  # name -> PROVIDER[:ARG]; `default` is used for all roles
    roles: dict[str, str] = field(default_factory=dict)  # role or agent -> PROVIDER[:ARG], or a name from `providers`
    loop: LoopSection = LoopSection()
    budget: Budget = Budget()


def find_config(project: Path) -> Path | None:
    """The project's configuration file, if it has one."""
    path = project / FILE_NAME
    return path if path.is_file() else None


def load_config(path: Path | None) -> Config:
    """Read a configuration; None is all defaults."""
    if path is None:
        return Config()
    import yaml  # a project without a file does not pay for the parser

    try:
        text = path.read_text(encoding="utf-8")
        data: Any = yaml.safe_load(text)
        tree = yaml.compose(text)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: e.g. a date that is none
        raise UsageError(f"{path} is not valid YAML: {error}") from error
    if data is None:
        return Config()
    try:
        return msgspec.convert(data, Config)
    except msgspec.ValidationError as error:
        raise UsageError(_explain(path, str(error), tree)) from error


_WHERE = re.compile(r" - at `(?:key in )?\$?(.*)`$")
_UNKNOWN = re.compile(r"unknown field `(.+?)`")


def _explain(path: Path, message: str, tree: Any) -> str:
    """msgspec's message with the line and, for an unknown key, the nearest known one."""
    where = _WHERE.search(message)
    keys = [key for key in re.split(r"[.\[\]]+", where.group(1)) if key] if where else []
    unknown = _UNKNOWN.search(message)
    if unknown:
        keys.append(unknown.group(1))
        section: Any = Config()
        for key in keys[:-1]:
            section = getattr(section, key, None)
        known = list(getattr(section, "__struct_fields__", ()))
        near = difflib.get_close_matches(keys[-1], known, n=1, cutoff=0.5)
        hint = f"did you mean `{near[0]}`?" if near else f"known keys here: {', '.join(known)}"
        return f"{path}:{_line(tree, keys)}: unknown key `{'.'.join(keys)}`; {hint}"
    what = message[: where.start()] if where else message
    allowed = _allowed(keys)
    choice = f"; it can be {', '.join(allowed)}" if allowed else ""
    return f"{path}:{_line(tree, keys)}: `{'.'.join(keys) or 'the file'}`: {what[:1].lower()}{what[1:]}{choice}"


def _allowed(keys: list[str]) -> list[str]:
    """The values a key may have, if they are a closed set."""
    kind: Any = Config
    for key in keys:
        kind = get_type_hints(kind).get(key) if isinstance(kind, type) and issubclass(kind, Struct) else None
    return [str(value) for value in get_args(kind)] if get_origin(kind) is Literal else []


def _line(node: Any, keys: list[str]) -> int:
    """The line of a key path in the YAML tree, as far as it can be followed."""
    line = int(node.start_mark.line) + 1 if node is not None else 1
    for key in keys:
        values = getattr(node, "value", None)
        if isinstance(values, list) and key.isdigit() and int(key) < len(values):
            node = values[int(key)]
            line = node.start_mark.line + 1
            continue
        pairs = [pair for pair in values if isinstance(pair, tuple)] if isinstance(values, list) else []
        match = next((pair for pair in pairs if pair[0].value == key), None)
        if match is None:
            break
        line = match[0].start_mark.line + 1
        node = match[1]
    return line
