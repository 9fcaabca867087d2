"""A plan as people see it: one line a task, in an order that works, under what it waits for."""

from __future__ import annotations

import shlex
from typing import Any

import click

from orchestra.cli.text import safe
from orchestra.cli.wide import table
from orchestra.workflows.dag.plan import sorted_out

SHOWN = 60  # tasks; a longer plan is better read in its file


def plan_lines(plan: dict[str, Any]) -> list[str]:
    """The plan as a graph: indented by how many steps lie before it."""
    tasks = {task["task_id"]: task for task in plan["tasks"]}
    depth = _depths(tasks)
    order = sorted(tasks, key=lambda name: depth[name])  # stable: the plan's own order within a step
    rows = [_row(tasks[name], depth[name], tasks) for name in order[:SHOWN]]
    lines = table(("  task", "after", "may", "command"), rows)
    lines = [click.style(lines[0], dim=True), *lines[1:]]
    if len(order) > SHOWN:
        lines.append(f"  … and {len(order) - SHOWN} more (plan.json)")
    return lines + [click.style(f"  ! {safe(text)}", fg="yellow") for text in plan.get("warnings", ())]


def _row(task: dict[str, Any], depth: int, tasks: dict[str, dict[str, Any]]) -> tuple[str, str, str, str]:
    box = task["constraints"]["sandbox"]
    may = ("write" if box["fs"] == "rw" else "read") + (", network" if box["net"] == "allow" else "")
    after = ", ".join(safe(tasks[name]["label"]) for name in task["depends_on"][:4])
    more = f" +{len(task['depends_on']) - 4}" if len(task["depends_on"]) > 4 else ""
    branch = "  " + "   " * max(min(depth, 8) - 1, 0) + ("└─ " if depth else "")
    command = shlex.join((*task["tools"], *task["inputs"]["args"]))
    return branch + safe(task["label"]), after + more, may, safe(" ".join(command.split()))


def _depths(tasks: dict[str, dict[str, Any]]) -> dict[str, int]:
    """How many steps lie before each task; a plan has no cycle."""
    after = {name: tuple(task["depends_on"]) for name, task in tasks.items()}
    depths: dict[str, int] = {}
    for name in sorted_out(after):
        depths[name] = 1 + max((depths[earlier] for earlier in after[name]), default=-1)
    return depths
