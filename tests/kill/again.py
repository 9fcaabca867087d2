"""The driver for test_kill_again.py: what a person does after a failure, or while a tree waits.

`{case}-before` brings a run to its failure, or to where it waits; `{case}` goes on from there, in as many lives as it
takes: it looks at what runs there are, and does what is still to be done.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from orchestra.app import App
from orchestra.core.fork import NewAnswer
from orchestra.core.reading import RunCreated
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.providers.choose import Models
from tests.support.core import CountingDisk
from tests.support.runs import use_disk

FLOWS = {"drafts": "drafts", "failed": "top", "cancel": "top", "other": "top"}  # case -> workflow
OTHER = NewAnswer(("below.1", "a/child.1", "colour"), "파랑", "tester")


def drive_again(flow: str, project: Path, script: Path, counting: CountingDisk | None = None) -> int:
    """One life. Returns the exit code of the run that it drove last."""
    case, _, before = flow.partition("-")
    app = App(project)
    assert app.project.keyring.seal  # made before anything is counted
    os.environ["ORCHESTRA_TRUST"] = app.project.consent.digest
    if counting is not None:
        use_disk(app, counting)
    name = FLOWS[case]
    if before:
        root = app.start(name, app.job(name, {}), Models(default=f"scripted:{script}"))
        return _to_the_end(app, root, answers=case != "cancel")
    roots = [folder for folder in app.runs.folders() if app.runs.root_of(folder).id == folder.id]
    forks = [folder for folder in roots if RunCreated.of(app.project.store.first(folder)).forkedFrom]
    answer = OTHER if case == "other" else None
    fork = forks[-1] if forks else asyncio.run(app.again.without_failures(roots[0], answer=answer))
    if case != "cancel":
        return _to_the_end(app, fork, answers=True)
    if asyncio.run(app.drive(fork)).status not in FINAL.values():
        asyncio.run(app.cancel(fork, "그만"))
    return 0 if app.runs.summary(fork).fold.state.status == "canceled" else 97


def _to_the_end(app: App, root: RunFolder, *, answers: bool) -> int:
    while True:
        end = asyncio.run(app.drive(root))
        if end.status in FINAL.values() or not answers:
            return end.exit_code
        for member in app.runs.members(root, only_open=True):
            for question in app.project.store.unanswered(member.folder, member.summary.fold.pending):
                app.answers.answer(member.folder, "red", question=question, by="tester")
