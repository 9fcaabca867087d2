"""What the engine knows of a workflow (workflows/description.py has the rest), and what a run begins with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from orchestra.core.context import Context, Verdict
from orchestra.core.ledger import Projection
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.core.store import NO_FILES, Files
from orchestra.core.tables import Table


class Beginning(Struct, frozen=True):
    """What a run begins with: everything of its RUN_CREATED but the workflow's name."""

    params: dict[str, Any]
    facts: dict[str, Any]  # goal, models, workspace, policy and the like
    files: Files = NO_FILES  # written before RUN_CREATED, so that every run has them


class Kind(Struct, frozen=True):
    """What the engine needs to know of a workflow."""

    name: str
    root: Path  # the folder of its runs
    table: Table
    params: Any
    flow: Callable[[Context, Any], Awaitable[Verdict]]
    admit_child: Callable[[dict[str, Any], Event], Beginning]  # a job and its parent's RUN_CREATED; raises to refuse
    projections: Callable[[RunFolder], tuple[Projection, ...]] = lambda folder: ()


KindOf = Callable[[str], Kind]  # by the workflow's name
