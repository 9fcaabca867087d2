"""The workflows of a project, by name: those that come with orchestra, those passed to the App, and the person's own.

A run of an unknown workflow can be found, shown, verified and canceled as far as every run can (`of`); it cannot be
driven (`named`). The person's own workflows are loaded when a run is started or driven: looking at a run loads no code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from orchestra.core.context import Context, Verdict
from orchestra.core.errors import UsageError
from orchestra.providers.choose import ROLES
from orchestra.workflows.all import ALL
from orchestra.workflows.description import Workflow, usual_root
from orchestra.workflows.own.load import installed_names, own_names, own_workflow
from orchestra.workflows.project import Project

_OURS = frozenset(workflow.name for workflow in ALL)


class Workflows:
    """The workflows of one project."""

    def __init__(self, project: Project, more: tuple[Workflow, ...] = ()) -> None:
        self._project = project
        self._known = {workflow.name: workflow for workflow in (*ALL, *more)}
        for name in (*(own.name for own in more), *project.config.workflows):
            if name in _OURS:
                where = f"{project.origins.where('workflows', name)}: " if name in project.config.workflows else ""
                raise UsageError(f"{where}orchestra has a workflow {name} of its own; give yours another name")

    def __iter__(self) -> Iterator[Workflow]:
        return iter(self._known.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all workflows that can be started."""
        return tuple(dict.fromkeys((*self._known, *own_names(self._project))))

    @property
    def how_to_start(self) -> str:
        """What to type, for who has no run yet."""
        return "start one: " + ", or ".join(workflow.start for workflow in self if workflow.start)

    def named(self, name: str) -> Workflow:
        """The workflow of this name, loaded if it is the person's own; UsageError if there is none."""
        if name not in self._known:
            own = own_workflow(self._project, name)
            if own is None:
                cure = f'name it in orchestra.config.yaml (workflows: {{{name}: "file.py:function"}})'
                unused = "".join(f"{line}. " for line in self.unused())
                raise UsageError(
                    f"there is no workflow {name!r} here; there are {', '.join(self.names)}. {unused}"
                    f"If it is your own, {cure}, or resume it in your program"
                )
            self._known[name] = own
        return self._known[name]

    def unused(self, name: str = "") -> Iterator[str]:
        """A line for each workflow of an installed package (of this name) that is not used: orchestra has the name."""
        for taken, where in installed_names():
            if taken in _OURS and name in ("", taken):
                yield (
                    f"orchestra has a workflow {taken} of its own; that of an installed package ({where}) is not used: "
                    "give its entry point another name"
                )

    def get(self, name: str) -> Workflow | None:
        """The workflow of this name, without loading the person's code; None if it is unknown.

        A journal without a workflow's name is of the patch loop (S1 defines no name). A workflow of the person's own
        gets no table, and only the checks of every run.
        """
        found = self._known.get(name or ALL[0].name)
        return found or (self.of(name) if name in self.names else None)

    def of(self, name: str) -> Workflow:
        """The workflow of this name, for showing a run. An unknown one gets a description that fits every run."""
        return self._known.get(name) or Workflow(name=name, params=dict, flow=_unknown, goal=str)

    def root(self, name: str) -> Path:
        """The folder with the runs of this workflow."""
        return self.of(name).root(self._project)

    def roots(self) -> Iterator[Path]:
        """All folders with runs."""
        yield usual_root(self._project)
        yield from (workflow.root(self._project) for workflow in self)

    def wrong_role(self, name: str, workflow: Workflow | None = None) -> str:
        """Why no role and no agent of a workflow has this name; empty if one has.

        The agents of the person's own workflows are not known before these run. So any name may be right if `workflow`,
        which is started, is one of these, or, without `workflow`, if there is one.
        """
        fixed = [known for known in self if known.agents is not None]
        agents = (agent for known in fixed for agent in (*(known.agents or ()), *known.own_agents(self._project)))
        names = dict.fromkeys((*ROLES, *agents))
        if name in names:
            return ""
        if workflow is None:
            anybody = any(known.agents is None for known in self) or next(own_names(self._project), "") != ""
        else:
            anybody = workflow.agents is None
        return "" if anybody else f"there is no such role or agent; there are {', '.join(names)}"


async def _unknown(ctx: Context, job: object) -> Verdict:
    raise UsageError("this workflow is not known here")
