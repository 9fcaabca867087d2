"""Kills from outside, with four tasks running in their sandboxes: of orchestra, and of its spawner.

Every task that really runs leaves a mark in a folder it may write to, and prints a number of its own: what ran twice,
or was made again, shows.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestra.worker.usage import start_time
from tests.kill.harness import command_lines
from tests.support.project import PROGRAM, conforms, processes, until
from tests.support.tasks import Tasks, step

EARLY, LONG, LATE = ("first", "second"), ("w1", "w2", "w3", "w4"), "last"


class Graph(Tasks):
    """Two tasks, then four at once that wait for a file `go` in the workspace, then one; `more` tasks beside them."""

    def __init__(self, base: Path, *more: str) -> None:
        self.marks = base / "marks"
        self.tmp = base / "tmp"
        self.cache = base / "cache"
        for folder in (self.marks, self.tmp, self.cache):
            folder.mkdir(parents=True)
        path = base / "p"
        wait = "os.path.exists('go') or time.sleep(600)"
        plan = [
            *(step(name, code=self._code(name)) for name in EARLY),
            *(step(name, *EARLY, code=f"{self._code(name)}; {wait}  # {path}") for name in LONG),
            step(LATE, *LONG, code=self._code(LATE)),
            *(step(name, *EARLY, code=self._code(name)) for name in more),
        ]
        super().__init__(path, *plan, config={"security": {"fs": {"allow_write": [str(self.marks)]}}})
        self.env = {**os.environ, "TMPDIR": str(self.tmp), "XDG_CACHE_HOME": str(self.cache)}

    def _code(self, name: str) -> str:
        mark = f"open({str(self.marks / name)!r}, 'a').write('x')"
        return f"import os, time; {mark}; print(os.urandom(16).hex(), flush=True)"

    def go(self) -> None:
        """Let the four end."""
        (self.path / "go").touch()

    def executions(self) -> dict[str, int]:
        """How often each task really ran."""
        return {path.name: len(path.read_text()) for path in self.marks.iterdir()}

    def announced(self) -> dict[str, int]:
        """The same as the journal has it."""
        labels = [event.payload["task"] for event in self.started()]
        return {label: labels.count(label) for label in labels}

    def left(self) -> list[str]:
        """What there is of it on the machine: processes of tasks, spawners, folders for them."""
        spawners = [line for line in command_lines() if f"\0{self.tmp}/" in line]
        folders = [*self.tmp.glob("*/"), *self.cache.glob("orchestra/*/")]
        return [*processes(self.path), *spawners, *map(str, folders)]

    def resume(self) -> subprocess.CompletedProcess[str]:
        return self.run("resume", "last", "--no-input", "--json", env=self.env)

    def ending(self) -> dict[str, Any]:
        """What a kill must not change."""
        tasks = self.tasks()
        names = {str(p.relative_to(self.folder.path)) for p in self.folder.path.rglob("*") if p.suffix != ".tmp"}
        events = [event for event in self.events() if event.type != "PHASE_STARTED"]
        return {
            "states": {label: (task["state"], task["retries"]) for label, task in tasks.items()},
            "files": names,
            "events": sorted((event.type, event.payload.get("key", "")) for event in events),
        }


@contextmanager
def running(graph: Graph) -> Iterator[subprocess.Popen[bytes]]:
    """Orchestra, with the four tasks running."""
    words = [PROGRAM, "dag", "넷을 함께", "--provider", f"scripted:{graph.script}", "--no-input", "--json"]
    nothing = subprocess.DEVNULL
    with subprocess.Popen(
        words, cwd=graph.path, env=graph.env, stdin=nothing, stdout=nothing, stderr=nothing
    ) as orchestra:
        try:
            until(lambda: graph.runs and all(_said(graph, name) for name in LONG), 60)
            yield orchestra
        finally:
            if orchestra.poll() is None:
                orchestra.kill()


def _said(graph: Graph, name: str) -> str:
    path = graph.folder.path / "artifacts" / name / "stdout.txt"
    return path.read_text() if path.exists() else ""


def _spawner(orchestra: subprocess.Popen[bytes]) -> int:
    children = Path(f"/proc/{orchestra.pid}/task/{orchestra.pid}/children").read_text().split()
    [spawner] = (int(pid) for pid in children if b"spawner.py" in Path(f"/proc/{pid}/cmdline").read_bytes())
    return spawner


@pytest.fixture(scope="module")
def unkilled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    graph = Graph(tmp_path_factory.mktemp("unkilled"))
    graph.go()
    done = graph.dag(env=graph.env)
    assert done.returncode == 0, done.stderr
    assert graph.executions() == graph.announced() == dict.fromkeys((*EARLY, *LONG, LATE), 1)
    assert graph.left() == []
    return graph.ending()


@pytest.mark.spec("S1-120", "S1-121", "D-09")
@pytest.mark.parametrize("both", [False, True])
def test_killing_orchestra_leaves_no_process_and_only_unfinished_tasks_run_again(
    tmp_path: Path, unkilled: dict[str, Any], both: bool
) -> None:
    graph = Graph(tmp_path)
    with running(graph) as orchestra:
        assert len(processes(graph.path)) >= len(LONG)
        if both:  # as when memory runs out: neither has time to notice that the other is gone
            orchestra.send_signal(signal.SIGSTOP)
            os.kill(_spawner(orchestra), signal.SIGKILL)
        orchestra.kill()
    until(lambda: not processes(graph.path))
    if both:
        for folder in graph.tmp.iterdir():  # nobody was left who could
            shutil.rmtree(folder)
    until(lambda: not any(graph.tmp.iterdir()))
    finished = {name: graph.output(name) for name in EARLY}
    graph.go()
    done = graph.resume()
    assert done.returncode == 0, done.stderr
    assert {name: graph.output(name) for name in EARLY} == finished  # a second run would have said something else
    wanted = {**dict.fromkeys((*EARLY, LATE), 1), **dict.fromkeys(LONG, 2)}
    assert graph.executions() == graph.announced() == wanted
    assert graph.ending() == unkilled
    assert graph.left() == []
    conforms(graph)


@pytest.mark.parametrize("command", ["resume", "cancel"])
def test_what_outlived_orchestra_is_killed_by_the_next_life(
    tmp_path: Path, unkilled: dict[str, Any], command: str
) -> None:
    graph = Graph(tmp_path)
    with running(graph) as orchestra:
        spawner = _spawner(orchestra)
        os.kill(spawner, signal.SIGSTOP)  # it does not see orchestra die, so its commands live on
        orchestra.kill()
    try:
        old = [event.payload["process"] for event in graph.started() if event.payload["task"] in LONG]
        assert [start_time(process["pid"]) for process in old] == [process["startTime"] for process in old]
        graph.go()
        done = graph.resume() if command == "resume" else graph.run("cancel", "last", env=graph.env)
        assert done.returncode == 0, done.stderr
        assert processes(graph.path) == []
    finally:
        os.kill(spawner, signal.SIGCONT)
    until(lambda: graph.left() == [])
    if command == "resume":
        assert graph.ending() == unkilled
    conforms(graph)


def test_killing_the_spawner_fails_its_tasks_clearly_and_the_others_go_on(tmp_path: Path) -> None:
    graph = Graph(tmp_path, "beside")
    with running(graph) as orchestra:
        os.kill(_spawner(orchestra), signal.SIGKILL)
        assert orchestra.wait(60) == 1
    states = {label: task["state"] for label, task in graph.tasks().items()}
    assert states == {**dict.fromkeys((*EARLY, "beside"), "done"), **dict.fromkeys(LONG, "failed"), LATE: "blocked"}
    assert graph.executions() == dict.fromkeys((*EARLY, *LONG, "beside"), 1)
    assert graph.read("report.md").count("the spawner of the command was killed") >= len(LONG)
    assert graph.left() == []
    conforms(graph)
