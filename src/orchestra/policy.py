"""Policy: pure decisions, with their reasons. Nothing here reads or does anything.

Today it decides when a patch needs a person (G1-2). The next issue adds commands: decide(command, policy) -> allow |
ask | forbid.
"""

from __future__ import annotations

from typing import Literal, assert_never

ApprovalPolicy = Literal["always", "risk", "never"]


def reasons_to_ask(policy: ApprovalPolicy, found: tuple[str, ...]) -> tuple[str, ...]:
    """Why a person must see this patch first; none: the policy itself grants it (G1-2)."""
    match policy:
        case "never":
            return ()
        case "risk":
            return found
        case "always":
            return ("policy: every patch is approved by a person", *found)
        case unreachable:
            assert_never(unreachable)
