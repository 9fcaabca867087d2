"""A plan as text for people: an overview with one line per task, or every task in full.

Rules
1. The overview may leave tasks out, and then a line counts them. `whole_plan` leaves nothing out: a person approves it.
2. A line break in an argument, a variable or a file cannot look like another task: every further line is marked.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from orchestra.core.cells import table
from orchestra.core.command import typed
from orchestra.core.text import and_more, clean
from orchestra.workflows.dag.plan import sorted_out
from orchestra.workflows.dag.shapes import Plan, PlannedTask
from orchestra.workflows.description import ShownLine

SHOWN = 60  # tasks in the overview
Tasks = dict[str, PlannedTask]


def plan_lines(plan: Plan, path: Path) -> list[ShownLine]:
    """The plan as a graph: each task is indented by its depth. `path` is the file with the whole plan."""
    tasks, order, depth = _ordered(plan)
    rows = [_row(tasks[name], depth[name], tasks) for name in order[:SHOWN]]
    lines = table(("  task", "after", "may", "command"), rows)
    cut = not all(line.endswith(_command(tasks[name])) for name, line in zip(order, lines[1:], strict=False))
    shown = [ShownLine(lines[0], "dim"), *map(ShownLine, lines[1:])]
    more = and_more(order, SHOWN, "  … ")
    if more:
        shown.append(ShownLine(more))
    brought = any(task.inputs.env or task.inputs.files for task in tasks.values())
    if cut or brought or more:
        shown.append(ShownLine(f"  shortened; the full plan: {path}"))
    return shown + _warnings(plan)


def whole_plan(plan: Plan, path: Path) -> list[ShownLine]:
    """Every task in full, and the path of the plan's file."""
    tasks, order, _ = _ordered(plan)
    lines = [line for name in order for line in _whole(tasks[name], tasks)]
    return [*lines, *_warnings(plan), ShownLine(f"  plan: {path}")]


def _whole(task: PlannedTask, tasks: Tasks) -> Iterator[ShownLine]:
    inputs, limits = task.inputs, task.constraints
    yield ShownLine(f"  {clean(task.label)}  {clean(' '.join(task.intent.split()))}", "bold")
    yield from map(ShownLine, marked("    runs   ", _command(task)))
    for name, value in inputs.env.items():
        yield from map(ShownLine, marked("    with   ", f"{name}={value}"))
    for file in inputs.files:
        yield from map(ShownLine, marked("    file   ", f"{file.path}\n{file.content}"))
    if task.depends_on:
        yield ShownLine(f"    after  {', '.join(_label(name, tasks) for name in task.depends_on)}")
    yield ShownLine(f"    may    {_may(task)}; at most {limits.max_duration_sec:g} s, {limits.max_retries} retries")


def marked(head: str, text: str) -> list[str]:
    """Text of one or more lines after a head; further lines are marked (rule 2)."""
    first, *more = clean(text).split("\n")
    return [head + first, *(" " * (len(head) - 2) + "| " + line for line in more)]


def _ordered(plan: Plan) -> tuple[Tasks, list[str], dict[str, int]]:
    """The tasks, the order of the tree, and the depth of each in it.

    A task hangs below the deepest of those it depends on, the last of them if several are; all are in its row.
    """
    tasks = {task.task_id: task for task in plan.tasks}
    depth = _depths(tasks)
    below: dict[str | None, list[str]] = {}
    for name, task in tasks.items():
        before = [one for one in reversed(task.depends_on) if one in tasks and depth[one] < depth[name]]
        below.setdefault(max(before, key=lambda earlier: depth[earlier], default=None), []).append(name)
    order: list[str] = []
    left = below.get(None, [])[::-1]
    while left:
        order.append(left.pop())
        left += below.get(order[-1], [])[::-1]
    return tasks, order, depth


def _warnings(plan: Plan) -> list[ShownLine]:
    return [ShownLine(f"  ! {clean(text)}", "warning") for text in plan.warnings]


def _row(task: PlannedTask, depth: int, tasks: Tasks) -> tuple[str, str, str, str]:
    after = ", ".join(_label(name, tasks) for name in task.depends_on[:4])
    more = f" +{len(task.depends_on) - 4}" if len(task.depends_on) > 4 else ""
    branch = "  " + "   " * max(min(depth, 8) - 1, 0) + ("└─ " if depth else "")
    return branch + clean(task.label), after + more, _may(task), clean(" ".join(_command(task).split()))


def _label(name: str, tasks: Tasks) -> str:
    """The label of the task with this id; the id itself if the plan has no such task."""
    return clean(tasks[name].label if name in tasks else name)


def _command(task: PlannedTask) -> str:
    return typed((*task.tools, *task.inputs.args))


def _may(task: PlannedTask) -> str:
    box = task.constraints.sandbox
    return ("write" if box.fs == "rw" else "read") + (", network" if box.net == "allow" else "")


def _depths(tasks: Tasks) -> dict[str, int]:
    """The depth of each task: how many steps come before it. In a cycle of a damaged plan it is 0."""
    after = {name: tuple(earlier for earlier in task.depends_on if earlier in tasks) for name, task in tasks.items()}
    depths = dict.fromkeys(tasks, 0)
    for name in sorted_out(after):
        depths[name] = 1 + max((depths[earlier] for earlier in after[name]), default=-1)
    return depths
