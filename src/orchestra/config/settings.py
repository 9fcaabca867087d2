"""orchestra.config.yaml -> one frozen tree, and its policy. S2's keys exactly, and our own sections.

Rules
1. Every key has a default, so no file is needed; the defaults are S2's.
2. A wrong type or an unknown key is refused with file, line, key path and the nearest known key (G2-9). All mistakes of
   the file are named at once.
3. Relative paths are relative to the folder of the file (G2-10).
4. Secrets are never in this file: a provider names the environment variable that holds its key.
5. What the file opens to tools is checked when it is read, not when a tool runs: folders (borders.py), domains, names.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from orchestra.config.borders import Place
from orchestra.config.judge import judged, refuse
from orchestra.config.sections import Config, RuleSection, alternatives
from orchestra.config.upward import FILE_NAME
from orchestra.config.yamlfile import Origins, read_yaml
from orchestra.core.domains import parse_entry
from orchestra.core.errors import UsageError
from orchestra.policy.policy import Bounds, Example, Layer, Policy, Rule

# -- reading ----------------------------------------------------------------------------------------------------------


class Loaded(Struct, frozen=True):
    """A configuration, and the line of each of its keys."""

    config: Config
    origins: Origins


def find_config(project: Path) -> Path | None:
    """The project's configuration file; None if there is none. Something else of that name is refused, not ignored."""
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
    # The folder in which the file was found, also if it is a link: relative paths begin there (rule 3).
    place = Place.of(path.absolute().parent, config.paths.runs, environ)
    told = {mistake.places for mistake in mistakes}
    refuse(path, origins, judged(config, place, told), mistakes)
    return Loaded(config, origins)


def read_own_config(path: Path, environ: Mapping[str, str] = os.environ) -> Loaded:
    """Read a person's own file: the same keys; its lines are agreed to for every project (config/consent.py).

    Its folders are outside any project, so they are not checked here; the project's own lines are.
    """
    config, origins, mistakes = read_yaml(path, Config)
    refuse(path, origins, (), mistakes)
    return Loaded(config, origins)


def to_yaml(config: Config) -> str:
    """The whole configuration as the text of a file."""
    import yaml

    return yaml.safe_dump(msgspec.to_builtins(config), allow_unicode=True, sort_keys=False)


# -- the policy of a configuration -------------------------------------------------------------------------------------


def policy_of(config: Config, base: Path, origins: Origins, environ: Mapping[str, str] = os.environ) -> Policy:
    """The policy of a configuration. Its folders are real paths; see `Policy` for those that are always there."""
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
        # The workspace can always be read: an entry adds to it, and none takes it away.
        reads=tuple(dict.fromkeys((place.base, *(place.real(e) for e in fs.allow_read if not place.private(e))))),
        writes=tuple(map(place.real, writes)),
        bounds=Bounds(**{name: getattr(sandbox, name) for name in Bounds.__struct_fields__}),
        max_task_sec=policies.max_task_duration_sec,
        max_total_sec=policies.max_total_duration_sec,
        max_retries=config.retries.max,
        max_workers=config.concurrency.max_workers,
        tier=sandbox.tier,
        loopback=tuple(sorted(set(sandbox.loopback))),
    )


def _rule(rule: RuleSection, index: int, origins: Origins) -> Rule:
    def examples(name: str, texts: tuple[str, ...]) -> tuple[Example, ...]:
        return tuple(Example(text, origins.where("rules", index, name, at)) for at, text in enumerate(texts))

    return Rule(
        prefix=tuple(map(alternatives, rule.prefix)),
        decision=rule.decision,
        reason=rule.reason,
        match=examples("match", rule.match),
        not_match=examples("not_match", rule.not_match),
        where=origins.where("rules", index),
    )
