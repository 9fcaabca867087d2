"""Exploring before the plan: another workflow, run as a child, finds the facts and files that the goal is about.

Rules
1. The job says which workflow explores. It gets the goal and returns `{answer, evidence[], files[]}`.
2. What it found is a note for the planner. Its files are shown to all calls of the loop, around the lines it names.
3. A loop does not depend on it: if the child is refused, fails or finds nothing, the planner plans without.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from orchestra.core.context import Context
from orchestra.core.errors import Refused, StepFailed
from orchestra.core.shown import Wanted
from orchestra.core.text import brief, count
from orchestra.core.work import Note
from orchestra.workflows.loop.shapes import Job

EXPLORE = "explore"  # the name of the step
_AROUND = 20  # lines shown before and after those that were found
_MOST_FILES = 12


class _Found(Struct, frozen=True):
    path: str
    lines: tuple[int, int] | None = None


class _Piece(Struct, frozen=True):
    command: str
    exitCode: int | None = None


class _Result(Struct, frozen=True):
    answer: str = ""
    files: tuple[_Found, ...] = ()
    evidence: tuple[_Piece, ...] = ()


class Explored(Struct, frozen=True):
    """What was found: a note for the planner, and the files to show."""

    notes: tuple[Note, ...] = ()
    wanted: tuple[Wanted, ...] = ()


async def explore(ctx: Context, job: Job) -> Explored:
    """Run the exploring workflow, if the job names one and brings no plan along."""
    if not job.explore or job.plan:
        return Explored()
    try:
        child = await ctx.at("plan", 1).call(EXPLORE, job.explore, {"goal": job.goal})
    except (Refused, StepFailed):  # such as a goal that is too long for it; that is recorded
        return Explored()  # rule 3
    found = _read(child.result) if child.status == "completed" else None
    if found is None or not found.answer:
        return Explored()  # rule 3
    files = found.files[:_MOST_FILES]
    looked = "".join(f"\n- `{brief(one.command, 200)}`" for one in found.evidence)
    text = f"{found.answer}\n\nIt looked with:{looked or ' nothing'}\n"
    return Explored((Note("what was found before the plan", text),), tuple(map(_wanted, files)))


def told(result: Any) -> str:
    """What an exploration found and why, in one line for a person."""
    found = _read(result)
    if found is None or not found.answer:
        return "explored: nothing was found"
    files = ", ".join(one.path for one in found.files[:_MOST_FILES])
    why = f"{count(len(found.evidence), 'command')}" + (f"; shown to the planner: {files}" if files else "")
    return f"explored: {brief(found.answer, 300)} ({why})"


def _read(result: Any) -> _Result | None:
    try:
        return msgspec.convert(result, _Result) if isinstance(result, Mapping) else None
    except msgspec.ValidationError:
        return None


def _wanted(found: _Found) -> Wanted:
    if found.lines is None:
        return Wanted(file=found.path)
    first, last = found.lines
    return Wanted(file=found.path, lines=(max(1, first - _AROUND), last + _AROUND))
