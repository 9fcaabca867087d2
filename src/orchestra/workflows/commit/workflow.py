"""The description of an apply."""

from __future__ import annotations

from typing import Any

import msgspec

from orchestra.core.errors import UsageError
from orchestra.core.reading import outcome_as
from orchestra.core.records import Event
from orchestra.core.run import name_part
from orchestra.core.text import count
from orchestra.core.work import Applied
from orchestra.providers.choose import Models
from orchestra.workflows.beginning import about_another
from orchestra.workflows.commit.flow import commit
from orchestra.workflows.commit.shapes import Committed, Job
from orchestra.workflows.commit.states import TABLE
from orchestra.workflows.description import Workflow
from orchestra.workflows.headline import headline
from orchestra.workflows.project import Project


def prepare(project: Project, job: Job, models: Models) -> tuple[Job, Models]:
    """Refuse an apply that names no run: only its verb can, which looks at the runs and the repository first."""
    if not job.runs or job.to is None:
        raise UsageError("a commit is made by its own command: orchestra apply RUN --branch NAME")
    return job, models


def _headline(event: Event) -> str:
    done = outcome_as(event, Applied) if event.type == "PATCH_APPLIED" else None
    return f"committed as {done.commit[:12]}" if done else headline(event)


def printed(result: Any) -> str:
    """The commit, for people."""
    done = msgspec.convert(result, Committed)
    return f"{done.commit[:12]} on {done.branch}: {count(len(done.files), 'file')}"


COMMIT = Workflow(
    name="commit",
    params=Job,
    returns=Committed,
    flow=commit,
    goal=lambda job: f"apply {job.run}",
    table=TABLE,
    prepare=prepare,
    reserved=frozenset(Job.__struct_fields__),
    facts=lambda project, job: about_another(job.run, project.policy),
    id_parts=lambda job: ("commit", name_part(job.run)),
    headline=_headline,
    printed=printed,
    title="an apply",
    records={"commit-job": (Job, "payload.params of an apply's RUN_CREATED")},
)
