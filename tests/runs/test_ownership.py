"""Derived files outside the run folders belong to the newest run of a lineage; an older run leaves them alone."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from pathlib import Path

import msgspec
import pytest

from orchestra.app import App
from orchestra.core.errors import UsageError
from orchestra.core.faces import News, Notice
from orchestra.core.ownership import Ownership
from orchestra.core.run import RunFolder
from orchestra.providers.choose import Models
from tests.support.edited import AGENTS, TREE, WORKFLOWS, outside
from tests.support.project import Project, until
from tests.support.runs import read_events

FORKED = msgspec.structs.replace(TREE, forks_open=True)


class Ears:
    """A face that keeps the notices."""

    def __init__(self) -> None:
        self.notices: list[str] = []

    def tell(self, news: News) -> None:
        if isinstance(news, Notice):
            self.notices.append(news.text)


def opened(project: Project, ears: Ears | None = None, *, open_forks: bool = True) -> App:
    return App(project.path, face=ears, more=(FORKED, WORKFLOWS[1]) if open_forks else WORKFLOWS)


def waiting(tmp_path: Path) -> tuple[Project, RunFolder]:
    """A run that waits for a person, with its derived files."""
    project = Project(tmp_path / "p", *({"match": {"agent": name}, "text": name} for name in AGENTS))
    app = opened(project)
    run = app.start("tree", app.job("tree", {"asks": True}), Models(default=f"scripted:{project.script}"))
    assert asyncio.run(app.drive(run)).status == "awaiting_input"
    assert owners(project) == {run.id}
    return project, run


def owners(project: Project) -> set[str]:
    """The runs that the derived files are of."""
    state, steps = (outside(project.path) / name for name in ("state.txt", "steps.txt"))
    return {state.read_text().splitlines()[0], *(line.split()[0] for line in steps.read_text().splitlines())}


def fork(app: App, run: RunFolder) -> RunFolder:
    return asyncio.run(app.again.retry(run))


def contents(project: Project) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in outside(project.path).iterdir()}


def test_the_newer_run_takes_the_files_over_and_the_older_one_leaves_them_alone_and_says_so(tmp_path: Path) -> None:
    project, run = waiting(tmp_path)
    app = opened(project)
    new = fork(app, run)
    assert owners(project) == {run.id}  # written when the new run is driven
    asyncio.run(app.drive(new))
    assert owners(project) == {new.id}
    before, ears = contents(project), Ears()
    older = opened(project, ears)
    older.answers.answer(run, "예")
    assert asyncio.run(older.drive(run)).status == "completed"
    assert contents(project) == before
    assert f"run {new.id} was made from {run.id} and has its files now: left alone" in ears.notices
    (outside(project.path) / "state.txt").unlink()
    opened(project).rebuild(app.runs.summary(run))
    assert not (outside(project.path) / "state.txt").exists()
    opened(project).rebuild(app.runs.summary(new))
    assert contents(project) == before


def test_of_two_runs_made_from_one_the_one_that_was_made_last_has_the_files(tmp_path: Path) -> None:
    project, run = waiting(tmp_path)
    app = opened(project)
    first, second = fork(app, run), fork(app, run)
    asyncio.run(app.drive(second))
    asyncio.run(app.drive(first))
    assert owners(project) == {second.id}
    store = app.project.store
    assert {Ownership(store, one).newest() for one in (run, first, second)} == {second.id}


def test_a_run_that_came_within_the_same_tick_of_a_coarse_clock_is_seen(tmp_path: Path) -> None:
    """Some disks keep times of two seconds: a folder that changed just now may change again without another time."""
    project, run = waiting(tmp_path)
    app = opened(project)
    root = run.path.parent
    now = time.time_ns()
    os.utime(root, ns=(now, now))
    owned = Ownership(app.project.store, run)
    assert owned.newest() == run.id
    new = fork(app, run)
    os.utime(root, ns=(now, now))
    assert owned.newest() == new.id


def test_a_run_that_was_canceled_before_it_did_anything_has_never_had_the_files(tmp_path: Path) -> None:
    project, run = waiting(tmp_path)
    app = opened(project)
    asyncio.run(app.cancel(fork(app, run), "그만"))
    app.answers.answer(run, "예")
    assert asyncio.run(app.drive(run)).status == "completed"
    assert owners(project) == {run.id}
    assert "RUN_COMPLETED" in (outside(project.path) / "steps.txt").read_text()


def test_a_run_of_another_user_takes_nothing_over(tmp_path: Path) -> None:
    project, run = waiting(tmp_path)
    app = opened(project)
    new = fork(app, run)
    assert Ownership(app.project.store, run).newest() == new.id
    *before, last = new.events.read_bytes().splitlines(keepends=True)
    new.events.write_bytes(b"".join(before) + last.replace(b'"seal":"', b'"seal":"0', 1))  # no key of ours made that
    assert app.runs.summary(new).foreign
    assert Ownership(app.project.store, run).newest() == run.id


def _keeps_writing(project: str, run: str, stop: str) -> None:
    """Another process that has the older run open and writes its files as fast as it can."""
    app = App(Path(project), more=(FORKED, WORKFLOWS[1]))
    folder = RunFolder(Path(run))
    events = read_events(folder.events)
    while not Path(stop).exists():
        for one in FORKED.derived(app.project, app.workflows.root, folder)[1:]:
            one.restore(events)
        Path(f"{stop}.began").touch()


def test_a_process_that_drives_the_older_run_writes_nothing_once_the_newer_one_exists(tmp_path: Path) -> None:
    project, run = waiting(tmp_path)
    stop = tmp_path / "stop"
    writer = multiprocessing.get_context("spawn").Process(
        target=_keeps_writing, args=(str(project.path), str(run.path), str(stop))
    )
    writer.start()
    until(Path(f"{stop}.began").exists)
    for _ in range(5):
        app = opened(project)
        new = fork(app, run)
        asyncio.run(app.drive(new))
        assert owners(project) == {new.id}
    stop.touch()
    writer.join()
    assert owners(project) == {new.id}
    assert writer.exitcode == 0


@pytest.mark.parametrize("how", ["fork", "answer"])
def test_a_run_whose_files_are_its_own_until_it_ends_is_not_forked_before(tmp_path: Path, how: str) -> None:
    project, run = waiting(tmp_path)
    app = opened(project, open_forks=False)
    with pytest.raises(UsageError, match=f"run {run.id} has not ended, and its files are its own until then"):
        if how == "fork":
            app.again.fork(run, "00000003")
        else:
            fork(app, run)
    asyncio.run(app.cancel(run, "그만"))
    new = fork(app, run)
    asyncio.run(app.drive(new))
    assert owners(project) == {new.id}
