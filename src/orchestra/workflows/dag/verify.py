"""Verifies the files of a task graph against S2, by requirement id. Reads files only, like runs/verify.py."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from orchestra.core.errors import IllegalEvent, OddFile
from orchestra.core.files import digest_below, open_below
from orchestra.core.lines import MOST_EVENTS
from orchestra.core.records import Finding
from orchestra.core.run import MOST_ARTIFACT, RunFolder
from orchestra.workflows.dag.files import MOST_LINES, MOST_PLAN, decode_plan
from orchestra.workflows.dag.plan import MOST_TASKS, sorted_out
from orchestra.workflows.dag.shapes import Dag, Task, TaskArtifact, TaskState
from orchestra.workflows.dag.states import move

_PLAN, _TASKS = "plan.json", "tasks.jsonl"
_MOST_LINES, _MOST_TASKS = 2 * MOST_EVENTS, 2 * MOST_TASKS + 2  # two plans, the run and its planning

# The field in msgspec's error -> the requirement that is broken.
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


class _Wanted(Struct, frozen=True, gc=False):
    """The checked fields of a task in plan.json."""

    task_id: str
    depends_on: tuple[str, ...]


class _Plan(Struct, frozen=True):
    tasks: tuple[_Wanted, ...]
    dag: Dag


class _Task(Struct, frozen=True, gc=False):
    """What is kept of a line of tasks.jsonl, to compare it with the task's next line."""

    label: str
    state: TaskState
    started_at: str | None
    artifacts: tuple[TaskArtifact, ...]


def verify_tasks(folder: RunFolder, *, ended: bool, executed: bool) -> Iterator[Finding]:
    """All findings about plan.json, tasks.jsonl, the artifacts they name and the report."""
    if executed and not os.path.lexists(folder.path / _TASKS):
        yield Finding("S2-132", _TASKS, "is missing (orchestra resume rebuilds it)")
    if ended and executed and not folder.report.is_file():
        yield Finding("S2-133", "report.md", "is missing")
    if os.path.lexists(folder.path / _PLAN):
        yield from _plan(folder)
    if os.path.lexists(folder.path / _TASKS):
        yield from _tasks(folder)


def _plan(folder: RunFolder) -> Iterator[Finding]:
    try:
        plan = decode_plan(folder.read(_PLAN, MOST_PLAN), _Plan)
    except (OSError, OddFile, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        yield Finding("S2-95…S2-102", _PLAN, f"it is no plan: {error}")
        return
    ids = [task.task_id for task in plan.tasks]
    after = {task.task_id: task.depends_on for task in plan.tasks}
    nodes, edges = plan.dag.nodes, set(plan.dag.edges)
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


def _tasks(folder: RunFolder) -> Iterator[Finding]:
    try:
        yield from _lines(folder)
    except (OSError, OddFile) as error:
        yield Finding("S2-132", _TASKS, str(error))


def _lines(folder: RunFolder) -> Iterator[Finding]:
    last: dict[str, _Task] = {}
    after: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(folder.lines(_TASKS, MOST_LINES), start=1):
        where = f"{_TASKS}:{number}"
        if number > _MOST_LINES or len(last) > _MOST_TASKS:
            most = f"{_MOST_LINES:,} lines or {_MOST_TASKS:,} tasks"
            yield Finding("S2-132", where, f"no run has more than {most}: the rest is not read")
            break
        try:
            task = msgspec.json.decode(line, type=Task)
        except msgspec.ValidationError as error:
            field = str(error).partition("$.")[2].split(".")[0].split("[")[0].rstrip("`")
            missing = str(error).partition("required field `")[2].partition("`")[0]
            yield Finding(_FIELDS.get(field or missing, "S2-15…S2-42"), where, str(error))
            continue
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            yield Finding("S2-132", where, f"it is no JSON object: {error}")
            continue
        after.setdefault(task.task_id, task.depends_on)
        now = _Task(task.label, task.state, task.timestamps.started_at, task.artifacts)
        yield from _change(last.get(task.task_id), now, last, after[task.task_id], where)
        last[task.task_id] = now
    for now in last.values():
        yield from _artifacts(folder, now)


def _change(
    before: _Task | None, task: _Task, last: dict[str, _Task], after: tuple[str, ...], where: str
) -> Iterator[Finding]:
    """Findings about the change of a task between two of its lines."""
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
    if task.state == "planned" and task.started_at is not None:
        yield Finding("S2-120", where, f"task {task.label} is planned and has started_at")


def is_printed(path: str) -> bool:
    """Whether this is a command's output, not one of its result files (`files/…`) or the patch of its changes."""
    return "/files/" not in path and not path.endswith(".raw.txt")


def _artifacts(folder: RunFolder, task: _Task) -> Iterator[Finding]:
    for artifact in task.artifacts:
        try:
            fd = open_below(folder.path, artifact.path, MOST_ARTIFACT)
            size = os.fstat(fd).st_size
            os.close(fd)
        except OddFile as odd:
            yield Finding("S2-34", artifact.path, f"task {task.label} names it, and it {odd.what}")
            continue
        except OSError:
            if artifact.size_bytes or not is_printed(artifact.path):  # a power cut may remove an empty output file
                yield Finding("S2-34", artifact.path, f"task {task.label} names it, and it is not there")
            continue
        if size != artifact.size_bytes:
            yield Finding("S2-35", artifact.path, f"it has {size} bytes, not {artifact.size_bytes}")
        elif digest_below(folder.path, artifact.path, size) != artifact.checksum:
            yield Finding("S2-36", artifact.path, "its checksum is not the recorded one")
