"""What binds a run: the narrower of what it recorded when it began and what the project says now. Pure.

Rules
1. A run records its policy in RUN_CREATED. When it goes on, every field is as tight as the tighter of that record, the
   records of the runs above it, and the project's configuration of this moment. So a file that changed meanwhile, by a
   patch of the run itself too, can take away and never give.
2. What a person typed on a command line may be wider than the file. The record names it (`typed`), and the file of this
   moment does not narrow it. Only a flag can be typed (TYPED), and only this user's own run can say so: a foreign one
   that was adopted has typed nothing (runs/find.py: facts).
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

TYPED = ("approval", "fs", "max_retries", "max_workers")  # what a command line can say; all but the first are fields
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
    """Rule 3."""
    if old == new:
        return policy

    def named(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new + path[len(old) :] if within(path, old) else path for path in paths)

    return msgspec.structs.replace(policy, reads=named(policy.reads), writes=named(policy.writes))


def typed_of(created: RunCreated) -> tuple[str, ...]:
    """What a person typed when the run began (rule 2)."""
    return tuple(name for name in TYPED if name in created.typed)


def asks_more(created: RunCreated, present: ApprovalPolicy) -> ApprovalPolicy | None:
    """What the file says now about asking a person, if it asks more often than the run recorded; typed words stay."""
    own = created.approval
    if "approval" in typed_of(created) or own not in ASKING or ASKING.index(present) <= ASKING.index(own):
        return None
    return present


def stricter(own: ApprovalPolicy, now: ApprovalPolicy | None) -> ApprovalPolicy:
    """The one by which a person is asked more often."""
    return own if now is None else max(own, now, key=ASKING.index)


def differences(before: Policy, after: Policy) -> list[str]:
    """In which fields two policies differ, for a person."""
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
    """What a person is told of a run whose commands are contained less than they could be."""
    if tier == "none":
        return "sandbox: none. Its commands are not contained: they run as you, with your files and your network"
    return f"sandbox: {tier}. Its commands are contained less than in tier strict (docs/security.md)"


def containment(created: RunCreated, ran: Iterable[str]) -> list[str]:
    """The line of a report on commands that were contained less than they could be; none if they were not.

    `ran` are the tiers that commands ran in. Where none ran, what the run recorded when it began is told.
    """
    policy = created.policy or created.params.policy or {}
    tiers = set(ran) or {policy.get("tier", "strict") if isinstance(policy, dict) else "strict"}
    return [f"- {weaker(tier)}" for tier in sorted(tiers & {"none", "landlock"})][:1]


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
    """What a field of a policy holds, for a person."""
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
