"""The workflows of a project, by name: those that come with orchestra, and others that were handed over.

A run of a workflow that nobody knows here can still be found, shown and verified as far as every run can (`of`); it
cannot be driven (`named`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from orchestra.core.context import Context, Verdict
from orchestra.core.errors import UsageError
from orchestra.providers.choose import ROLES
from orchestra.workflows.all import ALL
from orchestra.workflows.description import Workflow, usual_root
from orchestra.workflows.project import Project


class Workflows:
    """The workflows of one project."""

    def __init__(self, project: Project, more: tuple[Workflow, ...] = ()) -> None:
        self._project = project
        self._known = {workflow.name: workflow for workflow in (*ALL, *more)}

    def __iter__(self) -> Iterator[Workflow]:
        return iter(self._known.values())

    def get(self, name: str) -> Workflow | None:
        """The workflow of this name, if it is known here. S1 has no name for it: a journal that names none is S1's."""
        return self._known.get(name or ALL[0].name)

    def named(self, name: str) -> Workflow:
        """The workflow of this name; UsageError if there is none."""
        if name not in self._known:
            raise UsageError(f"workflow {name!r} is not one of {', '.join(self._known)}")
        return self._known[name]

    def of(self, name: str) -> Workflow:
        """The same, for reading: of an unknown workflow what every run has in common."""
        return self._known.get(name) or Workflow(name=name, params=dict, flow=_unknown, goal=str)

    def root(self, name: str) -> Path:
        """The folder in which runs of this workflow lie."""
        return self.of(name).root(self._project)

    def roots(self) -> Iterator[Path]:
        """Every folder in which runs lie."""
        yield usual_root(self._project)
        yield from (workflow.root(self._project) for workflow in self)

    def wrong_role(self, name: str, workflow: Workflow | None = None) -> str:
        """Why nobody has this name; empty if somebody does: a role, or an agent of a workflow."""
        if workflow is not None and workflow.agents is None:
            return ""
        names = (*ROLES, *(agent for known in self for agent in known.agents or ()))
        return "" if name in names else f"there is no such role or agent; there are {', '.join(names)}"


async def _unknown(ctx: Context, job: object) -> Verdict:
    raise UsageError("nobody knows this workflow here")
