"""A child run: against its steps inline, among many other runs, and in a tree that is resumed."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from durable import BARE_LINE, Say, say
from measure import Row, Timed, interleaved, scratch, time_text
from msgspec import Struct

from orchestra.app import App
from orchestra.core.context import Context, Verdict
from orchestra.core.disk import Disk
from orchestra.core.lines import whole
from orchestra.core.run import RunFolder
from orchestra.core.work import AskPerson
from orchestra.providers.choose import Models
from orchestra.workflows.description import Workflow

STEPS, CHILDREN, ROUNDS = 10, 8, 11
FEW, MANY, FINISHED = 10, 1_000, 100
ENVIRON = {**os.environ, "ORCHESTRA_KEY": "the key of the benchmarks"}


class Nothing(Struct, frozen=True):
    """The job of the child run."""


class Many(Struct, frozen=True):
    """How many child runs, and whether the run then waits for a person."""

    children: int = CHILDREN
    asks: bool = False


async def steps(ctx: Context) -> None:
    for number in range(STEPS):
        await ctx.perform("step", Say(number))


async def child(ctx: Context, job: Nothing) -> Verdict:
    await steps(ctx)
    return Verdict(status="completed")


class Timing:
    """A parent that times its child runs, and the same steps of its own, each with a new folder."""

    def __init__(self) -> None:
        self.child = self.inline = 0.0

    def workflows(self) -> tuple[Workflow, ...]:
        return (
            Workflow(name="child", params=Nothing, flow=child, goal=lambda job: "c", effects=lambda run: {Say: say}),
            Workflow(
                name="parent", params=Many, flow=self.parent, goal=lambda job: "p", effects=lambda run: {Say: say}
            ),
        )

    async def parent(self, ctx: Context, job: Many) -> Verdict:
        start = time.perf_counter()
        for _ in range(job.children):
            await ctx.call("child", "child", {})
        self.child = (time.perf_counter() - start) / max(job.children, 1)
        if job.asks:
            await ctx.perform(
                "ask", AskPerson(questionId="q", question="?", reason="", needed_input=(), artifact="ask/q")
            )
        start = time.perf_counter()
        for number in range(job.children):
            _folder(Path(f"{ctx.run_id}-{number}"))
            await steps(ctx)
        self.inline = (time.perf_counter() - start) / max(job.children, 1)
        return Verdict(status="completed")


def _folder(path: Path) -> None:
    """A new folder with one durable line in it."""
    path.mkdir()
    fd = os.open(path / "events.ndjson", os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(fd, BARE_LINE)
    os.fdatasync(fd)
    os.close(fd)
    Disk().sync_folder(path)
    Disk().sync_folder(path.parent)


def bench() -> list[Row]:
    with scratch("children") as folder:
        here = Path.cwd()
        os.chdir(folder)
        try:
            return [_inline(folder), _among(folder), _resumed(folder)]
        finally:
            os.chdir(here)


def _project(folder: Path, timing: Timing) -> App:
    folder.mkdir(exist_ok=True)
    return App(folder, environ=ENVIRON, more=timing.workflows())


def _run(app: App, job: Many) -> RunFolder:
    run = app.start("parent", job, Models())
    asyncio.run(app.drive(run))
    return run


def _inline(folder: Path) -> Row:
    timing = Timing()
    app = _project(folder / "inline", timing)
    _run(app, Many(2))

    def of_child() -> float:
        _run(app, Many())
        return timing.child

    times = interleaved(ROUNDS, of_child, lambda: timing.inline or of_child())
    ours, base = (time_text(times.median(side)) for side in range(2))
    return Row(f"a child run of {STEPS} steps", ours, f"{base} inline, and a folder", times.ratio(0, 1), 2.0)


def _among(folder: Path) -> Row:
    """Child runs in a project with few, and in one with many, other runs."""
    times = interleaved(ROUNDS, *(_crowded(folder / f"among-{number}", number) for number in (MANY, FEW)))
    ours, base = (time_text(times.median(side)) for side in range(2))
    return Row(f"a child run among {MANY:,} other runs", ours, f"{base} among {FEW}", times.ratio(0, 1), 1.2)


def _crowded(folder: Path, others: int) -> Timed:
    timing = Timing()
    app = _project(folder, timing)
    first = _run(app, Many(0))
    for number in range(others):
        shutil.copytree(first.path, first.path.with_name(f"2020-01-01_{number:03d}_parent_other"))

    def once() -> float:
        _run(app, Many())
        return timing.child

    once()
    return once


def _resumed(folder: Path) -> Row:
    """A tree with many finished child runs is driven again: it parks at its question."""
    timing = Timing()
    app = _project(folder / "resumed", timing)
    root = _run(app, Many(FINISHED, asks=True))
    children = [run for run in app.runs.folders() if run.id != root.id]
    if len(children) != FINISHED:
        raise RuntimeError("the tree is not whole")
    times = interleaved(ROUNDS, _timed(lambda: asyncio.run(app.drive(root))), _timed(lambda: _ends(app, children)))
    ours, base = (time_text(times.median(side)) for side in range(2))
    name = f"a tree of {FINISHED} finished child runs, driven again"
    return Row(name, ours, f"{base} their first and last lines", times.ratio(0, 1), 1.5)


def _timed(act: Callable[[], object]) -> Timed:
    def once() -> float:
        start = time.perf_counter()
        act()
        return time.perf_counter() - start

    once()
    return once


def _ends(app: App, runs: list[RunFolder]) -> None:
    """Read the first and the last event of each run."""
    for run in runs:
        app.project.store.first(run)
        with run.events.open("rb") as file:
            file.seek(max(0, run.events.stat().st_size - 65_536))
            whole(file.read().splitlines(keepends=True)[-1], str(run.events), 1)
