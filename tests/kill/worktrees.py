"""A loop in a worktree, its result as a commit, and its undo, one after the other: started, or gone on with."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from orchestra.app import App
from orchestra.core.reading import RunCreated
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.core.work import CommitTo
from orchestra.providers.choose import Models
from orchestra.workflows.commit.shapes import Job as CommitJob
from orchestra.workflows.loop.shapes import Job
from orchestra.workflows.undo.shapes import Job as UndoJob
from orchestra.workflows.worktree.shapes import WorktreeJob

BRANCH = "kept"


def drive(app: App, script: Path) -> int:
    """Everything, to its end; the exit code of what did not complete, else 0."""
    work = _begun(app, "worktree") or app.start("worktree", _work(app), Models(default=f"scripted:{script}"))
    for name in ("worktree", "commit", "undo"):
        run = _begun(app, name) or _start(app, name, work)
        if code := _finish(app, run):
            return code
    return 0


def _begun(app: App, workflow: str) -> RunFolder | None:
    found = (one for one in app.runs.folders() if RunCreated.of(app.project.store.first(one)).workflow == workflow)
    return next(found, None)


def _work(app: App) -> WorktreeJob:
    job = Job(goal="make add() add", checks=(("grep", "-q", "a + b", "calc.py"),), approval="never", evaluator=False)
    params = {name: value for name, value in msgspec.to_builtins(job).items() if name not in ("asker", "edition")}
    return WorktreeJob("loop", job.goal, params, "always")


def _start(app: App, workflow: str, work: RunFolder) -> RunFolder:
    runs = tuple(one.id for one in app.trees.changes.history(work))
    if workflow == "undo":
        return app.start(workflow, UndoJob(work.id, runs), Models())
    began = app.runs.began(work).git
    assert began is not None
    to = CommitTo("main", began.commit, True, "홍", "h@example.com", 1_700_000_000, 0, "더하기\n")
    return app.start(workflow, CommitJob(work.id, runs, to), Models())


def _finish(app: App, run: RunFolder) -> int:
    while True:
        end = asyncio.run(app.drive(run))
        if end.status in FINAL.values():
            return end.exit_code
        for request in app.trees.requests(run):
            app.answers.approve(request.run.folder, by="tester")
