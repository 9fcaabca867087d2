"""What the engine knows of a workflow (workflows/description.py has the rest), and what a run begins with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from orchestra.core.context import Context, Verdict
from orchestra.core.effects import ChildRun
from orchestra.core.projections import Projection
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.core.store import NO_FILES, Files
from orchestra.core.tables import Table


class Beginning(Struct, frozen=True):
    """What a run begins with: everything of its RUN_CREATED but the workflow's name."""

    params: dict[str, Any]
    facts: dict[str, Any]  # goal, models, workspace, policy and the like
    files: Files = NO_FILES  # written before RUN_CREATED, so that every run has them
    id_parts: tuple[str, str] | None = None  # the last two parts of the run's id; None: its workflow, and its goal


class Kind(Struct, frozen=True):
    """What the engine needs to know of a workflow."""

    name: str
    root: Path  # the folder of its runs
    table: Table
    params: Any
    flow: Callable[[Context, Any], Awaitable[Verdict]]
    # the step that begins a child run, and its parent's RUN_CREATED; raises to refuse
    admit_child: Callable[[ChildRun, Event], Beginning]
    projections: Callable[[RunFolder], tuple[Projection, ...]] = lambda folder: ()
    # Given the first and the last event of a run that ended: facts with which a new run goes on where this one reached
    # a limit, everything kept; None: what failed is done again.
    # the facts with which a run goes on beyond the limit it ended at; None: it did not end at one
    goes_on: Callable[[Event, Event, int | None], Mapping[str, Any] | None] = lambda created, last, fixes: None


KindOf = Callable[[str], Kind]  # by the workflow's name
