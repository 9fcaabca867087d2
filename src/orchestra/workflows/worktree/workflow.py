"""The description of a run in a worktree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from orchestra.core.context import Handlers
from orchestra.core.errors import UsageError
from orchestra.core.reading import outcome_as
from orchestra.core.records import Event
from orchestra.core.text import count
from orchestra.providers.choose import Models
from orchestra.workflows.description import Ended, Hint, Running, Workflow
from orchestra.workflows.headline import headline
from orchestra.workflows.project import Project
from orchestra.workflows.worktree.effects import Made, MakeWorktree, RemoveWorktree, Worktrees
from orchestra.workflows.worktree.flow import worktree
from orchestra.workflows.worktree.shapes import Job
from orchestra.workflows.worktree.states import TABLE


def prepare(project: Project, job: Job, models: Models) -> tuple[Job, Models]:
    """Refuse a job that names no work: only the verbs of other workflows can (`--worktree`)."""
    if not job.workflow or not job.commit:
        raise UsageError("a worktree is made for another run: orchestra loop … --worktree")
    return job, models


def _facts(project: Project, job: Job) -> dict[str, Any]:
    return {"approval": job.approval, "policy": msgspec.to_builtins(project.policy)}


def _effects(running: Running) -> Handlers:
    trees = Worktrees(running.project)
    return {MakeWorktree: trees.make, RemoveWorktree: trees.remove}


def _headline(event: Event) -> str:
    made = outcome_as(event, Made) if event.type == "PHASE_COMPLETED" else None
    if made is None or not made.folder:
        return headline(event)
    if not made.files:
        return "worktree removed"
    without = f"; without links that lead out: {', '.join(made.without)}" if made.without else ""
    return f"worktree: {count(made.files, 'file')} in {made.folder}{without}"


def _results(ended: Ended) -> Iterator[Hint]:
    if any(event.type == "PATCH_APPLIED" for event in ended.events):
        yield Hint("what changed", command=("diff", ended.folder.id))


def _needs_commands(params: Mapping[str, Any]) -> bool:
    work = params.get("params")
    return isinstance(work, Mapping) and bool(work.get("checks"))


WORKTREE = Workflow(
    name="worktree",
    params=Job,
    flow=worktree,
    goal=lambda job: str(job.goal),
    table=TABLE,
    prepare=prepare,
    reserved=frozenset(Job.__struct_fields__),
    facts=_facts,
    effects=_effects,
    approval=lambda config: config.loop.approval,
    uncommitted="uncommitted changes are not in the worktree",
    needs_commands=_needs_commands,
    headline=_headline,
    after_no=lambda params, subject: "kept in the run, which ends; the result stays in the worktree",
    results=_results,
    title="a run in a worktree",
    records={"worktree-job": (Job, "payload.params of RUN_CREATED of a run in a worktree")},
)
