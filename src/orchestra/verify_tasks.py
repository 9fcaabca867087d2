"""Verify the files of a task graph against S2, by requirement id; on files alone, like verify.py, which calls it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from orchestra.core.errors import IllegalEvent
from orchestra.core.records import FINAL, Event, Finding
from orchestra.core.run import RunFolder
from orchestra.workflows.dag.plan import sorted_out
from orchestra.workflows.dag.shapes import Task
from orchestra.workflows.dag.states import move

# The field that msgspec complains about -> the requirement it breaks.
_FIELDS = {
    "task_id": "S2-15",
    "parent_id": "S2-16",
    "level": "S2-17",
    "intent": "S2-18",
    "inputs": "S2-19",
    "tools": "S2-22",
    "constraints": "S2-23",
    "state": "S2-28",
    "retries": "S2-29",
    "logs": "S2-30",
    "artifacts": "S2-34",
    "metrics": "S2-37",
    "timestamps": "S2-40",
}


def verify_tasks(folder: RunFolder, events: list[Event]) -> Iterator[Finding]:
    """Everything that is wrong with plan.json, tasks.jsonl, the artifacts they name and the report."""
    ended = events[-1].type in FINAL
    executed = any(event.phase == "execute" for event in events)
    tasks = folder.path / "tasks.jsonl"
    if executed and not tasks.is_file():
        yield Finding("S2-132", "tasks.jsonl", "is missing (orchestra resume rebuilds it)")
    if ended and executed and not folder.report.is_file():
        yield Finding("S2-133", "report.md", "is missing")
    if (folder.path / "plan.json").is_file():
        yield from _plan(folder.path / "plan.json")
    if tasks.is_file():
        yield from _tasks(folder, tasks)


def _plan(path: Path) -> Iterator[Finding]:
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        ids = [str(task["task_id"]) for task in plan["tasks"]]
        after = {str(task["task_id"]): tuple(map(str, task["depends_on"])) for task in plan["tasks"]}
        nodes, edges = plan["dag"]["nodes"], {tuple(edge) for edge in plan["dag"]["edges"]}
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        yield Finding("S2-95…S2-102", "plan.json", f"it is no plan: {error!r}")
        return
    if len(set(ids)) != len(ids):
        yield Finding("S2-58", "plan.json", "a task_id is used twice")
    if set(nodes) != set(ids):
        yield Finding("S2-103", "plan.json", "dag.nodes are not the ids of the tasks")
    if edges != {(earlier, name) for name, names in after.items() for earlier in names}:
        yield Finding("S2-104", "plan.json", "dag.edges are not the dependencies of the tasks")
    unknown = {earlier for names in after.values() for earlier in names} - set(ids)
    if unknown:
        yield Finding("S2-106", "plan.json", f"a task depends on {sorted(unknown)[0]!r}, which is not in the plan")
    elif len(sorted_out(after)) != len(after):
        yield Finding("S2-105", "plan.json", "the tasks depend on each other in a circle")


def _tasks(folder: RunFolder, path: Path) -> Iterator[Finding]:
    last: dict[str, Task] = {}
    after: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        where = f"tasks.jsonl:{number}"
        try:
            task = msgspec.json.decode(line, type=Task)
        except msgspec.ValidationError as error:
            field = str(error).partition("$.")[2].split(".")[0].split("[")[0].rstrip("`")
            missing = str(error).partition("required field `")[2].partition("`")[0]
            yield Finding(_FIELDS.get(field or missing, "S2-15…S2-42"), where, str(error))
            continue
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            yield Finding("S2-132", where, f"it is no JSON object: {error}")
            continue
        after.setdefault(task.task_id, task.depends_on)
        yield from _change(last.get(task.task_id), task, last, after[task.task_id], where)
        last[task.task_id] = task
    for task in last.values():
        yield from _artifacts(folder, task)


def _change(
    before: Task | None, task: Task, last: dict[str, Task], after: tuple[str, ...], where: str
) -> Iterator[Finding]:
    """What happened to one task, between two of its lines."""
    if before is None:
        return
    if before.state != task.state:
        try:
            move(task.label, before.state, task.state)
        except IllegalEvent as error:
            yield Finding("S2-130" if before.state in ("done", "failed") else "S2-125…S2-128", where, str(error))
    if task.state == "running" and before.state != "running":
        waits = [name for name in after if name in last and last[name].state != "done"]
        if waits:
            yield Finding("S2-129", where, f"task {task.label} began before {last[waits[0]].label} was done")
    if task.state == "planned" and task.timestamps.started_at is not None:
        yield Finding("S2-120", where, f"task {task.label} is planned and has started_at")


def is_printed(path: str) -> bool:
    """Whether this is what a command printed, not a file it handed over (`files/…`) or the patch of its changes."""
    return "/files/" not in path and not path.endswith(".raw.txt")


def _artifacts(folder: RunFolder, task: Task) -> Iterator[Finding]:
    for artifact in task.artifacts:
        try:
            data = (folder.path / artifact.path).read_bytes()
        except OSError:
            if artifact.size_bytes or not is_printed(artifact.path):  # a power cut may take the name of an empty output
                yield Finding("S2-34", artifact.path, f"task {task.label} names it, and it is not there")
            continue
        if len(data) != artifact.size_bytes:
            yield Finding("S2-35", artifact.path, f"it has {len(data)} bytes, not {artifact.size_bytes}")
        elif f"sha256:{hashlib.sha256(data).hexdigest()}" != artifact.checksum:
            yield Finding("S2-36", artifact.path, "its checksum is not the recorded one")
