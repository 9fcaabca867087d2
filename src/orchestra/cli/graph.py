"""What the commands about a task graph share: its events, or a message that the run is none."""

from __future__ import annotations

from orchestra.core.errors import UsageError
from orchestra.core.events import Events
from orchestra.runs.find import RunSummary
from orchestra.workflows.dag.workflow import DAG


def graph_events(summary: RunSummary) -> Events:
    """The events of a run that must be a task graph: whole, if it is ours, for the tasks of a plan are in one."""
    if summary.workflow != DAG.name:
        raise UsageError(
            f"run {summary.folder.id} has no tasks: it is a {summary.workflow}, not a task graph (orchestra dag). "
            f"What it did: orchestra show {summary.folder.id}"
        )
    return summary.events if summary.foreign else summary.events.whole()
