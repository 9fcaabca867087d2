"""Values of a configuration that have the right type and are still wrong: found when the file is read, by key path."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Set
from pathlib import Path

from orchestra.config.borders import Place, wrong_nesting, wrong_read, wrong_runs, wrong_target, wrong_write
from orchestra.config.sections import KEYS, KINDS, RUN_ID, Config, Paths, ProviderSection, RuleSection, alternatives
from orchestra.config.yamlfile import Mistake, Origins
from orchestra.core.domains import parse_entry
from orchestra.core.errors import OddFile, PolicyError, UsageError
from orchestra.core.files import MIB, read_bounded
from orchestra.policy.decide import wrong_tool_name
from orchestra.policy.inputs import wrong_variable
from orchestra.policy.policy import within

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
_OURS = ("model", "messages", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens")

_PROXY_PORT = 3128  # worker/launcher.py

Judgement = tuple[tuple[str | int, ...], str]  # key path, what is wrong


def refuse(
    path: Path,
    origins: Origins,
    wrong: Iterable[Judgement],
    mistakes: Iterable[Mistake] = (),
    kind: type[UsageError | PolicyError] = UsageError,
) -> None:
    """Raise an error with every mistake of the file, each with its line; do nothing if there is none."""
    lines = [(origins.line(*keys), f"`{'.'.join(origins.places(*keys))}`: {text}") for keys, text in wrong]
    if found := sorted([*lines, *((mistake.line, mistake.text) for mistake in mistakes)]):
        raise kind("\n".join(f"{path}:{line}: {text}" for line, text in found))


def judged(config: Config, place: Place, told: Set[tuple[str, ...]] = frozenset()) -> Iterator[Judgement]:
    """Values of the right type that are wrong (settings.py, rule 5), but no consequences of reported mistakes."""
    yield from _each(config.whitelist_tools, wrong_tool_name, "whitelist_tools")
    yield from _each(config.evidence.tools, wrong_tool_name, "evidence", "tools")
    for key in ("test", "design_check"):
        if wrong := _wrong_command(getattr(config.contracts, key)):
            yield ("contracts", key), wrong
    for key in ("orchestrators", "agents", "tasks", "rules"):
        if wrong := _wrong_inside(getattr(config.team, key)):
            yield ("team", key), wrong
    fs = config.security.fs
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
        kindless = ("providers", name, "kind") in told  # without its kind, the meaning of its other keys is unknown
        if isinstance(entry, ProviderSection) and not kindless and (wrong := _wrong_provider(name, entry)):
            yield ("providers", name), wrong
    for name, target in config.workflows.items():
        if wrong := _wrong_workflow(name, target):
            yield ("workflows", name), wrong
    if config.sandbox.loopback and config.sandbox.tier == "landlock":
        yield ("sandbox", "loopback"), "tier landlock has no network at all; set sandbox.tier to strict"
    if _PROXY_PORT in config.sandbox.loopback and config.security.net.allow_domains:
        yield ("sandbox", "loopback"), f"{_PROXY_PORT} is the port of the sandbox's own proxy for allow_domains"
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


def _wrong_command(line: str) -> str:
    """Why a line cannot be split into the words of a command; empty if it can."""
    try:
        shlex.split(line)
    except ValueError as error:
        return f"{line!r} cannot be split into words: {error}"
    return ""


def _wrong_inside(entry: str) -> str:
    parts = entry.removeprefix("./").removesuffix("/").split("/")
    outside = any(part in ("", ".", "..") for part in parts) or "\0" in entry
    return f"{entry!r}: name a place inside the project, like ./agents" if outside else ""


def _wrong_domain(entry: str) -> str:
    try:
        parse_entry(entry)
    except ValueError as error:
        return str(error)
    return ""


def _placeholders(paths: Paths, place: Place) -> Iterator[Judgement]:
    """Wrong placeholders (S2-73): {run_id} must be in the three paths of a run, and not in the folder of all runs."""
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


def _wrong_workflow(name: str, target: str) -> str:
    """Why an entry of `workflows:` is wrong; empty if it may be right."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name):
        return "the name of a workflow has small letters, digits and _ only"
    file, colon, function = target.rpartition(":")
    if not colon or not file.endswith(".py") or not function.isidentifier():
        return f'{target!r}: write "file.py:function"'
    return ""


def missing_workflows(config: Config, place: Place) -> Iterator[Judgement]:
    """The workflows that are not where the configuration has them. Their code is not run to find out.

    Not judged when the configuration is read: runs can be shown although the code of a workflow is being edited.
    """
    for name, target in config.workflows.items():
        if wrong := _missing_workflow(target, place):
            yield ("workflows", name), wrong


def _missing_workflow(target: str, place: Place) -> str:
    file, _, function = target.rpartition(":")
    try:
        tree = ast.parse(read_bounded(Path(place.named(file)), MIB))
    except (OSError, OddFile) as error:
        return f"{file}: {getattr(error, 'strerror', None) or error}"
    except (SyntaxError, ValueError) as error:
        return f"{file} is no Python: {error}"
    defined = {node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef)}
    imports = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    imported = {alias.asname or alias.name for node in imports for alias in node.names}
    if function in defined | imported:
        return ""
    return f"{file} defines no `async def {function}`" + (f"; it has {', '.join(sorted(defined))}" if defined else "")


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
    words = [alternatives(part) for part in rule.prefix]
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
