"""What a policy is, and how two are put together. Pure records; decide.py reads them.

Rules
1. A policy narrows and never widens: `narrow` keeps the rules of both sides as layers, and every layer must agree; a
   task's own constraints can only tighten (S2-113).
2. The whitelist lists what may start; the sandbox is what protects: python and git can do anything (MS-1.1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from orchestra.core.domains import Entry, common

ApprovalPolicy = Literal["always", "risk", "never"]
Decision = Literal["allow", "ask", "forbid"]
FsMode = Literal["read-only", "rw"]
Tier = Literal["strict", "landlock", "none"]

Number = TypeVar("Number", int, float)

BUILT_IN = "built in"
_TIERS: dict[Tier, int] = {"none": 0, "landlock": 1, "strict": 2}


class Example(Struct, frozen=True):
    """A command line that a rule gives as an example, and its line in the file."""

    text: str
    where: str = BUILT_IN


class Rule(Struct, frozen=True, kw_only=True):
    """Commands that begin with these words; each word may have alternatives."""

    prefix: tuple[tuple[str, ...], ...]
    decision: Decision
    reason: str = ""
    match: tuple[Example, ...] = ()
    not_match: tuple[Example, ...] = ()
    where: str = BUILT_IN

    def covers(self, argv: tuple[str, ...]) -> bool:
        if len(argv) < len(self.prefix):
            return False
        return all(word in words for word, words in zip(argv, self.prefix, strict=False))

    def __str__(self) -> str:
        return " ".join(words[0] if len(words) == 1 else f"({'|'.join(words)})" for words in self.prefix)


class Layer(Struct, frozen=True, kw_only=True):
    """Whitelist and rules of one side: of a configuration, or of a parent run that narrows it."""

    whitelist: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    where: str = BUILT_IN  # of the whitelist


class Bounds(Struct, frozen=True, kw_only=True):
    """What one command and everything it starts may use."""

    memory_mb: int = 2048
    processes: int = 256
    file_mb: int = 1024
    disk_mb: int = 2048
    tmp_mb: int = 512


class Policy(Struct, frozen=True, kw_only=True):
    """Everything that is allowed. Paths are absolute, without links and `..`.

    A private /tmp and the task's own artifact folder are always there, so neither `/tmp` nor the runs folder is listed.
    """

    layers: tuple[Layer, ...]  # all of them must agree
    fs: FsMode = "read-only"
    domains: tuple[Entry, ...] = ()  # none: no network (S2-78)
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    bounds: Bounds = Bounds()
    max_task_sec: float = 300
    max_total_sec: float = 1800
    max_retries: int = 2
    max_workers: int = 4
    tier: Tier = "strict"
    loopback: tuple[int, ...] = ()  # ports of this machine that commands reach on 127.0.0.1

    @property
    def net(self) -> Literal["allow", "deny"]:
        return "allow" if self.domains else "deny"

    @property
    def whitelist(self) -> tuple[str, ...]:
        """The tools every layer names, in the order of the first."""
        first, *others = self.layers or (Layer(),)
        return tuple(name for name in first.whitelist if all(name in other.whitelist for other in others))

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(rule for layer in self.layers for rule in layer.rules)


class TaskWishes(Struct, frozen=True, kw_only=True):
    """The limits that a task requests for itself (S2-23 … S2-27); None: those of the policy."""

    max_duration_sec: float | None = None
    max_retries: int | None = None
    concurrency: int | None = None
    fs: FsMode | None = None
    net: Literal["allow", "deny"] | None = None


# -- narrowing ---------------------------------------------------------------------------------------------------------


def narrow(parent: Policy, child: Policy) -> Policy:
    """What both allow: every field as tight as the tighter side (rule 1)."""
    ours, theirs = msgspec.structs.asdict(parent.bounds), msgspec.structs.asdict(child.bounds)
    return Policy(
        layers=tuple(dict.fromkeys((*parent.layers, *child.layers))),
        fs="rw" if parent.fs == child.fs == "rw" else "read-only",
        domains=_widest(both for one in parent.domains for other in child.domains for both in common(one, other)),
        reads=_common_paths(parent.reads, child.reads),
        writes=_common_paths(parent.writes, child.writes),
        bounds=Bounds(**{name: min(ours[name], theirs[name]) for name in ours}),
        max_task_sec=min(parent.max_task_sec, child.max_task_sec),
        max_total_sec=min(parent.max_total_sec, child.max_total_sec),
        max_retries=min(parent.max_retries, child.max_retries),
        max_workers=min(parent.max_workers, child.max_workers),
        tier=max(parent.tier, child.tier, key=lambda tier: _TIERS[tier]),
        loopback=tuple(sorted(set(parent.loopback) & set(child.loopback))),
    )


def with_tools(policy: Policy, tools: tuple[str, ...]) -> Policy:
    """The policy with a workflow's own whitelist added to that of every layer. Rules and sandbox stay as they are."""
    if not tools:
        return policy
    layers = (
        msgspec.structs.replace(layer, whitelist=tuple(dict.fromkeys((*layer.whitelist, *tools))))
        for layer in policy.layers
    )
    return msgspec.structs.replace(policy, layers=tuple(layers))


def for_task(policy: Policy, constraints: TaskWishes) -> Policy:
    """The policy of one task: a constraint wider than the policy is cut to it (S2-113), a narrower one is kept."""
    return msgspec.structs.replace(
        policy,
        fs="read-only" if constraints.fs == "read-only" else policy.fs,
        domains=() if constraints.net == "deny" else policy.domains,
        max_task_sec=_cut(constraints.max_duration_sec, policy.max_task_sec, least=0.001),
        max_retries=_cut(constraints.max_retries, policy.max_retries, least=0),
        max_workers=_cut(constraints.concurrency, policy.max_workers, least=1),
    )


def _cut(wish: Number | None, limit: Number, *, least: Number) -> Number:
    """The wish, at most the limit; a wish that makes no sense (0 s, NaN) counts as the limit."""
    return min(wish, limit) if wish is not None and wish >= least else limit


def digest(policy: Policy) -> str:
    """The digest of what a policy allows, for every task's record. Line numbers and reasons do not count."""
    facts: dict[str, Any] = msgspec.to_builtins(policy)
    facts["layers"] = sorted({_canonical(layer) for layer in policy.layers})
    facts["domains"] = [str(entry) for entry in _widest(policy.domains)]
    facts["reads"], facts["writes"] = _outermost(policy.reads), _outermost(policy.writes)
    if not policy.loopback:
        del facts["loopback"]  # digests of older runs have no such field
    facts["max_task_sec"], facts["max_total_sec"] = float(policy.max_task_sec), float(policy.max_total_sec)
    return f"sha256:{hashlib.sha256(msgspec.json.encode(facts, order='sorted')).hexdigest()}"


def _canonical(layer: Layer) -> str:
    rules = sorted({(rule.decision, tuple(tuple(sorted(words)) for words in rule.prefix)) for rule in layer.rules})
    return msgspec.json.encode([sorted(set(layer.whitelist)), rules]).decode()


def within(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it, by whole components: `/runs-evil` is not in `/runs`."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _common_paths(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
    inner = [one for one in ours if any(within(one, other) for other in theirs)]
    return _outermost((*inner, *(one for one in theirs if any(within(one, other) for other in ours))))


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    every = sorted(set(paths))
    return tuple(path for path in every if not any(path != other and within(path, other) for other in every))


def _widest(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Entries in order, without those that another one covers."""
    every = sorted(set(entries), key=str)
    return tuple(one for one in every if not any(one != other and common(one, other) == (one,) for other in every))
