"""The driver for test_kill_again.py: what a person does after a failure, or while a tree waits.

`{case}-before` brings a run to its failure, or to where it waits; `{case}` goes on from there, in as many lives as it
takes: it looks at what runs there are, and does what is still to be done.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec

from orchestra.app import App
from orchestra.core.fork import NewAnswer
from orchestra.core.reading import RunCreated
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.providers.choose import Models
from tests.support import edited
from tests.support.core import CountingDisk
from tests.support.runs import use_disk

FLOWS = {  # case -> workflow
    "drafts": "drafts",
    "failed": "top",
    "cancel": "top",
    "other": "top",
    "stale": "tree",
    "edited": "tree",
}
JOBS = {"edited": {"asks": True}}
CANCELED = ("cancel", "edited")
EDITED = tuple(msgspec.structs.replace(one, forks_open=True) for one in edited.WORKFLOWS)
OTHER = NewAnswer(("below.1", "a/child.1", "colour"), "파랑", "tester")


def drive(flow: str, project: Path, script: Path, counting: CountingDisk | None) -> int:
    """One life. Returns the exit code of the run that it drove last."""
    case, _, before = flow.partition("-")
    app = App(project, more=EDITED)
    assert app.project.keyring.seal  # made before anything is counted
    os.environ["ORCHESTRA_TRUST"] = app.project.consent.digest
    if counting is not None:
        use_disk(app, counting)
    name = FLOWS[case]
    if before:
        root = app.start(name, app.job(name, JOBS.get(case, {})), Models(default=f"scripted:{script}"))
        code = _to_the_end(app, root, answers=case not in CANCELED)
        return _edit(app, root, case) if name == "tree" else code
    roots = [folder for folder in app.runs.folders() if app.runs.root_of(folder).id == folder.id]
    forks = [folder for folder in roots if RunCreated.of(app.project.store.first(folder)).forkedFrom]
    fork = forks[-1] if forks else _new_run(app, roots[0], case)
    if case not in CANCELED:
        return _to_the_end(app, fork, answers=True)
    if asyncio.run(app.drive(fork)).status not in FINAL.values():
        asyncio.run(app.cancel(fork, "그만"))
    return 0 if app.runs.summary(fork).fold.state.status == "canceled" else 97


def _new_run(app: App, old: RunFolder, case: str) -> RunFolder:
    if case == "stale":
        return asyncio.run(app.again.rerun(old, asyncio.run(app.again.stale(old))))
    return asyncio.run(app.again.answered(old, OTHER) if case == "other" else app.again.retry(old))


def _edit(app: App, root: RunFolder, case: str) -> int:
    """A person edits files: of a finished tree, in a child; of one that waits, in the root, which then waits again."""
    name = "왼쪽" if case == "stale" else "goal"
    (app.project.path / "계약" / f"{name}.md").write_text("사람이 고침\n", encoding="utf-8")
    return asyncio.run(app.drive(root)).exit_code


def _to_the_end(app: App, root: RunFolder, *, answers: bool) -> int:
    while True:
        end = asyncio.run(app.drive(root))
        if end.status in FINAL.values() or not answers:
            return end.exit_code
        for member in app.runs.members(root, only_open=True):
            for question in app.project.store.unanswered(member.folder, member.summary.fold.pending):
                app.answers.answer(member.folder, "red", question=question, by="tester")
