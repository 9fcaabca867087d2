"""The description of a run in a worktree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from orchestra.core.errors import UsageError
from orchestra.providers.choose import Models
from orchestra.workflows.description import Ended, Hint, Workflow
from orchestra.workflows.project import Project
from orchestra.workflows.worktree.flow import worktree
from orchestra.workflows.worktree.shapes import WorktreeJob
from orchestra.workflows.worktree.states import TABLE


def prepare(project: Project, job: WorktreeJob, models: Models) -> tuple[WorktreeJob, Models]:
    """Refuse a job that names no work: only verbs of other workflows can (`--worktree`). Refuse what no copy has."""
    if not job.workflow:
        raise UsageError("a worktree is made for another run: orchestra loop … --worktree")
    if lacking := project.uncopied(job.context):
        what = "a worktree has no file that .gitignore names, and none with secrets"
        raise UsageError(f"--context {lacking}: {what}; leave out --context or --worktree")
    return job, models


def _facts(project: Project, job: WorktreeJob) -> dict[str, Any]:
    policy = msgspec.to_builtins(project.policy)
    return {"approval": job.approval, "policy": policy, "asker": "person", "atEnd": True}


def _results(ended: Ended) -> Iterator[Hint]:
    if any(event.type == "PATCH_APPLIED" for event in ended.events):
        yield Hint("what changed", command=("diff", ended.folder.id))


def _needs_commands(params: Mapping[str, Any]) -> bool:
    work = params.get("params")
    return isinstance(work, Mapping) and bool(work.get("checks"))


WORKTREE = Workflow(
    name="worktree",
    params=WorktreeJob,
    flow=worktree,
    goal=lambda job: str(job.goal),
    table=TABLE,
    prepare=prepare,
    reserved=frozenset(WorktreeJob.__struct_fields__),
    facts=_facts,
    approval=lambda config: config.loop.approval,
    uncommitted="the worktree begins with your uncommitted changes",
    needs_commands=_needs_commands,
    after_no=lambda params, subject: "kept in the run, which ends; the result stays in its copy",
    results=_results,
    title="a run in a worktree",
    records={"worktree-job": (WorktreeJob, "payload.params of RUN_CREATED of a run in a worktree")},
)
