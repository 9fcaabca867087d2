"""A tree of runs that streams, driven and watched by real processes."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.project import PROGRAM, Project, until

SECRET = "sk-ant-api03-Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA"
MASK = "***REDACTED***"
TREE = """\
import orchestra


@orchestra.workflow
async def leaf(ctx: orchestra.Context, name: str) -> str:
    return await ctx.model(name, f"Write about {name}.")


@orchestra.workflow
async def tree(ctx: orchestra.Context) -> str:
    await ctx.model("first", "Begin.")
    texts = await ctx.fan_out({name: (lambda name: lambda ctx: ctx.call("work", leaf, name))(name)
                               for name in ("left", "right")})
    return "; ".join(texts.values())
"""


def reply(agent: str, text: str, **more: Any) -> dict[str, Any]:
    """A scripted reply for one agent, which it gets as often as it asks."""
    return {"match": {"agent": agent}, "text": text, "repeat": True, **more}


def made(path: Path, *replies: dict[str, Any]) -> Project:
    """A project whose workflow `tree` calls a model and then has two child runs at once, each with a call."""
    project = Project(path, *replies)
    (project.path / "tree.py").write_text(TREE, encoding="utf-8")
    project.configure('workflows: {tree: "tree.py:tree", leaf: "tree.py:leaf"}\n')
    return project


def drive(project: Project, *more: str) -> subprocess.Popen[str]:
    """The tree, driven by another process."""
    words = [PROGRAM, "start", "tree", "--provider", f"scripted:{project.script}", "--no-input", "--json", *more]
    return _begun(words, project)


def go_on(project: Project) -> subprocess.Popen[str]:
    return _begun([PROGRAM, "resume", root(project), "--no-input", "--json"], project)


def watch(project: Project, *more: str) -> subprocess.Popen[str]:
    """A process that watches the tree, with its text."""
    until(lambda: root(project))
    return _begun([PROGRAM, "watch", root(project), "--json", "--stream", *more], project)


@contextmanager
def held(driver: subprocess.Popen[str]) -> Iterator[None]:
    """Meanwhile the driver does nothing. What a watcher gets to see does not depend on how soon it was started."""
    os.kill(driver.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(driver.pid, signal.SIGCONT)


def printed(watcher: subprocess.Popen[str], text: str) -> str:
    """Wait until a process has printed this; all that it has printed, whole lines."""
    assert watcher.stdout is not None
    data = b""
    while text.encode() not in data or not data.endswith(b"\n"):
        more = os.read(watcher.stdout.fileno(), 65536)
        assert more, f"it ended without {text!r}: {data!r}"
        data += more
    return data.decode()


def has_printed(watcher: subprocess.Popen[str]) -> bool:
    """Whether a process has printed anything that nobody has read."""
    assert watcher.stdout is not None
    ready, _, _ = select.select([watcher.stdout], [], [], 0)
    return bool(ready)


def _begun(words: list[str], project: Project) -> subprocess.Popen[str]:
    return subprocess.Popen(words, cwd=project.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def root(project: Project) -> str:
    """The id of the tree's root; empty if it has not begun."""
    return next((run.id for run in project.runs if "_tree_" in run.id and run.events.exists()), "")


def seen(running: subprocess.Popen[str], before: str = "", seconds: float = 60) -> list[dict[str, Any]]:
    """What a process printed to its end, which is a good one; `before` is what was read of it already."""
    out, err = running.communicate(timeout=seconds)
    assert running.returncode == 0, err
    return [json.loads(line) for line in (before + out).splitlines()]


def events(records: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """The events among the records, by run and id."""
    return [(one["runId"], one["id"]) for one in records if "payload" in one]


def texts(records: Iterable[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """The text of every call, by agent and key, as a reader has it in the end."""
    found: dict[tuple[str, str], str] = {}
    for one in records:
        if one["type"] == "token":
            call = one["agent"], one["key"]
            found[call] = ("" if one.get("restart") else found.get(call, "")) + one["text"]
    return found


def part_of(project: Project, agent: str) -> Path:
    """The file in which an agent's reply grows."""
    return next(iter(project.path.glob(f".runs/workflows/*/artifacts/model/{agent}.raw.txt.part")), Path("/nowhere"))


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
