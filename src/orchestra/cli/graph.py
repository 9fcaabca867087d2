"""Shared by the commands about a task graph: its events, or an error if the run is not a task graph."""

from __future__ import annotations

from orchestra.core.errors import UsageError
from orchestra.core.events import Events
from orchestra.runs.find import RunSummary
from orchestra.workflows.dag.workflow import DAG


def graph_events(summary: RunSummary) -> Events:
    """The events of a task graph; unabridged unless it is foreign, because one event has all tasks of the plan."""
    if summary.workflow != DAG.name:
        raise UsageError(
            f"run {summary.folder.id} has no tasks: it is a {summary.workflow}, not a task graph (orchestra dag). "
            f"What it did: orchestra show {summary.folder.id}"
        )
    return summary.events if summary.foreign else summary.events.whole()
