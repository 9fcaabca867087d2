"""The job of a run in a worktree. Data only."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from orchestra.policy.policy import ApprovalPolicy


class WorktreeJob(Struct, frozen=True, omit_defaults=True):
    """The work, as a workflow and its job, and when a person must approve its result.

    `context` and `hidden` are those of the work's job: the root of a tree says what its models are shown.
    """

    workflow: str = ""
    goal: str = ""
    params: dict[str, Any] = {}
    approval: ApprovalPolicy = "always"
    context: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
