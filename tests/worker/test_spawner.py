"""The spawner's own end and orchestra's: however either goes, no process of a command and no file is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestra.worker.launcher import Launcher
from orchestra.worker.leftover import kill_left_over
from orchestra.worker.task import CommandResult
from tests.worker.rig import FAMILY, PYTHON, Rig, marked, python, sh, wait_until, with_launcher

pytestmark = pytest.mark.skipif(not os.path.exists(PYTHON), reason="needs a Python that a sandbox can see")


@pytest.fixture(params=["strict", "landlock", "none"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path, tier=request.param)
    yield rig
    assert rig.left() == []


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests prepare at the same time is not counted here."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


def prepared_folders() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("orchestra-sandbox-")}


DRIVER = """
    import asyncio, sys
    sys.path[:0] = {path!r}
    from pathlib import Path
    from orchestra.core.disk import Disk
    from orchestra.core.redact import Redactor
    from orchestra.worker.launcher import Launcher
    from orchestra.worker.task import Command, Sandbox

    async def main():
        launcher = Launcher(Disk(), Redactor())
        command = Command(argv={argv!r}, cwd={cwd!r}, env={{}}, timeout_ms=600_000)
        sandbox = Sandbox(tier={tier!r}, workspace={cwd!r})
        async def one(n):
            held = await launcher.prepare(command, sandbox, Path({out!r} + str(n)), None, on_line=print)
            print("held", held.pid, held.start_time, flush=True)
            if {release!r}:
                await held.run()
            else:
                await asyncio.sleep(600)
        await asyncio.gather(*(one(n) for n in range({count!r})))

    asyncio.run(main())
"""


def drive(rig: Rig, *, count: int, release: bool) -> subprocess.Popen[str]:
    """An orchestra of its own, which will be killed."""
    values = {
        "path": sys.path,
        "argv": python(FAMILY, "600", rig.mark),
        "cwd": str(rig.workspace),
        "tier": rig.sandbox.tier,
        "out": str(rig.out),
        "release": release,
        "count": count,
    }
    code = textwrap.dedent(DRIVER).format(**values)
    return subprocess.Popen([sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("release", [True, False])
def test_killing_orchestra_leaves_no_process_and_no_file(rig: Rig, release: bool) -> None:
    before = prepared_folders()
    with drive(rig, count=4, release=release) as orchestra:
        assert orchestra.stdout is not None
        words = "ready" if release else "held"
        seen = 0
        while seen < 4:
            seen += orchestra.stdout.readline().startswith(words)
        assert rig.left()
        orchestra.send_signal(signal.SIGKILL)
    wait_until(lambda: not rig.left() and prepared_folders() <= before)


def test_killing_the_spawner_is_reported_and_leaves_no_process(rig: Rig) -> None:
    before = prepared_folders()

    async def act(launcher: Launcher) -> tuple[list[CommandResult], CommandResult]:
        ready = asyncio.Queue[str]()
        helds = [
            await rig.prepare(launcher, *python(FAMILY, "600", rig.mark), name=str(n), on_line=ready.put_nowait)
            for n in range(2)
        ]
        unreleased = await rig.prepare(launcher, *sh(f"echo ran; : {rig.mark}"), name="unreleased")
        running = [asyncio.create_task(held.run()) for held in helds]
        for _ in helds:
            await ready.get()
        os.kill(launcher.spawner, signal.SIGKILL)
        results = [await task for task in running]
        results.append(await unreleased.run())
        again = await rig.prepare(launcher, *sh("echo again"), name="again")  # a new one is started
        return results, await again.run()

    results, again = with_launcher(act)
    assert [result.error is not None and "spawner" in result.error for result in results] == [True] * 3
    assert results[2].stdout.excerpt == "" and again.stdout.excerpt == "again\n"
    wait_until(lambda: not rig.left() and prepared_folders() <= before)


def test_what_an_earlier_life_left_is_killed_only_if_it_is_still_the_same(rig: Rig) -> None:
    async def act(launcher: Launcher) -> CommandResult:
        ready = asyncio.Event()
        held = await rig.prepare(launcher, *python(FAMILY, "600", rig.mark), on_line=lambda _: ready.set())
        task = asyncio.create_task(held.run())
        await ready.wait()
        assert not kill_left_over(held.pid, held.start_time + "0") and not kill_left_over(0, "")
        assert len(marked(rig.mark)) >= 3
        assert await asyncio.to_thread(kill_left_over, held.pid, held.start_time)
        assert not kill_left_over(held.pid, held.start_time)
        return await task

    result = with_launcher(act)
    assert result.exitCode is None and (result.signal == signal.SIGKILL or result.error is not None)


def test_a_killed_keeper_takes_its_family_along(tmp_path: Path) -> None:
    rig = Rig(tmp_path, tier="none")

    async def act(launcher: Launcher) -> CommandResult:
        ready = asyncio.Event()
        held = await rig.prepare(launcher, *python(FAMILY, "600", rig.mark), on_line=lambda _: ready.set())
        task = asyncio.create_task(held.run())
        await ready.wait()
        os.kill(held.pid, signal.SIGKILL)
        return await task

    assert with_launcher(act).error is not None
    wait_until(lambda: not rig.left())


def test_closing_ends_what_runs_and_nothing_is_a_zombie(rig: Rig) -> None:
    before = prepared_folders()

    async def act(launcher: Launcher) -> CommandResult:
        ready = asyncio.Event()
        held = await rig.prepare(launcher, *python(FAMILY, "600", rig.mark), on_line=lambda _: ready.set())
        task = asyncio.create_task(held.run())
        await ready.wait()
        await launcher.close()
        return await task

    assert with_launcher(act).error is not None
    assert rig.left() == [] and prepared_folders() <= before
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert [pid for pid in children if "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]] == []


def test_of_commands_that_are_over_nothing_stays_with_the_spawner(rig: Rig) -> None:
    async def act(launcher: Launcher) -> None:
        for number in range(4):
            held = await rig.prepare(launcher, *sh(f"exit {number % 2}"), name=str(number))
            assert (await held.run()).exitCode == number % 2
        await (await rig.prepare(launcher, "/bin/true", name="dropped")).drop()
        spawner = Path(f"/proc/{launcher.spawner}")
        wait_until(lambda: not (spawner / "task" / spawner.name / "children").read_text())
        open_before = len(list((spawner / "fd").iterdir()))
        await (await rig.prepare(launcher, "/bin/true", name="last")).run()
        wait_until(lambda: len(list((spawner / "fd").iterdir())) == open_before)

    with_launcher(act)


def test_a_slow_orchestra_does_not_stop_the_clock(rig: Rig) -> None:
    async def act(launcher: Launcher) -> CommandResult:
        held = await rig.prepare(launcher, *python(FAMILY, "600", rig.mark), timeout_ms=300, grace_ms=100)
        task = asyncio.create_task(held.run())
        await asyncio.sleep(0.1)
        wait_until(lambda: not rig.left())  # blocks the event loop on purpose
        return await task

    assert with_launcher(act).timedOut
