"""A configuration laid over the project's own: a scenario's `config_override`.

Rules
1. Sections are merged key by key, at any depth; a list or a value takes the place of the project's. Relative paths are
   the project's, as in its own file.
2. The merged configuration is checked like the file itself; a mistake is reported with its line in the scenario.
3. It can only narrow, like the policy of a child run or a task (policy/policy.py, rule 1). A scenario is data that may
   come from anywhere and runs unattended, often in CI; the project's file is what its owner agreed to. So the run is
   bound by the policies of both. A scenario that asks for more is refused (PolicyError) before anything runs: if it
   were narrowed silently, it would test something else than it describes. A person at the command line may allow
   more, by a flag.
4. Settings outside `Policy` that also protect something follow the same rule: the approval, the masking of secrets,
   the variables and programs that commands get, the budget, and the server or program that gets a key. The folder of
   runs is fixed: commands must not see earlier runs, and people must find them.
5. A run under a scenario goes on under the same scenario or not at all: the project's own configuration may allow more
   (app.py refuses to drive the run).

Providers, prompts, waiting times and telemetry are not restricted: scenarios exist to try others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from orchestra.config.borders import Place
from orchestra.config.judge import Judgement, judged, refuse
from orchestra.config.sections import Config, ProviderSection, at
from orchestra.config.settings import Loaded, policy_of
from orchestra.config.upward import FILE_NAME
from orchestra.config.yamlfile import Origins
from orchestra.core.errors import PolicyError
from orchestra.policy.binding import ASKING, said
from orchestra.policy.policy import Bounds, Policy, narrow

_LIMITS: dict[str, tuple[str, ...]] = {  # field of the policy -> its key
    "fs": ("policies", "default_fs_mode"),
    "reads": ("security", "fs", "allow_read"),
    "writes": ("security", "fs", "allow_write"),
    "max_task_sec": ("policies", "max_task_duration_sec"),
    "max_total_sec": ("policies", "max_total_duration_sec"),
    "max_retries": ("retries", "max"),
    "max_workers": ("concurrency", "max_workers"),
    "tier": ("sandbox", "tier"),
    "loopback": ("sandbox", "loopback"),
}
_FIXED: dict[tuple[str, ...], str] = {
    ("paths",): "runs are kept where the project's are, or its other commands would not find them",
    ("workflows",): "which code of a person's own may run, only the project says",
    ("notify",): "which command of a person's own is started, only the project says",
    ("environment",): "which environment commands use, only the project says",
    ("tools",): "which program a tool is, only the project says",
    ("sandbox", "run_as"): "as whom commands run, only the project says",
    ("budget", "prices"): "what tokens cost, and so what a budget holds, only the project says",
}


class Overlay(Struct, frozen=True):
    """A section of a file, checked by itself: the keys of a configuration."""

    path: Path
    origins: Origins  # key paths begin at the section


def laid_over(
    loaded: Loaded, policy: Policy, overlay: Overlay, base: Path, environ: Mapping[str, str]
) -> tuple[Loaded, Policy]:
    """The project's configuration with this one over it, and the policy of a run under both."""
    given = overlay.origins.given() or {}
    config = msgspec.convert(_merged(msgspec.to_builtins(loaded.config), given), Config)
    place = Place.of(base, config.paths.runs, environ)
    refuse(overlay.path, overlay.origins, judged(config, place))
    wish = policy_of(config, base, overlay.origins, environ)
    refuse(overlay.path, overlay.origins, _wider(loaded.config, config, policy, wish, overlay), kind=PolicyError)
    # The rules of both apply, so both are in the configuration that the run records.
    kept = msgspec.structs.replace(config, rules=tuple(dict.fromkeys((*loaded.config.rules, *config.rules))))
    return Loaded(kept, loaded.origins), narrow(policy, wish)


def _merged(below: Any, above: Any) -> Any:
    """Two configurations as plain values, merged (rule 1)."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return {**below, **{name: _merged(below.get(name), value) for name, value in above.items()}}


def _wider(own: Config, wanted: Config, policy: Policy, wish: Policy, overlay: Overlay) -> Iterator[Judgement]:
    """The keys of the scenario that allow more than the project does (rules 3 and 4)."""
    for index, name in enumerate(wanted.whitelist_tools):
        if name not in policy.whitelist:
            yield ("whitelist_tools", index), _refused(f"{name} is not in the project's")
    both, meant = narrow(policy, wish), narrow(wish, wish)  # `meant`: the wish in the same form
    for field, keys in _LIMITS.items():
        if getattr(both, field) != getattr(meant, field):
            yield keys, _refused(f"the project has {said(getattr(policy, field))}")
    for name in Bounds.__struct_fields__:
        if getattr(wish.bounds, name) > getattr(policy.bounds, name):
            yield ("sandbox", name), _refused(f"the project has {getattr(policy.bounds, name)}")
    if both.domains != meant.domains:
        section = ("security", "net", "allow_domains")
        keys = section if overlay.origins.given(*section) is not None else ("policies", "allow_network")
        yield keys, _refused(f"the project's tools reach {said(policy.domains) if policy.domains else 'no network'}")
    if ASKING.index(wanted.dag.approval) < ASKING.index(own.dag.approval):
        yield (
            ("dag", "approval"),
            f"the project asks a person more often ({own.dag.approval}); only you can say otherwise: "
            f"--approval {wanted.dag.approval}",
        )
    if own.security.redact_secrets and not wanted.security.redact_secrets:
        yield ("security", "redact_secrets"), _refused("the project masks secrets")
    for index, name in enumerate(wanted.sandbox.env):
        if name not in own.sandbox.env:
            yield ("sandbox", "env", index), _refused(f"the project does not hand {name} to commands")
    most = own.budget.max_usd
    if most is not None and (wanted.budget.max_usd is None or wanted.budget.max_usd > most):
        yield ("budget", "max_usd"), _refused(f"the project has {most:g}")
    longest = own.budget.max_sec
    if longest is not None and (wanted.budget.max_sec is None or wanted.budget.max_sec > longest):
        yield ("budget", "max_sec"), _refused(f"the project has {longest:g}")
    yield from _other_servers(own, wanted)
    for keys, why in _FIXED.items():
        if at(own, keys) != at(wanted, keys):
            yield keys, f"{why}: set it in {FILE_NAME}"


def _other_servers(own: Config, wanted: Config) -> Iterator[Judgement]:
    """Entries of `providers:` that would send a key to another server or program."""
    for name, entry in wanted.providers.items():
        before = own.providers.get(name)
        known = before if isinstance(before, ProviderSection) else None
        for key in (*(("kind",) if known else ()), "base_url", "key_env", "program"):
            if isinstance(entry, ProviderSection) and getattr(entry, key) != getattr(known or ProviderSection(), key):
                yield ("providers", name, key), f"to whom a key goes, only the project says: set it in {FILE_NAME}"


def _refused(what: str) -> str:
    return f"{what}, and a scenario can only narrow that; allow it in {FILE_NAME}"
