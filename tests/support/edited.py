"""A tree whose files people edit, with files in the project that are derived from its events: a contract tree.

`tree` calls `part` twice, then writes a summary; with `asks` it waits for a person before its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

import orchestra
from orchestra.core.projections import Document, Lines, Projection
from orchestra.core.reading import key_of
from orchestra.core.records import Event, utf8
from orchestra.core.run import RunFolder
from orchestra.workflows.own.workflow import described
from orchestra.workflows.project import Project

AGENTS = ("왼쪽", "오른쪽", "summary")


@orchestra.workflow
async def part(ctx: orchestra.Context, name: str) -> str:
    brief = await ctx.look("brief", f"계약/{name}.md", f"{name} brief\n")
    here = await ctx.edition("design", brief=brief)
    return await here.model(name, f"design of {brief.text}")


@orchestra.workflow
async def tree(ctx: orchestra.Context, asks: bool = False) -> str:
    left = await ctx.call("left", part, name="왼쪽")
    right = await ctx.call("right", part, name="오른쪽")
    goal = await ctx.look("goal", "계약/goal.md", "goal\n")
    here = await ctx.edition("summary", left=left, right=right, goal=goal)
    text = await here.model("summary", f"{goal.text} {left} {right}")
    if asks:
        await here.ask("publish", "공개?")
    return text


def contracts(project: Project, folder: RunFolder) -> tuple[Projection, ...]:
    """Two derived files in the project: the run's id and steps as a document, and as lines."""

    def whole(events: Sequence[Event]) -> bytes:
        return utf8("".join([f"{events[0].runId}\n", *(f"{event.type} {key_of(event)}\n" for event in events)]))

    def line(event: Event) -> bytes:
        return utf8(f"{event.runId} {event.type} {key_of(event)}\n")

    place = outside(project.path)
    return Document(place / "state.txt", project.disk, whole), Lines.of(place / "steps.txt", project.disk, line)


def outside(project: Path) -> Path:
    """The folder of the derived files."""
    return project / "contracts"


TREE = msgspec.structs.replace(described(tree), projections=contracts, forks_open=False)
WORKFLOWS = (TREE, described(part))
