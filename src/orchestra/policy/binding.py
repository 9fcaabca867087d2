"""The policy of a run that goes on: the narrower of its recorded policy and the project's policy now. Pure.

Rules
1. A run records its policy in RUN_CREATED. When it goes on, every field is as tight as the tighter of that record, the
   records of the runs above it, and the project's configuration of this moment. So a file that changed meanwhile, by a
   patch of the run itself too, can only take permissions away.
2. What a person typed on a command line may be wider than the file. The record names it (`typed`), and the file of this
   moment does not narrow it. Only a flag can be typed (TYPED), and only the record of this user's own run counts: in
   the record of a foreign run that was adopted, `typed` is ignored (runs/find.py: facts).
3. Folders of the project itself move with it: a run that a person bound to another place (core/adoption.py) names them
   by the old one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import msgspec

from orchestra.core.errors import UsageError
from orchestra.core.reading import RunCreated, effect_of, outcome_of
from orchestra.core.records import Event
from orchestra.policy.policy import ApprovalPolicy, Policy, narrow, within

TYPED = ("approval", "fs", "max_retries", "max_workers")  # what flags can set; all but the first are fields of Policy
ASKING: tuple[ApprovalPolicy, ...] = ("never", "risk", "always")


def bound(runs: Iterable[RunCreated], present: Policy, project: str) -> Policy:
    """The policy of a run in this project, from what it recorded when it began, and the runs above it."""
    policies: list[Policy] = []
    for created in runs:
        if own := recorded(created, project):
            typed = {name: getattr(own, name) for name in typed_of(created) if name != "approval"}
            policies += [own, msgspec.structs.replace(present, **typed)]
    return functools.reduce(narrow, policies) if policies else present


def recorded(created: RunCreated, project: str) -> Policy | None:
    """The policy that a run recorded; None if it recorded none. A fork is a new beginning: it recorded its own."""
    said = (None if created.forkedFrom else created.params.policy, created.policy)
    policies = [_policy(one) for one in said if one]
    moved = (_moved(one, created.workspace or project, project) for one in policies)
    return functools.reduce(narrow, moved) if policies else None


def _moved(policy: Policy, old: str, new: str) -> Policy:
    """The policy with its folders below `old` renamed to below `new` (rule 3)."""
    if old == new:
        return policy

    def named(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new + path[len(old) :] if within(path, old) else path for path in paths)

    return msgspec.structs.replace(policy, reads=named(policy.reads), writes=named(policy.writes))


def typed_of(created: RunCreated) -> tuple[str, ...]:
    """The names of the settings that a person typed when the run began (rule 2)."""
    return tuple(name for name in TYPED if name in created.typed)


def asks_more(created: RunCreated, present: ApprovalPolicy) -> ApprovalPolicy | None:
    """The file's approval mode now, if it asks a person more often than the recorded one; None if that was typed."""
    own = created.approval
    if "approval" in typed_of(created) or own not in ASKING or ASKING.index(present) <= ASKING.index(own):
        return None
    return present


def stricter(own: ApprovalPolicy, now: ApprovalPolicy | None) -> ApprovalPolicy:
    """Of two approval modes the one that asks a person more often."""
    return own if now is None else max(own, now, key=ASKING.index)


def differences(before: Policy, after: Policy) -> list[str]:
    """One line for each field in which two policies differ, for a person to read."""
    found = []
    for name in Policy.__struct_fields__:
        old, new = getattr(before, name), getattr(after, name)
        if name == "layers":
            old, new = before.whitelist, after.whitelist
            name = "whitelist_tools"
        if old != new:
            found.append(f"{name}: {said(old)} -> {said(new)}")
    return found


def weaker(tier: str) -> str:
    """The warning for a run whose commands are contained less than in tier strict."""
    if tier == "none":
        return "sandbox: none. Its commands are not contained: they run as you, with your files and your network"
    return f"sandbox: {tier}. Its commands are contained less than in tier strict (docs/security.md)"


def opened_ports(ports: Iterable[int]) -> str:
    """The warning for a run whose commands reach services of this machine; empty if they do not."""
    named = ", ".join(map(str, ports))
    return f"sandbox.loopback: its commands reach port {named} of this machine" if named else ""


def containment(created: RunCreated, ran: Iterable[str]) -> list[str]:
    """A report's lines on commands that were contained less than usual; an empty list if none were.

    `ran` are the tiers that commands ran in. If no command ran, the tier that the run recorded when it began counts.
    """
    policy = created.policy or created.params.policy or {}
    tiers = set(ran) or {str(policy.get("tier", "strict")) if isinstance(policy, dict) else "strict"}
    ports = policy.get("loopback") if isinstance(policy, dict) else None
    opened = opened_ports(port for port in ports if isinstance(port, int)) if isinstance(ports, list | tuple) else ""
    less = [f"- {weaker(tier)}" for tier in sorted(tiers & {"none", "landlock"})][:1]
    return [*less, f"- {opened}"] if opened else less


def tiers_of(events: Iterable[Event]) -> set[str]:
    """The tiers that the commands of a run ran in."""
    outcomes = (outcome_of(event) for event in events if effect_of(event) == "RunCommand")
    return {str(outcome.tier) for outcome in outcomes if outcome.tier}


def _policy(said: Any) -> Policy:
    try:
        return msgspec.convert(said, Policy)
    except msgspec.ValidationError as error:
        raise UsageError(f"the policy that the run recorded cannot be read: {error}") from error


def said(value: Any) -> str:
    """The value of a policy's field as text, for a person to read."""
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
