"""The description of an undo."""

from __future__ import annotations

from typing import Any

import msgspec

from orchestra.core.errors import UsageError
from orchestra.core.run import name_part
from orchestra.providers.choose import Models
from orchestra.workflows.beginning import about_another
from orchestra.workflows.description import Workflow
from orchestra.workflows.project import Project
from orchestra.workflows.undo.flow import undo
from orchestra.workflows.undo.shapes import Job, Undone
from orchestra.workflows.undo.states import TABLE

NOTHING = "nothing left to undo"


def prepare(project: Project, job: Job, models: Models) -> tuple[Job, Models]:
    """Refuse an undo that names no run: only its verb can, which looks at the runs first."""
    if not job.runs:
        raise UsageError("an undo is started by its own command: orchestra undo RUN")
    return job, models


def _id_parts(job: Job) -> tuple[str, str]:
    """The run's id ends like that of the run it takes back."""
    return "undo", name_part(job.run)


def printed(result: Any) -> str:
    """What was restored, for people."""
    done = msgspec.convert(result, Undone)
    if not done.restored:
        return NOTHING
    lines = (f"{'removed ' if path in done.removed else 'restored'}  {path}" for path in done.restored)
    return "\n".join(lines)


UNDO = Workflow(
    name="undo",
    params=Job,
    returns=Undone,
    flow=undo,
    goal=lambda job: f"undo {job.run}",
    table=TABLE,
    prepare=prepare,
    reserved=frozenset(Job.__struct_fields__),
    facts=lambda project, job: about_another(job.run, project.policy),
    id_parts=_id_parts,
    printed=printed,
    title="an undo",
    records={"undo-job": (Job, "payload.params of an undo's RUN_CREATED")},
)
