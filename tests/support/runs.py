"""Runs as tests see them: read, verified and claimed through the store, by their paths."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from orchestra.app import App
from orchestra.core.disk import Disk
from orchestra.core.keyring import KEY as KEY_VARIABLE
from orchestra.core.keyring import Keyring
from orchestra.core.reading import job_of
from orchestra.core.records import Event, Finding
from orchestra.core.run import RunFolder
from orchestra.core.store import Claim, FileStore
from orchestra.runs.verify import verify as verify_run
from orchestra.workflows.description import Workflow
from tests.support.core import KEY, REDACTOR


def store_of(key: str = KEY, *, disk: Disk | None = None) -> FileStore:
    """The store of a user with this key; without a key, of one who has none."""
    environ = {KEY_VARIABLE: key} if key else {"HOME": "/nonexistent"}
    return FileStore(disk or Disk(), REDACTOR, Keyring(environ, Path("/nonexistent/project"), Disk()))


def read_events(path: Path) -> list[Event]:
    """The events of the journal at this path, unabridged, whose key ever made them."""
    return store_of().all_events(RunFolder(path.parent))


def verify(path: Path, workflows: Callable[[str], Workflow | None]) -> list[Finding]:
    """Everything that is wrong with a run folder."""
    return verify_run(store_of(), path, workflows)


def claimed(folder: RunFolder) -> AbstractContextManager[Claim]:
    """Be another process that drives the run."""
    return store_of().claim(folder)


def use_disk(app: App, disk: Disk) -> None:
    """Let everything that writes runs of this app write to another disk."""
    assert isinstance(app.project.store, FileStore)
    app.project.disk = app.engine._disk = app.project.store._disk = disk


def paces(workflow: Workflow, path: Path, job: object = None) -> list[tuple[int, int]]:
    """What the workflow tells of how far the run of this journal was, each time that it tells another step."""
    events = read_events(path)
    pace = workflow.pace(job_of(events[0]) if job is None else msgspec.to_builtins(job))
    told = [step for event in events if (step := pace(event)) is not None]
    return [step for step, before in zip(told, [None, *told], strict=False) if step != before]
